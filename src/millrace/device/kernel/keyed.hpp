// What runs network functions with state per key: packets of a key in order of arrival, keys concurrently. Included by
// the generated source only.
#pragma once

#include "millrace/device/kernel/order.hpp"

#if MILLRACE_GPU

namespace millrace::device {

namespace detail {
/// Packets that a block's threads look at in a round of keyed_packets, and the places for those that it has found.
inline constexpr uint32_t kLooked = 4 * kOrderedThreads, kFound = kLooked + kOrderedThreads;
struct Keyed {
    uint32_t packets[kFound], keys[kFound];
    uint32_t of_warp[kOrderedThreads / 32];
};
MILLRACE_DEVICE Keyed& keyed() {
    __shared__ Keyed own;
    return own;
}

/// Runs `count` of the packets found, from `from` on, a thread each at most; the first one of a key takes all of that
/// key. Neighbours go to different warps: lanes that do different things wait for each other.
template <class Process>
MILLRACE_DEVICE void run_keyed(const BatchView& batch, uint32_t* counts, const StageNodes& own, uint32_t from,
                               uint32_t count, Process process) {
    const Keyed& found = keyed();
    constexpr uint32_t kWarps = kOrderedThreads / 32;
    const uint32_t mine = from + threadIdx.x % 32 * kWarps + threadIdx.x / 32, end = from + count;
    const uint32_t key = mine < end ? found.keys[mine] : 0;
    bool leads = mine < end;
    for (uint32_t k = from; k < mine && leads && key != kNoOrderKey; ++k) leads = found.keys[k] != key;
    if (!leads) return;
    for (uint32_t k = mine; k < end; ++k) {
        if (k != mine && (key == kNoOrderKey || found.keys[k] != key)) continue;
        const uint32_t i = found.packets[k];
        Packet packet = batch.packets[i];
        const Decision decision = process(&packet, own.tables, i);
        batch.packets[i] = packet;
        route_packet(batch, counts, i, own, own.first, decision);
    }
}
}  // namespace detail

/// What takes a packet of keyed_packets: an NF that decides on it there, or one that ends what it has decided before.
template <class Process>
MILLRACE_DEVICE auto deciding(Process process) {
    return [=](Packet* packet, const void* tables, uint32_t) { return process(packet, tables); };
}
/// The same for one that emits events.
template <class Process>
MILLRACE_DEVICE auto telling(const BatchView& batch, uint16_t node, Process process) {
    EventBuffer* const events = batch.events;
    return [=](Packet* packet, const void* tables, uint32_t) {
        packet->set_events(events, node);
        return process(packet, tables);
    };
}
template <class Commit>
MILLRACE_DEVICE auto ending(const BatchView& batch, Commit commit) {
    const Decision* const decisions = batch.decisions;
    return [=](Packet* packet, const void* tables, uint32_t i) { return commit(packet, tables, decisions[i]); };
}

/// Runs a stage of one node, with state per key, for those of the batch's packets whose key is of share `share` of
/// `shares`; each is one block's. All packets of a key are of one share, so shares need not know of each other.
/// A block looks through the batch in order of arrival, and runs what it has found whenever that is a thread each.
/// Packets without a key are of any share.
template <class Process>
MILLRACE_DEVICE void keyed_packets(const BatchView& batch, uint32_t* counts, const StageNodes& own, uint32_t share,
                                   uint32_t shares, Process process) {
    auto& [packets, keys, of_warp] = detail::keyed();
    constexpr uint32_t kEach = detail::kLooked / kOrderedThreads;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t waiting = 0;
    for (uint32_t first = 0; first < batch.count; first += detail::kLooked) {
        // Each thread looks at neighbours, so that their order is that of the threads.
        uint32_t key[kEach], here = 0;
        const uint32_t from = first + threadIdx.x * kEach;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t i = from + k;
            key[k] = i < batch.count ? batch.keys[i] : kNoOrderKey;
            const bool mine = i < batch.count && (key[k] == kNoOrderKey ? i / kEach : key[k]) % shares == share &&
                              batch.at[i] == own.first;
            here |= static_cast<uint32_t>(mine) << k;
        }
        const uint32_t some = __popc(here);
        uint32_t place = some;  // behind those of the threads before
        for (uint32_t by = 1; by < 32; by *= 2) {
            const uint32_t before = __shfl_up_sync(0xffffffffu, place, by);
            if (lane >= by) place += before;
        }
        if (lane == 31) of_warp[warp] = place;
        place += waiting - some;
        __syncthreads();
        for (uint32_t w = 0; w < kOrderedThreads / 32; ++w) {
            if (w < warp) place += of_warp[w];
            waiting += of_warp[w];
        }
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            if ((here >> k & 1) == 0) continue;
            packets[place] = from + k;
            keys[place++] = key[k];
        }
        __syncthreads();
        const bool last = first + detail::kLooked >= batch.count;
        uint32_t done = 0;
        while (waiting - done >= kOrderedThreads || (last && waiting > done)) {
            const uint32_t some_now = smaller(waiting - done, kOrderedThreads);
            detail::run_keyed(batch, counts, own, done, some_now, process);
            done += some_now;
            __syncthreads();
        }
        // What is left goes to the front: less than there are threads.
        const uint32_t left = waiting - done;
        uint32_t packet = 0, its_key = 0;
        if (threadIdx.x < left) {
            packet = packets[done + threadIdx.x];
            its_key = keys[done + threadIdx.x];
        }
        __syncthreads();
        if (threadIdx.x < left) {
            packets[threadIdx.x] = packet;
            keys[threadIdx.x] = its_key;
        }
        __syncthreads();
        waiting = left;
    }
}

/// Frees what has timed out in a few buckets of the state of `node`. One block.
template <class Claim, class Sweep>
MILLRACE_DEVICE void sweep_buckets(const BatchView& batch, const void* tables, uint16_t node, Claim claim,
                                   Sweep sweep) {
    uint32_t& first = detail::keyed().of_warp[0];
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
