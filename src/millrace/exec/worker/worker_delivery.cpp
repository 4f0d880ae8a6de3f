// What becomes of packets that have gone through a chain: sent, dropped, punted, passed on to the next chain.
#include <rte_cycles.h>

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/io/release.hpp"

namespace millrace::exec {

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
    egress_.queues().send_full();
}

/// The port that a packet leaves by whose chain has reached its output.
uint16_t Worker::output_of(const chain::Program& program, const Verdict& verdict) const {
    return verdict.out_port != kNoPort && verdict.out_port < egress_.queues().ports() ? verdict.out_port
                                                                                      : program.output;
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
                egress_.leave(port, program, counters, mbufs, &counters);
            } else {
                counters.exit_drops[static_cast<size_t>(ExitDrop::no_output)].add(mbufs.size());
                release();
            }
            break;
        }
        case Kind::port: egress_.leave(verdict.target.value, program, counters, mbufs, &counters); break;
        case Kind::chain:
            counters.passed_on.add(mbufs.size());
            pass_on(verdict.target.value, mbufs);
            break;
        case Kind::punt:
            if (nf::PuntTaker* const taker = program.nodes[verdict.node].nf->punt_taker()) {
                for (size_t i = 0; i < mbufs.size(); ++i) punt(counters, mbufs[i], *taker, verdicts[i].decision);
                break;
            }
            punt_run(program, counters, mbufs);
            break;
        case Kind::drop:
        case Kind::node:
            counters.count_drops(verdict, mbufs.size());
            release();
            break;
    }
}

/// Neighbours mostly came in by the same port.
void Worker::punt_run(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs) {
    for (size_t first = 0, next = 0; first < mbufs.size(); first = next) {
        const uint16_t port = program.punt_port_of(mbufs[first]->port);
        next = first + 1;
        while (next < mbufs.size() && program.punt_port_of(mbufs[next]->port) == port) ++next;
        const std::span<rte_mbuf* const> same = mbufs.subspan(first, next - first);
        if (port == kNoPort) {
            counters.exit_drops[static_cast<size_t>(ExitDrop::no_punt_port)].add(same.size());
            freed_.insert(freed_.end(), same.begin(), same.end());
        } else {
            counters.punted.add(egress_.leave(port, program, counters, same, nullptr));
        }
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

/// A copy for whoever takes the punts of the NF that wanted it: the chain's first that has somebody; else for the port
/// that takes punts.
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
    const uint16_t port = program.punt_port_of(copy->port);
    if (port == kNoPort) {
        counters.exit_drops[static_cast<size_t>(ExitDrop::no_punt_port)].add(1);
        return freed_.push_back(copy);
    }
    const size_t packets = egress_.leave(port, program, counters, {&copy, 1}, nullptr);
    counters.punted.add(packets);
    counters.punted_copies.add(packets);
}

/// The last port of the set gets the packets themselves, the others copies: a port may change what it sends.
void Worker::send_by_all(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs,
                         uint16_t set) {
    const uint32_t ports = set & ((uint32_t{1} << std::min<size_t>(egress_.queues().ports(), kPortSetPorts)) - 1);
    if (ports == 0) {
        counters.exit_drops[static_cast<size_t>(ExitDrop::no_output)].add(mbufs.size());
        freed_.insert(freed_.end(), mbufs.begin(), mbufs.end());
        return;
    }
    for (uint16_t port = 0; ports >> port != 0; ++port) {
        if (!(ports >> port & 1)) continue;
        if (ports >> port == 1) {
            egress_.leave(port, program, counters, mbufs, &counters);
            continue;
        }
        for (rte_mbuf* mbuf : mbufs) {
            counters.copied.add(1);
            rte_mbuf* const copy = rte_pktmbuf_copy(mbuf, mbuf->pool, 0, mbuf->pkt_len);
            if (copy != nullptr) egress_.leave(port, program, counters, {&copy, 1}, &counters);
            else counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
        }
    }
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

size_t Worker::port_count() const { return egress_.queues().ports(); }

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
        rte_mbuf* const copy = egress_.buffers().copy(block, frame);
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

size_t Worker::send_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames) {
    return egress_.queues().send_frames(port, block, frames);
}

void Worker::hold_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames,
                         ChainCounters& sender) {
    egress_.hold_frames(port, block, frames, sender);
}

rte_mbuf* Worker::copy_of(const io::ReceiveBlock& block, const io::FramePieces& frame) {
    return egress_.buffers().copy(block, frame);
}

void Worker::give_back(const io::ReceiveBlock& block) {
    runtime_.ports_[block.port]->give_back(static_cast<uint16_t>(index_), block.count);
}

}  // namespace millrace::exec
