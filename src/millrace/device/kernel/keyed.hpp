// What runs network functions with state per key: packets of a key in order of arrival, keys concurrently. Included by
// the generated source only.
#pragma once

#include "millrace/device/kernel/keyed_block.hpp"
#include "millrace/packet/prefetch.hpp"

#if MILLRACE_GPU

namespace millrace::device {

/// What takes packet `i` in keyed_packets, which wants `wanted` (nf::Wanted): an NF that decides on it there, or one
/// that ends what it has decided before.
template <class Process>
MILLRACE_DEVICE auto deciding(const BatchView& batch, uint16_t node, Process process) {
    const nf::InBatch in = in_batch(batch, node);
    return [=](Packet* packet, const void* tables, uint32_t, const void* wanted) {
        return process(packet, tables, wanted, &in);
    };
}
/// The same for one that emits events.
template <class Process>
MILLRACE_DEVICE auto telling(const BatchView& batch, uint16_t node, Process process) {
    EventBuffer* const events = batch.events;
    const nf::InBatch in = in_batch(batch, node);
    return [=](Packet* packet, const void* tables, uint32_t, const void* wanted) {
        packet->set_events(events, node);
        return process(packet, tables, wanted, &in);
    };
}
template <class Commit>
MILLRACE_DEVICE auto ending(const BatchView& batch, uint16_t node, Commit commit) {
    const Decision* const decisions = batch.decisions;
    const nf::InBatch in = in_batch(batch, node);
    return [=](Packet* packet, const void* tables, uint32_t i, const void* wanted) {
        return commit(packet, tables, decisions[i], wanted, &in);
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
    uint32_t(&own_of_warp)[kWarps] = detail::keyed().own_of_warp;
    uint32_t(&before_of_warp)[kWarps] = detail::keyed().before_of_warp;
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
    if (threadIdx.x == 0 && group == 0) detail::all_groups(batch).through = 0;
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

/// The latest batch that is through with sequence `which` of the chain. The whole block sees what it has changed from
/// here on.
MILLRACE_DEVICE uint32_t latest_through(const BatchView& batch, uint32_t which) {
    __shared__ uint64_t number;
    if (threadIdx.x == 0)
        number = batch.numbered ? detail::load_acquire(&batch.sequencer->done[batch.after[which].place()]) : 0;
    __syncthreads();
    return static_cast<uint32_t>(number);
}

/// Runs a stage of one node, with state per key, for the packets of group `group`, which are the block's. Groups need
/// not know of each other. `wanted_bytes`: of what a packet wants, in BatchView::wanted.
template <class Process, class Ahead>
MILLRACE_DEVICE void keyed_packets(const BatchView& batch, uint32_t* counts, const StageNodes& own, uint32_t group,
                                   uint32_t wanted_bytes, Process process, Ahead ahead) {
    const KeyGroup mine = detail::groups_of(batch)[group];
    for (uint32_t first = 0; first < mine.count; first += kOrderedThreads) {
        const uint32_t count = smaller(mine.count - first, kOrderedThreads);
        if (threadIdx.x < count)
            detail::keyed().packets[threadIdx.x] = detail::grouped(batch)[mine.first + first + threadIdx.x];
        detail::key_slots().clear();
        __syncthreads();
        detail::OwnPacket packet = detail::find_own(count);
        if constexpr (Ahead::kAny) {
            detail::write_down(batch, counts, own, wanted_bytes, packet, ahead);
            detail::run_together(batch, counts, own, wanted_bytes, packet, process, ahead);
        } else {
            __syncthreads();
            const bool begins = packet.is_one && (packet.slot == detail::KeySlots::kNone ||
                                                  detail::key_slots().first[packet.slot] == packet.k);
            if (begins) {
                detail::run_in_sequence(batch, counts, own, wanted_bytes, packet, process);
            } else if (packet.is_one) {
                // For whoever takes it after another of its key.
                prefetch_near(&batch.packets[packet.packet], sizeof(Packet));
                prefetch_near(detail::wanted_of(batch, packet.packet, wanted_bytes), wanted_bytes);
            }
        }
        __syncthreads();
    }
}

/// Frees what has timed out in those of the batch's buckets to sweep that are of group `group` of `groups`, behind its
/// packets: the block has them to itself. `swept(tables, k)` is the `k`th bucket to sweep, or kNotGrouped.
template <class Swept, class Sweep>
MILLRACE_DEVICE void sweep_buckets(const BatchView& batch, const void* tables, uint16_t node, uint32_t group,
                                   uint32_t groups, Swept swept, Sweep sweep) {
    const nf::InBatch in = in_batch(batch, node);
    for (uint32_t k = threadIdx.x; k < kSweptBuckets; k += blockDim.x) {
        const uint32_t bucket = swept(tables, k);
        if (detail::group_of(bucket, 0, groups) != group) continue;
        Packet teller = sweep_teller(batch, node, k);
        sweep(&teller, tables, bucket, batch.last_time(), &in);
    }
}

/// The next batch sweeps what comes behind. One block.
template <class Claim>
MILLRACE_DEVICE void advance_sweep(const void* tables, Claim claim) {
    uint32_t buckets = kSweptBuckets;
    if (threadIdx.x == 0) claim(tables, &buckets);
}

/// Whether all other blocks of the batch are through with their packets. The whole block sees what they have written
/// then.
MILLRACE_DEVICE bool is_last_through(const BatchView& batch) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(&detail::all_groups(batch).through, 1u) + 1 == gridDim.x;
        __threadfence();
    }
    __syncthreads();
    return is_last;
}

}  // namespace millrace::device

#endif
