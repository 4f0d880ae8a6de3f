// What runs network functions with state per key: packets of a key in order of arrival, keys concurrently. Included by
// the generated source only.
#pragma once

#include "millrace/device/kernel/order.hpp"
#include "millrace/packet/prefetch.hpp"

#if MILLRACE_GPU

namespace millrace::device {

/// Packets of a batch that one block takes, since it has their keys; their place in BatchView::bases.
struct KeyGroup {
    uint32_t first, count;
};
struct GroupedPacket {
    uint32_t packet, key;
};
static_assert(sizeof(GroupedPacket) == sizeof(uint64_t) && sizeof(KeyGroup) == sizeof(uint64_t));

namespace detail {
MILLRACE_DEVICE KeyGroup* groups_of(const BatchView& batch) { return reinterpret_cast<KeyGroup*>(batch.key_table); }
MILLRACE_DEVICE GroupedPacket* grouped(const BatchView& batch) { return reinterpret_cast<GroupedPacket*>(batch.bases); }
/// Which of `groups` takes packet `i` with this key; without a key, any. At least `groups`: it waits for no key.
MILLRACE_DEVICE uint32_t group_of(uint32_t key, uint32_t i, uint32_t groups) {
    return key == kNotGrouped ? groups : __umulhi((key == kNoOrderKey ? i : key) * 2654435761u, groups);
}

struct Keyed {
    GroupedPacket packets[kOrderedThreads];
    uint32_t own_of_warp[kOrderedThreads / 32], before_of_warp[kOrderedThreads / 32];
};
MILLRACE_DEVICE Keyed& keyed() {
    __shared__ Keyed own;
    return own;
}

/// The sum over a warp's lanes.
MILLRACE_DEVICE uint32_t sum_of_warp(uint32_t value) {
    for (uint32_t by = 16; by > 0; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by);
    return value;
}

/// Runs the first `count` packets of the block's memory, a thread each at most; the first one of a key takes all of
/// that key. Neighbours go to different warps: lanes that do different things wait for each other.
template <class Process>
MILLRACE_DEVICE void run_keyed(const BatchView& batch, uint32_t* counts, const StageNodes& own, uint32_t wanted_bytes,
                               uint32_t count, Process process) {
    const auto wanted = [&](uint32_t i) { return batch.wanted + uint64_t{i} * wanted_bytes; };
    const GroupedPacket* const packets = keyed().packets;
    constexpr uint32_t kWarps = kOrderedThreads / 32;
    const uint32_t mine = threadIdx.x % 32 * kWarps + threadIdx.x / 32;
    if (mine >= count) return;
    const uint32_t key = packets[mine].key;
    bool leads = true;
    for (uint32_t k = 0; k < mine && leads && key != kNoOrderKey; ++k) leads = packets[k].key != key;
    if (!leads) {
        const uint32_t i = packets[mine].packet;
        // For whoever takes it after another of its key.
        prefetch_near(&batch.packets[i], sizeof(Packet));
        return prefetch_near(wanted(i), wanted_bytes);
    }
    for (uint32_t k = mine; k < count; ++k) {
        if (k != mine && (key == kNoOrderKey || packets[k].key != key)) continue;
        const uint32_t i = packets[k].packet;
        route_packet(batch, counts, i, own, own.first, process(&batch.packets[i], own.tables, i, wanted(i)));
    }
}
}  // namespace detail

/// What takes packet `i` in keyed_packets, which wants `wanted` (nf::Wanted): an NF that decides on it there, or one
/// that ends what it has decided before.
template <class Process>
MILLRACE_DEVICE auto deciding(Process process) {
    return [=](Packet* packet, const void* tables, uint32_t, const void* wanted) {
        return process(packet, tables, wanted);
    };
}
/// The same for one that emits events.
template <class Process>
MILLRACE_DEVICE auto telling(const BatchView& batch, uint16_t node, Process process) {
    EventBuffer* const events = batch.events;
    return [=](Packet* packet, const void* tables, uint32_t, const void* wanted) {
        packet->set_events(events, node);
        return process(packet, tables, wanted);
    };
}
template <class Commit>
MILLRACE_DEVICE auto ending(const BatchView& batch, Commit commit) {
    const Decision* const decisions = batch.decisions;
    return [=](Packet* packet, const void* tables, uint32_t i, const void* wanted) {
        return commit(packet, tables, decisions[i], wanted);
    };
}

/// Finds the packets of group `group` of `groups`, in order of arrival. All packets of a key are of one group. One
/// block for each, none of which need know of the others: a block counts what is of the groups before its own, too.
/// This needs no order among batches.
MILLRACE_DEVICE void group_packets(const BatchView& batch, uint32_t group, uint32_t groups) {
    constexpr uint32_t kWarps = kOrderedThreads / 32, kEach = 4, kAtOnce = 32 * kEach;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Each warp looks through an equal share of the batch, a lane at four neighbours at a time.
    const uint32_t share = (batch.count + kAtOnce * kWarps - 1) / (kAtOnce * kWarps) * kAtOnce;
    const uint32_t from = smaller(warp * share, batch.count), to = smaller(from + share, batch.count);
    uint32_t own = 0, before = 0;
    const auto look = [&](uint32_t at, auto&& take) {
        if (at >= to) return;
        const uint4 four = *reinterpret_cast<const uint4*>(batch.keys + at);
        const uint32_t keys[kEach] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k)
            if (at + k < to) take(k, keys[k], detail::group_of(keys[k], at + k, groups));
    };
    for (uint32_t at = from + lane * kEach; at < to; at += kAtOnce)
        look(at, [&](uint32_t, uint32_t, uint32_t its) {
            own += its == group ? 1 : 0;
            before += its < group ? 1 : 0;
        });
    own = detail::sum_of_warp(own);
    before = detail::sum_of_warp(before);
    auto& [packets, own_of_warp, before_of_warp] = detail::keyed();
    if (lane == 0) {
        own_of_warp[warp] = own;
        before_of_warp[warp] = before;
    }
    __syncthreads();
    KeyGroup found{0, 0};
    uint32_t place = 0;
    for (uint32_t w = 0; w < kWarps; ++w) {
        if (w < warp) place += own_of_warp[w];
        found.first += before_of_warp[w];
        found.count += own_of_warp[w];
    }
    place += found.first;
    if (threadIdx.x == 0) detail::groups_of(batch)[group] = found;
    for (uint32_t first = from; first < to && own > 0; first += kAtOnce) {
        uint32_t here[kEach] = {}, key[kEach] = {};
        const uint32_t at = first + lane * kEach;
        look(at, [&](uint32_t k, uint32_t its_key, uint32_t its) {
            key[k] = its_key;
            here[k] = its == group ? 1 : 0;
        });
        uint32_t of_lane = place;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t lanes = __ballot_sync(0xffffffffu, here[k] != 0);
            of_lane += __popc(lanes & ((1u << lane) - 1));
            place += __popc(lanes);
        }
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k)
            if (here[k] != 0) detail::grouped(batch)[of_lane++] = {at + k, key[k]};
    }
}

/// Runs a stage of one node, with state per key, for the packets of group `group`, which are the block's. Groups need
/// not know of each other. `wanted_bytes`: of what a packet wants, in BatchView::wanted.
template <class Process>
MILLRACE_DEVICE void keyed_packets(const BatchView& batch, uint32_t* counts, const StageNodes& own, uint32_t group,
                                   uint32_t wanted_bytes, Process process) {
    const KeyGroup mine = detail::groups_of(batch)[group];
    for (uint32_t first = 0; first < mine.count; first += kOrderedThreads) {
        const uint32_t count = smaller(mine.count - first, kOrderedThreads);
        if (threadIdx.x < count)
            detail::keyed().packets[threadIdx.x] = detail::grouped(batch)[mine.first + first + threadIdx.x];
        __syncthreads();
        detail::run_keyed(batch, counts, own, wanted_bytes, count, process);
        __syncthreads();
    }
}

/// Frees what has timed out in a few buckets of the state of `node`. One block.
template <class Claim, class Sweep>
MILLRACE_DEVICE void sweep_buckets(const BatchView& batch, const void* tables, uint16_t node, Claim claim,
                                   Sweep sweep) {
    uint32_t& first = detail::keyed().own_of_warp[0];
    if (threadIdx.x == 0) first = claim(tables, kSweptBuckets);
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < kSweptBuckets; k += blockDim.x) {
        Packet teller = sweep_teller(batch, node, k);
        sweep(&teller, tables, first + k, batch.last_time());
    }
    __syncthreads();
}

}  // namespace millrace::device

#endif
