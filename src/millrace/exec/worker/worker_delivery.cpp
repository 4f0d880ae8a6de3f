// What becomes of packets that have gone through a chain: sent, dropped, punted, passed on to the next chain.
#include <rte_cycles.h>

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/exec/worker/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/io/release.hpp"

namespace millrace::exec {
namespace {

constexpr size_t kMaxOffered = 512;                  // packets at once
constexpr uint64_t kBufferPatienceNs = 100'000'000;  // for a buffer to come free

}  // namespace

/// What became of a packet in its own chain, of a program that classified it.
Verdict Worker::verdict_in_chain(const chain::Program& program, const Verdict& verdict) {
    Verdict own = verdict;
    if (verdict.node < program.nodes.size())
        own.node = program.parts[chain_of(program, verdict)].node_of_chain(verdict.node);
    else own.decision.detail = kNoDetail;
    return own;
}

/// Delivers packets of a program that classified them, chain by chain.
void Worker::deliver_classified(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                                const Verdict* verdicts, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const uint16_t chain = chain_of(program, verdicts[i]);
        if (chain == chain::kNoChain) {
            freed_.push_back(mbufs[i]);
            continue;
        }
        Classified& own = classified_[chain];
        if (own.mbufs.empty()) chains_of_burst_.push_back(chain);
        own.mbufs.push_back(mbufs[i]);
        own.verdicts.push_back(verdict_in_chain(program, verdicts[i]));
    }
    for (const uint16_t chain : chains_of_burst_) {
        Classified& own = classified_[chain];
        deliver(*program.parts[chain].chain, counters.of_chain(chain), own.mbufs.data(), own.verdicts.data(),
                own.mbufs.size());
        own.mbufs.clear();
        own.verdicts.clear();
    }
    chains_of_burst_.clear();
    finish_delivery();
}

void Worker::deliver(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                     const Verdict* verdicts, size_t count) {
    if (program.classifier != nullptr) return deliver_classified(program, counters, mbufs, verdicts, count);
    // Neighbours mostly share their verdict.
    for (size_t first = 0, next = 0; first < count; first = next) {
        const Verdict& verdict = verdicts[first];
        next = first + 1;
        while (next < count && verdicts[next].target == verdict.target && verdicts[next].node == verdict.node &&
               verdicts[next].out_port == verdict.out_port &&
               (verdict.node != kNoNode || verdicts[next].decision.outcome == verdict.decision.outcome))
            ++next;
        deliver_run(program, counters, {mbufs + first, next - first}, verdicts + first);
    }
    finish_delivery();
}

void Worker::finish_delivery() {
    if (!freed_.empty()) {
        io::release_packets(freed_.data(), freed_.size());
        freed_.clear();
    }
    const auto ports = static_cast<uint16_t>(outgoing_.size());
    for (uint16_t port = 0; port < ports; ++port)
        if (outgoing_[port].mbufs.size() >= burst_.size()) send_out(port);
}

/// The port that a packet leaves by whose chain has reached its output.
uint16_t Worker::output_of(const chain::Program& program, const Verdict& verdict) const {
    return verdict.out_port != kNoPort && verdict.out_port < outgoing_.size() ? verdict.out_port : program.output;
}

/// The verdicts differ in their decisions' details at most.
void Worker::deliver_run(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs,
                         const Verdict* verdicts) {
    using Kind = chain::Target::Kind;
    const Verdict& verdict = verdicts[0];
    const auto release = [&] { freed_.insert(freed_.end(), mbufs.begin(), mbufs.end()); };
    switch (verdict.target.kind) {
        case Kind::output: {
            if (is_port_set(verdict.out_port)) {
                if (verdict.out_port & kPortSetPunt)
                    for (size_t i = 0; i < mbufs.size(); ++i) punt_copy(program, counters, mbufs[i], verdicts[i]);
                send_by_all(program, counters, mbufs, verdict.out_port);
                break;
            }
            const uint16_t port = output_of(program, verdict);
            if (port != kNoPort) {
                leave_by(port, program, counters, mbufs);
            } else {
                counters.exit_drops[static_cast<size_t>(ExitDrop::no_output)].add(mbufs.size());
                release();
            }
            break;
        }
        case Kind::port: leave_by(verdict.target.value, program, counters, mbufs); break;
        case Kind::chain:
            counters.passed_on.add(mbufs.size());
            pass_on(verdict.target.value, mbufs);
            break;
        case Kind::punt:
            if (nf::PuntTaker* const taker = program.nodes[verdict.node].nf->punt_taker()) {
                for (size_t i = 0; i < mbufs.size(); ++i) punt(counters, mbufs[i], *taker, verdicts[i].decision);
                break;
            }
            if (program.punt_port == kNoPort) {
                counters.exit_drops[static_cast<size_t>(ExitDrop::no_punt_port)].add(mbufs.size());
                release();
                break;
            }
            counters.punted.add(leave_in_order(program.punt_port, program, counters, mbufs, nullptr));
            break;
        case Kind::drop:
        case Kind::node:
            counters.count_drops(verdict, mbufs.size());
            release();
            break;
    }
}

void Worker::punt(ChainCounters& counters, rte_mbuf* mbuf, nf::PuntTaker& taker, const Decision& decision) {
    if (taker.take(mbuf, decision)) {
        counters.punted.add(1);
    } else {
        counters.exit_drops[static_cast<size_t>(ExitDrop::punt_full)].add(1);
        freed_.push_back(mbuf);
    }
}

/// A copy for whoever takes the punts of the NF that wanted it: the chain's first that has somebody; else for the punt
/// port.
void Worker::punt_copy(const chain::Program& program, ChainCounters& counters, rte_mbuf* mbuf, const Verdict& verdict) {
    counters.copied.add(1);
    rte_mbuf* const copy = rte_pktmbuf_copy(mbuf, mbuf->pool, 0, mbuf->pkt_len);
    if (copy == nullptr) return counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
    copy->port = mbuf->port;
    for (size_t node = 0; node < program.nodes.size(); ++node) {
        nf::PuntTaker* const taker = program.nodes[node].nf->punt_taker();
        if (taker == nullptr) continue;
        const uint64_t before = counters.punted.get();
        punt(counters, copy, *taker,
             verdict.node == node ? verdict.decision : Decision{kNoDetail, verdict.decision.outcome});
        return counters.punted_copies.add(counters.punted.get() - before);
    }
    if (program.punt_port == kNoPort) {
        counters.exit_drops[static_cast<size_t>(ExitDrop::no_punt_port)].add(1);
        return freed_.push_back(copy);
    }
    const size_t packets = leave_in_order(program.punt_port, program, counters, {&copy, 1}, nullptr);
    counters.punted.add(packets);
    counters.punted_copies.add(packets);
}

/// The last port of the set gets the packets themselves, the others copies: a port may change what it sends.
void Worker::send_by_all(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs,
                         uint16_t set) {
    const uint32_t ports = set & ((uint32_t{1} << std::min<size_t>(outgoing_.size(), kPortSetPorts)) - 1);
    if (ports == 0) {
        counters.exit_drops[static_cast<size_t>(ExitDrop::no_output)].add(mbufs.size());
        freed_.insert(freed_.end(), mbufs.begin(), mbufs.end());
        return;
    }
    for (uint16_t port = 0; ports >> port != 0; ++port) {
        if (!(ports >> port & 1)) continue;
        if (ports >> port == 1) {
            leave_by(port, program, counters, mbufs);
            continue;
        }
        for (rte_mbuf* mbuf : mbufs) {
            counters.copied.add(1);
            rte_mbuf* const copy = rte_pktmbuf_copy(mbuf, mbuf->pool, 0, mbuf->pkt_len);
            if (copy != nullptr) leave_by(port, program, counters, {&copy, 1});
            else counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
        }
    }
}

void Worker::Outgoing::remove(size_t count) {
    mbufs.erase(mbufs.begin(), mbufs.begin() + static_cast<ptrdiff_t>(count));
    size_t whole = 0;
    for (; count > 0 && runs[whole].count <= count; ++whole) count -= runs[whole].count;
    if (count > 0) runs[whole].count -= count;
    runs.erase(runs.begin(), runs.begin() + static_cast<ptrdiff_t>(whole));
}

/// Offers a port what waits for it until it takes no more. The rest stays for the next iteration, and is dropped by
/// name when the port has taken nothing for too long.
void Worker::send_out(uint16_t port_index) {
    Outgoing& outgoing = outgoing_[port_index];
    io::Port& port = *runtime_.ports_[port_index];
    size_t taken = 0;
    {
        std::unique_lock<SpinLock> shared_queue;
        if (runtime_.send_locks_[port_index]) shared_queue = std::unique_lock(*runtime_.send_locks_[port_index]);
        for (const Outgoing::Run& block : outgoing.runs) {
            const size_t of_run = offer(port, std::span(outgoing.mbufs).subspan(taken, block.count), block.sender);
            taken += of_run;
            if (of_run < block.count) break;
        }
    }
    if (taken == outgoing.mbufs.size()) {
        outgoing.mbufs.clear();
        outgoing.runs.clear();
        outgoing.stuck_since = 0;
        return;
    }
    if (taken > 0) {
        outgoing.remove(taken);
        outgoing.stuck_since = 0;
    } else if (gives_up(port, outgoing)) {
        drop_unsent(outgoing);
    }
}

/// Whether a port that has just taken nothing is one that will not.
bool Worker::gives_up(const io::Port& port, Outgoing& outgoing) {
    if (!port.can_send()) return true;
    const uint64_t now = rte_rdtsc();
    if (outgoing.stuck_since == 0) outgoing.stuck_since = now;
    return to_nanoseconds(now - outgoing.stuck_since) > static_cast<uint64_t>(port.send_patience().count());
}

void Worker::drop_unsent(Outgoing& outgoing) {
    for (const Outgoing::Run& block : outgoing.runs)
        if (block.sender != nullptr)
            block.sender->exit_drops[static_cast<size_t>(ExitDrop::transmit_full)].add(block.count);
    if (!outgoing.mbufs.empty())
        rte_pktmbuf_free_bulk(outgoing.mbufs.data(), static_cast<unsigned>(outgoing.mbufs.size()));
    outgoing.mbufs.clear();
    outgoing.runs.clear();
}

uint16_t Worker::send_queue(const io::Port& port) const {
    return static_cast<uint16_t>(port.info().send_queues == 0 ? 0 : index_ % port.info().send_queues);
}

/// How many of them the port takes.
size_t Worker::offer(io::Port& port, std::span<rte_mbuf* const> mbufs, ChainCounters* sender) {
    if (!port.can_send()) return 0;
    const auto bytes_of = [](std::span<rte_mbuf* const> some) {
        uint64_t bytes = 0;
        for (const rte_mbuf* mbuf : some) bytes += mbuf->data_len;
        return bytes;
    };
    const uint16_t queue = send_queue(port);
    size_t all = 0;
    while (all < mbufs.size()) {
        // The port owns what it takes, so bytes are counted before.
        const auto asked = mbufs.subspan(all, std::min(mbufs.size() - all, kMaxOffered));
        const uint64_t bytes = bytes_of(asked);
        const uint16_t taken = port.send(queue, const_cast<rte_mbuf**>(asked.data()),
                                         static_cast<uint16_t>(asked.size()));
        if (taken == 0) break;
        if (sender != nullptr) {
            sender->sent_packets.add(taken);
            sender->sent_bytes.add(bytes - bytes_of(asked.subspan(taken)));
        }
        all += taken;
    }
    return all;
}

/// Frames go on without mbufs where they are dropped, and where their port can send them so.
FrameWay Worker::way_of(const chain::Program& program, const Verdict& verdict) const {
    using Kind = chain::Target::Kind;
    if (verdict.target.kind == Kind::drop || verdict.target.kind == Kind::node) return {FrameWay::Kind::dropped};
    uint16_t port = kNoPort;
    if (verdict.target.kind == Kind::port) port = verdict.target.value;
    if (verdict.target.kind == Kind::output && !is_port_set(verdict.out_port)) {
        const uint16_t chain = program.classifier != nullptr ? chain_of(program, verdict) : chain::kNoChain;
        port = output_of(chain != chain::kNoChain ? *program.parts[chain].chain : program, verdict);
    }
    if (port != kNoPort && runtime_.ports_[port]->sends_frames()) return {FrameWay::Kind::by_port, port};
    return {FrameWay::Kind::alone};
}

size_t Worker::port_count() const { return outgoing_.size(); }

/// What only packets of their own can do: be punted, led to another chain, sent by several ports or one that wants
/// mbufs.
void Worker::deliver_frames(const chain::Program& program, ChainCounters& counters, const io::ReceiveBlock& block,
                            std::span<const io::FramePieces> frames, const Verdict& verdict,
                            const device::PacketResult* results) {
    if (program.classifier != nullptr) {
        const uint16_t chain = chain_of(program, verdict);
        return deliver_frames(*program.parts[chain].chain, counters.of_chain(chain), block, frames,
                              verdict_in_chain(program, verdict), results);
    }
    for (const io::FramePieces& frame : frames) {
        rte_mbuf* const copy = copy_of(block, frame);
        if (copy == nullptr) {
            counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
            continue;
        }
        Verdict own = verdict;
        if (verdict.node < program.nodes.size()) own.decision.detail = detail_of(results[frame.index].detail);
        deliver_run(program, counters, std::span(&copy, 1), &own);
    }
    finish_delivery();
}

size_t Worker::send_frames(uint16_t port_index, const io::ReceiveBlock& block,
                           std::span<const io::FramePieces> frames) {
    Outgoing& outgoing = outgoing_[port_index];
    if (!outgoing.mbufs.empty()) send_out(port_index);  // those came first
    if (!outgoing.mbufs.empty()) return 0;
    io::Port& port = *runtime_.ports_[port_index];
    std::unique_lock<SpinLock> shared_queue;
    if (runtime_.send_locks_[port_index]) shared_queue = std::unique_lock(*runtime_.send_locks_[port_index]);
    size_t all = 0;
    while (all < frames.size()) {
        const size_t sent = port.send_frames(send_queue(port), block, frames.subspan(all));
        if (sent == 0) break;
        all += sent;
        outgoing.stuck_since = 0;
    }
    return all;
}

void Worker::hold_frames(uint16_t port_index, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames,
                         ChainCounters& sender) {
    Outgoing& outgoing = outgoing_[port_index];
    if (outgoing.mbufs.empty() && gives_up(*runtime_.ports_[port_index], outgoing))
        return sender.exit_drops[static_cast<size_t>(ExitDrop::transmit_full)].add(frames.size());
    // What waits does so in packets of its own: the frames' memory is the port's again that received them.
    for (const io::FramePieces& frame : frames) {
        rte_mbuf* const copy = copy_of(block, frame);
        if (copy != nullptr) outgoing.add({&copy, 1}, &sender);
        else sender.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
    }
}

/// A buffer for a copy. While packets in such buffers wait for ports, more come free.
rte_mbuf* Worker::buffer_of(const io::PacketPool& pool) {
    rte_mbuf* buffer = rte_pktmbuf_alloc(pool.mempool());
    const uint64_t from = rte_rdtsc();
    while (buffer == nullptr && !out_of_buffers_) {
        flush();
        if (unsent_ == 0 || to_nanoseconds(rte_rdtsc() - from) > kBufferPatienceNs) out_of_buffers_ = true;
        buffer = rte_pktmbuf_alloc(pool.mempool());
    }
    if (buffer != nullptr) out_of_buffers_ = false;
    return buffer;
}

rte_mbuf* Worker::copy_of(const io::ReceiveBlock& block, const io::FramePieces& frame) {
    const uint32_t length = frame.bytes();
    const uint16_t segment_bytes = block.has_uncut ? block.spots[frame.index].segment_bytes : uint16_t{0};
    const io::PacketPool* const pool = segment_bytes != 0 ? runtime_.ports_[block.port]->uncut_pool()
                                                          : pools_[block.port];
    rte_mbuf* const copy = pool != nullptr ? buffer_of(*pool) : nullptr;
    if (copy == nullptr) return nullptr;
    if (segment_bytes != 0) io::set_segment_bytes(copy, segment_bytes);
    if (length > copy->buf_len) {
        rte_pktmbuf_free(copy);
        return nullptr;
    }
    copy->data_off = static_cast<uint16_t>(std::min<uint32_t>(pool->headroom_bytes(), copy->buf_len - length));
    copy->data_len = static_cast<uint16_t>(length);
    copy->pkt_len = length;
    copy->port = block.port;
    io::set_packet_metadata(copy, block.timestamp_ns(frame.index), block.number(frame.index));
    auto* const data = rte_pktmbuf_mtod(copy, uint8_t*);
    std::copy_n(frame.head, frame.head_bytes, data);
    std::copy_n(frame.rest, frame.rest_bytes, data + frame.head_bytes);
    return copy;
}

void Worker::give_back(const io::ReceiveBlock& block) {
    runtime_.ports_[block.port]->give_back(static_cast<uint16_t>(index_), block.count);
}

void Worker::flush() {
    unsent_ = 0;
    const auto ports = static_cast<uint16_t>(outgoing_.size());
    for (uint16_t port = 0; port < ports; ++port) {
        if (outgoing_[port].mbufs.empty()) continue;
        send_out(port);
        unsent_ = std::max(unsent_, outgoing_[port].mbufs.size());
    }
}

}  // namespace millrace::exec
