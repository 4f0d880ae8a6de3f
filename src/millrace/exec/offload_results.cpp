// What comes back with a batch: packets are made what the device has made of them, counted and handed on.
#include <rte_cycles.h>
#include <rte_eal.h>

#include <algorithm>
#include <cstring>

#include "millrace/exec/offload_batch.hpp"

namespace millrace::exec {

/// Lends the slot's region to those of its packets that go on, if another region is there for the next
/// batch, which it returns; null if all are out, with packets that wait to be sent: then frames are copied home.
FrameRegion* OffloadEngine::lend_region(Slot& slot) {
    // A NIC that wants physical addresses could not send from a region.
    if (slot.prefix_back != chain::kWholeFrame || rte_eal_iova_mode() != RTE_IOVA_VA) return nullptr;
    size_t going_on = 0;
    for (size_t i = 0; i < slot.count; ++i) {
        const device::PacketResult& result = slot.results()[i];
        going_on += result.node != device::kHostDecides && target_of(*slot.program, result).kind != Target::Kind::drop;
    }
    if (going_on == 0) return nullptr;
    FrameRegion* fresh = regions_->take();
    if (fresh == nullptr) return nullptr;
    slot.region->lend(static_cast<uint16_t>(going_on));
    return fresh;
}

namespace {

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

/// Makes packet `index` what the device has made of it; false when the host must decide instead.
bool OffloadEngine::apply(Slot& slot, size_t index, bool lent, Fate& fate) {
    const device::PacketResult& result = slot.results()[index];
    if (result.node == device::kHostDecides) return false;
    fate.target = target_of(*slot.program, result);
    fate.node = result.node;
    fate.out_port = result.out_port;
    const bool known = result.node < slot.program->nodes.size() && result.detail != static_cast<uint16_t>(kNoDetail);
    fate.decision = {known ? result.detail : kNoDetail, result.outcome};
    if (fate.target.kind == Target::Kind::drop) {
        if (result.node == kParserNode && result.outcome < kMalformedCount) slot.counters->malformed[result.outcome].add(1);
        return true;
    }
    rte_mbuf* mbuf = slot.mbufs[index];
    const device::FrameDescriptor& descriptor = slot.descriptors()[index];
    if (slot.prefix_back == chain::kWholeFrame) {
        const int32_t moved = static_cast<int32_t>(result.offset - descriptor.offset);
        // Offsets count from the ring's start, the region from the piece's head.
        const size_t at = result.offset - slot.ring_offset - slot.head_at;
        if (lent) {
            const int32_t behind = static_cast<int32_t>(descriptor.length + slot.tailroom) - moved - static_cast<int32_t>(result.length);
            slot.region->attach(mbuf, at, result.length, static_cast<uint16_t>(static_cast<int32_t>(slot.headroom) + moved),
                                static_cast<uint16_t>(std::max(behind, 0)));
        } else if (!bring_home(mbuf, slot.region->data() + at, result.length, mbuf->data_off + moved)) {
            // The port's buffers are smaller than the chain's growth; make_ports was told of it, so this is a slip of ours.
            fate = Fate{{Target::Kind::drop, 0}, kNoNode, kNoPort, {kNoDetail, static_cast<uint32_t>(ExitDrop::device_failed)}};
        }
    } else if (slot.prefix_back != 0) {
        std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), slot.back(slot.heads_at) + index * slot.prefix_back,
                    std::min<size_t>({slot.prefix_back, result.length, descriptor.present}));
    }
    return true;
}

void OffloadEngine::complete(Slot& slot) {
    const uint64_t applied_from_ns = options_.track != nullptr ? Timeline::now_ns() : 0;
    flying_.pop_front();
    ring_.give_back();
    const size_t n = slot.count;
    ChainCounters& counters = *slot.counters;
    count(slot);
    const uint32_t stored = slot.stored_events();
    counters.events_lost.add(slot.emitted_events() - stored);
    counters.batches.add(1);
    counters.batches_in[static_cast<size_t>(slot.transfer)].add(1);
    counters.batches_back[static_cast<size_t>(slot.way_back)].add(1);
    FrameRegion* fresh = lend_region(slot);
    // A few packets at a time go on, while the CPU has them in its nearest caches; all at once where others are told of them.
    constexpr size_t kAtOnce = 128;
    const size_t share = stored > 0 || slot.visits != nullptr ? n : kAtOnce;
    for (size_t first = 0; first < n; first += share) pass_on(slot, first, std::min(share, n - first), fresh != nullptr);
    const uint64_t now = rte_rdtsc();
    for (const auto& [arrival, packets] : slot.bursts) counters.latency.record(to_nanoseconds(now - arrival), packets);
    trace(slot, applied_from_ns);
    in_flight_ -= n;
    if (fresh != nullptr) slot.region = fresh;
    idle_.push_back(&slot);
    slot.program = nullptr;
    slot.loaded = nullptr;
    slot.resident = nullptr;
}

/// Applies the results of packets [first, first + count) and delivers them.
void OffloadEngine::pass_on(Slot& slot, size_t first, size_t count, bool lent) {
    ChainCounters& counters = *slot.counters;
    rte_mbuf** mbufs = slot.mbufs.data() + first;
    retries_.clear();
    constexpr size_t kAhead = 16;  // the last-level cache takes as long as a dozen packets
    for (size_t i = 0; i < count; ++i) {
        if (first + i + kAhead < slot.count) {
            __builtin_prefetch(mbufs[i + kAhead], 1);
            __builtin_prefetch(reinterpret_cast<const uint8_t*>(mbufs[i + kAhead]) + 64, 1);
        }
        if (!apply(slot, first + i, lent, fates_[i])) retries_.push_back(static_cast<uint32_t>(i));
    }
    if (slot.visits != nullptr) tell_visits(slot);
    if (const uint32_t stored = slot.stored_events(); stored > 0)
        deliver_events(*slot.program, std::span(slot.events(), stored), counters, mbufs, fates_.data());
    for (const uint32_t i : retries_) {
        fates_[i] = Fate{};
        cpu_.decide(slot.program, counters, &mbufs[i], 1, &fates_[i]);
        counters.retried_on_cpu.add(1);
    }
    delivery_.deliver(*slot.program, counters, mbufs, fates_.data(), count);
}

/// Tells what every NF decided on each packet of the batch.
void OffloadEngine::tell_visits(const Slot& slot) {
    const size_t n = slot.count;
    for (size_t i = 0; i < n; ++i) {
        if (slot.results()[i].node == device::kHostDecides) continue;
        visits_.clear();
        for (uint16_t node = 0; node < slot.program->nodes.size(); ++node) {
            const Decision decision = slot.visits[size_t{node} * n + i];
            if (decision.outcome != device::kNotVisited) visits_.push_back({node, decision});
        }
        if (!visits_.empty()) fates_[i].decision.detail = visits_.back().decision.detail;
        delivery_.visits(*slot.program, slot.mbufs[i], visits_, fates_[i]);
    }
}

/// Adds up what the batch's packets met.
void OffloadEngine::count(const Slot& slot) {
    ChainCounters& counters = *slot.counters;
    for (size_t node = 0; node < counters.nodes.size(); ++node) {
        const uint32_t* outcomes = slot.outcomes(slot.back(slot.head_at)) + node * device::kMaxOutcomes;
        NodeCounters& into = *counters.nodes[node];
        for (size_t outcome = 0; outcome < into.by_outcome.size() && outcome < device::kMaxOutcomes; ++outcome) {
            into.by_outcome[outcome].add(outcomes[outcome]);
            into.packets.add(outcomes[outcome]);
        }
    }
}

}  // namespace millrace::exec
