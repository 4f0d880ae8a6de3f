#include "millrace/exec/offload/completion.hpp"

#include <rte_cycles.h>
#include <rte_eal.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace::exec {

using device::Address;
using device::Status;

namespace {

/// Lends the batch's region to all of its packets, if another region is there for the next batch, which it returns;
/// null if all are out, with packets that wait to be sent: then frames are copied home.
ResultBuffer* lend_buffer(Batch& batch) {
    // A NIC that wants physical addresses could not send from a region.
    if (batch.chain->prefixes.back != chain::kWholeFrame || rte_eal_iova_mode() != RTE_IOVA_VA) return nullptr;
    ResultBuffer* fresh = batch.regions->take();
    if (fresh != nullptr) batch.region->lend(static_cast<uint16_t>(batch.frames.count));
    return fresh;
}

/// Copies a frame into its mbuf's own buffer; false when it has no room for it.
bool bring_home(rte_mbuf* mbuf, const uint8_t* frame, uint16_t length, int32_t data_off) {
    if (RTE_MBUF_HAS_EXTBUF(mbuf)) {
        // The buffer is empty, so the frame may lie anywhere in it.
        rte_pktmbuf_detach(mbuf);
        data_off = (mbuf->buf_len - length) / 2;
    }
    if (data_off < 0 || data_off + length > mbuf->buf_len) return false;
    mbuf->data_off = static_cast<uint16_t>(data_off);
    mbuf->data_len = length;
    mbuf->pkt_len = length;
    std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), frame, length);
    return true;
}

}  // namespace

Completion::Completion(std::shared_ptr<device::Device> device, Delivery& delivery, FrameDelivery* frames, CpuPath& cpu,
                       const BatchTimeline& timeline, uint32_t most_packets)
    : device_(std::move(device)), delivery_(delivery), frame_delivery_(frames), cpu_(cpu), timeline_(timeline),
      verdicts_(most_packets) {
    retries_.reserve(most_packets);
    visits_.reserve(device::kMaxNodes);
}

Verdict Completion::verdict_of(const chain::Program& program, const device::PacketResult& result) {
    const bool known = result.node < program.nodes.size(), classified = program.classifier != nullptr;
    return {target_of(program, result),
            result.node,
            result.out_port,
            {known        ? detail_of(result.detail)
             : classified ? result.detail
                          : kNoDetail,
             result.outcome}};
}

/// Makes packets [first, first + count) what the device has made of them, and tells their verdicts; those that the host
/// must decide on are put down in retries_.
template <Completion::Return way>
void Completion::apply(Batch& batch, size_t first, size_t count) {
    constexpr size_t kAhead = 16;  // the last-level cache takes as long as a dozen packets
    const device::PacketResult* const results = batch.results();
    const device::FrameDescriptor* const descriptors = batch.descriptors();
    rte_mbuf* const* const mbufs = batch.mbufs.data();
    const chain::Program& program = *batch.chain->program;
    ResultBuffer& region = *batch.region;
    const size_t frames_at = batch.piece.frames_at - batch.piece.head_at;  // in the region, if whole frames came back
    const uint32_t headroom = batch.frames.room.headroom, tailroom = batch.frames.room.tailroom;
    const uint8_t* const heads = batch.back(batch.piece.heads_at);
    const uint32_t prefix_back = batch.chain->prefixes.back;
    uint32_t gone = 0;
    Verdict verdict;
    const device::PacketResult* alike = nullptr;  // the result that `verdict` is of
    for (size_t i = first; i < first + count; ++i) {
        if (i + kAhead < batch.frames.count) {
            __builtin_prefetch(mbufs[i + kAhead], 1);
            __builtin_prefetch(reinterpret_cast<const uint8_t*>(mbufs[i + kAhead]) + 64, 1);
        }
        const device::PacketResult& result = results[i];
        if (alike == nullptr || !alike->same_verdict(result)) {
            verdict = verdict_of(program, result);
            alike = &result;
        }
        Verdict& own = verdicts_[i - first] = verdict;
        if (result.node == device::kHostDecides) {
            retries_.push_back(static_cast<uint32_t>(i - first));
            ++gone;
            continue;
        }
        if (verdict.target.kind == Target::Kind::drop) {
            if (result.node == kParserNode && result.outcome < kMalformedCount)
                batch.chain->counters->of_chain(verdict.decision.detail).malformed[result.outcome].add(1);
            ++gone;
            continue;
        }
        rte_mbuf* const mbuf = mbufs[i];
        const device::FrameDescriptor& descriptor = descriptors[i];
        const int32_t moved = static_cast<int32_t>(result.offset - descriptor.offset);
        if constexpr (way == Return::lent) {
            const int32_t behind = static_cast<int32_t>(descriptor.length + tailroom) - moved -
                                   static_cast<int32_t>(result.length);
            region.attach(mbuf, frames_at + result.offset, result.length,
                          static_cast<uint16_t>(static_cast<int32_t>(headroom) + moved),
                          static_cast<uint16_t>(std::max(behind, 0)));
        } else if constexpr (way == Return::home) {
            // The port's buffers are smaller than the chain's growth; make_ports was told of it, so this is a slip of
            // ours.
            if (!bring_home(mbuf, region.data() + frames_at + result.offset, result.length, mbuf->data_off + moved))
                own = Verdict{{Target::Kind::drop, 0},
                              kNoNode,
                              kNoPort,
                              {program.classifier != nullptr ? chain_of(program, verdict) : kNoDetail,
                               static_cast<uint32_t>(ExitDrop::device_failed)}};
        } else if constexpr (way == Return::heads) {
            std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), heads + i * prefix_back,
                        std::min<size_t>({prefix_back, result.length, descriptor.present}));
        }
    }
    if constexpr (way == Return::lent) region.take_back(static_cast<uint16_t>(gone));
}

void Completion::deliver(Batch& batch, uint64_t back) {
    const uint64_t applied_from_ns = timeline_.now_ns();
    const size_t n = batch.frames.count;
    ChainCounters& counters = *batch.chain->counters;
    count(batch);
    counters.batches.add(1);
    batch.count_bytes();
    counters.batches_in[static_cast<size_t>(batch.transfer)].add(1);
    counters.batches_back[static_cast<size_t>(batch.way_back)].add(1);
    ResultBuffer* fresh = batch.receive_blocks.empty() ? lend_buffer(batch) : nullptr;
    // A few packets at a time go on, while the CPU has them in its nearest caches; all at once where others are told of
    // them.
    constexpr size_t kAtOnce = 128;
    const size_t share = batch.visits != nullptr ? n : kAtOnce;
    const Return way = fresh != nullptr                                   ? Return::lent
                       : batch.chain->prefixes.back == chain::kWholeFrame ? Return::home
                       : batch.chain->prefixes.back != 0                  ? Return::heads
                                                                          : Return::nothing;
    if (batch.stored_events() + batch.left_count() > 0) tell_events(batch);
    if (!batch.receive_blocks.empty()) pass_on_frames(batch);
    else
        for (size_t first = 0; first < n; first += share) pass_on(batch, first, std::min(share, n - first), way);
    const uint64_t now = rte_rdtsc();
    counters.add(BatchStage::waiting, batch.begun - batch.bursts.front().arrival);
    counters.add(BatchStage::layout, batch.laid_out - batch.begun);
    counters.add(BatchStage::in_line, batch.calls_from - std::min(batch.laid_out, batch.calls_from));
    counters.add(BatchStage::calls, batch.told - batch.calls_from);
    counters.add(BatchStage::away, back - std::min(batch.told, back));
    counters.add(BatchStage::results, now - back);
    for (const auto& [arrival, packets] : batch.bursts) counters.latency.record(to_nanoseconds(now - arrival), packets);
    timeline_.end(batch, applied_from_ns);
    if (fresh != nullptr) batch.region = fresh;
}

/// Applies the results of packets [first, first + count) and delivers them.
void Completion::pass_on(Batch& batch, size_t first, size_t count, Return way) {
    ChainCounters& counters = *batch.chain->counters;
    rte_mbuf** mbufs = batch.mbufs.data() + first;
    retries_.clear();
    switch (way) {
        case Return::lent: apply<Return::lent>(batch, first, count); break;
        case Return::home: apply<Return::home>(batch, first, count); break;
        case Return::heads: apply<Return::heads>(batch, first, count); break;
        case Return::nothing: apply<Return::nothing>(batch, first, count); break;
    }
    if (batch.visits != nullptr) tell_visits(batch);
    for (const uint32_t i : retries_) verdicts_[i] = cpu_.decide(batch.chain->program, counters, mbufs[i]);
    delivery_.deliver(*batch.chain->program, counters, mbufs, verdicts_.data(), count);
}

/// Hands on the batch's events, while the packets are still as they were received.
void Completion::tell_events(const Batch& batch) {
    for (size_t i = 0; i < batch.frames.count; ++i)
        verdicts_[i] = verdict_of(*batch.chain->program, batch.results()[i]);
    EventPackets packets{verdicts_.data(), [&](uint32_t i) { return origin_of(batch.mbufs[i]); }, {}};
    if (!batch.receive_blocks.empty())
        packets.origin = [&](uint32_t i) {
            auto block = batch.receive_blocks.begin();
            for (; i >= block->count; ++block) i -= block->count;
            return Origin{block->number(i), block->timestamp_ns(i), block->port};
        };
    packets.as_seen = [&](const LeftEvents& left) {
        Packet packet;
        uint8_t* const frame = left.offset != LeftEvents::kNotKept
                                   ? batch.kept + left.offset
                                   : reinterpret_cast<uint8_t*>(batch.source_of(left.packet));
        packet.attach(frame, left.length, left.present, 0, 0);
        packet.set_in_port(batch.descriptors()[left.packet].in_port);
        packet.parse();
        return packet;
    };
    batch.chain->teller->deliver({batch.events(), batch.stored_events()}, {batch.left, batch.left_count()},
                                 *batch.chain->counters, packets);
}

/// Tells what every NF decided on each packet of the batch.
void Completion::tell_visits(const Batch& batch) {
    const size_t n = batch.frames.count;
    for (size_t i = 0; i < n; ++i) {
        if (batch.results()[i].node == device::kHostDecides) continue;
        visits_.clear();
        for (uint16_t node = 0; node < batch.chain->program->nodes.size(); ++node) {
            const Decision decision = batch.visits[size_t{node} * n + i];
            if (decision.outcome != device::kNotVisited) visits_.push_back({node, decision});
        }
        if (!visits_.empty()) verdicts_[i].decision.detail = visits_.back().decision.detail;
        delivery_.visits(*batch.chain->program, batch.mbufs[i], visits_, verdicts_[i]);
    }
}

Status Completion::fetch_rest(Batch& batch) {
    Status status = Status::ok;
    const Address piece = batch.address;
    const auto bring = [&](void* to, size_t from, size_t bytes) {
        if (status == Status::ok) status = device_->copy_to_host(batch.stream, to, piece + from, bytes);
        batch.bytes_back += bytes;
    };
    if (const size_t stored = batch.stored_events(); stored > kEagerEvents)
        bring(batch.more_events, batch.piece.events_at, stored * sizeof(Event));
    if (const size_t left = batch.left_count(); left > 0) {
        bring(batch.left, batch.piece.left_at, left * sizeof(LeftEvents));
        if (const size_t kept = batch.kept_bytes(); kept > 0) bring(batch.kept, batch.piece.kept_at, kept);
    }
    if (status == Status::ok && batch.way_back == TransferOut::selective) {
        batch.pieces.clear();
        for (size_t i = 0; i < batch.frames.count; ++i) {
            const device::PacketResult& result = batch.results()[i];
            if (result.node == device::kHostDecides ||
                target_of(*batch.chain->program, result).kind == Target::Kind::drop)
                continue;
            if (size_t{result.offset} + result.length > batch.frames.bytes) return Status::failed;
            const size_t at = batch.piece.frames_at + result.offset;
            batch.pieces.push_back({batch.back(at), piece + at, result.length});
            batch.bytes_back += result.length;
        }
        status = device_->scatter_to_host(batch.stream, batch.pieces);
    }
    timeline_.mark(batch, timeline_.names().rest);
    if (status == Status::ok) status = device_->announce(batch.stream, batch.done);
    return status;
}

/// Adds up what the batch's packets met.
void Completion::count(const Batch& batch) {
    ChainCounters& counters = *batch.chain->counters;
    for (size_t node = 0; node < counters.nodes.size(); ++node) {
        const uint32_t* outcomes = batch.outcomes(batch.back(batch.piece.head_at)) + node * device::kMaxOutcomes;
        NodeCounters& into = *counters.nodes[node];
        const size_t declared = into.by_outcome.size() - 1;
        for (size_t outcome = 0; outcome <= declared; ++outcome) {
            const uint32_t packets = outcomes[outcome < declared ? outcome : kUndeclaredOutcome];
            into.by_outcome[outcome].add(packets);
            into.packets.add(packets);
        }
    }
    if (batch.chain->program->classifier != nullptr) count_classified(batch);
}

/// Counts each packet to its chain, but for those that the host decides on: there they are counted.
void Completion::count_classified(const Batch& batch) {
    const chain::Program& program = *batch.chain->program;
    ChainCounters& counters = *batch.chain->counters;
    // Neighbours often go to one chain.
    uint16_t chain = chain::kNoChain;
    uint64_t packets = 0, bytes = 0;
    for (size_t i = 0; i < batch.frames.count; ++i) {
        const device::PacketResult& result = batch.results()[i];
        if (result.node == device::kHostDecides) continue;
        const uint16_t own = chain_of(program, result);
        if (own != chain) {
            if (packets > 0) counters.classified(chain, packets, bytes);
            chain = own;
            packets = bytes = 0;
        }
        ++packets;
        bytes += batch.descriptors()[i].length;
    }
    if (packets > 0) counters.classified(chain, packets, bytes);
}

}  // namespace millrace::exec
