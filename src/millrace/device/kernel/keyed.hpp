// What runs network functions with state per key: packets of a key in order of arrival, keys concurrently. Included by
// the generated source only.
#pragma once

#include "millrace/device/kernel/order.hpp"
#include "millrace/nf/state/ahead.hpp"
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

/// The packet of the block's memory that is this thread's. Neighbours go to different warps: lanes that do different
/// things wait for each other.
MILLRACE_DEVICE uint32_t own_packet() {
    constexpr uint32_t kWarps = kOrderedThreads / 32;
    return threadIdx.x % 32 * kWarps + threadIdx.x / 32;
}
MILLRACE_DEVICE uint8_t* wanted_of(const BatchView& batch, uint32_t i, uint32_t wanted_bytes) {
    return batch.wanted + uint64_t{i} * wanted_bytes;
}

/// The keys of a block's packets: a hash table, half of which stays free at least, and what is known of each key.
struct KeySlots {
    static constexpr uint32_t kBits = 9, kCount = 1u << kBits, kNone = 0xffffffffu;
    static_assert(kCount >= 2 * kOrderedThreads);
    uint32_t keys[kCount];
    uint32_t left[kCount];             ///< packets that are still to be decided on
    uint32_t first[kCount];            ///< the first packet of the key
    uint32_t stopper[kCount];          ///< the first for which what was decided ahead does more than pass
    uint32_t next[kCount];             ///< the first behind that
    nf::Ahead worth[kOrderedThreads];  ///< by packet

    MILLRACE_DEVICE void clear() {
        for (uint32_t at = threadIdx.x; at < kCount; at += kOrderedThreads) {
            keys[at] = first[at] = stopper[at] = next[at] = kNone;
            left[at] = 0;
        }
    }
    /// Where packet `k` with this key counts.
    MILLRACE_DEVICE uint32_t add(uint32_t key, uint32_t k) {
        // Not as group_of: all keys of a group are neighbours there.
        uint32_t at = key * 2246822519u >> (32 - kBits);
        for (uint32_t owner; (owner = atomicCAS(&keys[at], kNone, key)) != kNone && owner != key;)
            at = (at + 1) % kCount;
        atomicMin(&first[at], k);
        atomicAdd(&left[at], 1u);
        return at;
    }
};
MILLRACE_DEVICE KeySlots& key_slots() {
    __shared__ KeySlots own;
    return own;
}

/// A thread's packet among those of the block's memory.
struct OwnPacket {
    uint32_t k, packet, key;
    uint32_t slot;  ///< of its key; KeySlots::kNone: it has none
    bool is_one;    ///< there is such a packet
    bool begins;  ///< it is the first of its key that is to be decided on in its turn, by this thread, as all behind it
};
MILLRACE_DEVICE OwnPacket find_own(uint32_t count) {
    OwnPacket own{own_packet(), 0, kNoOrderKey, KeySlots::kNone, false, false};
    own.is_one = own.k < count;
    if (!own.is_one) return own;
    own.packet = keyed().packets[own.k].packet;
    own.key = keyed().packets[own.k].key;
    if (own.key != kNoOrderKey) own.slot = key_slots().add(own.key, own.k);
    return own;
}

/// Writes down what was decided on the block's packets ahead, where it holds. All of a key that pass hold together, up
/// to the first that does not; so does a first one that changes the entry.
template <class Ahead>
MILLRACE_DEVICE void write_down(const BatchView& batch, uint32_t* counts, const StageNodes& nodes,
                                uint32_t wanted_bytes, OwnPacket& own, Ahead&& ahead) {
    KeySlots& slots = key_slots();
    const bool has_key = own.slot != KeySlots::kNone;
    const uint8_t* const wanted = wanted_of(batch, own.packet, wanted_bytes);
    const nf::Ahead worth = own.is_one ? ahead.holds(nodes.tables, wanted) : nf::Ahead::no;
    slots.worth[own.k] = worth;
    if (has_key && worth != nf::Ahead::passes) atomicMin(&slots.stopper[own.slot], own.k);
    __syncthreads();
    bool holds = worth != nf::Ahead::no;
    bool is_behind = false;  // one that changes the entry, and holds
    if (has_key) {
        const uint32_t first = slots.first[own.slot], stopper = slots.stopper[own.slot];
        holds = own.k < stopper || (own.k == first && worth == nf::Ahead::changes);
        is_behind = own.k > stopper && stopper == first && slots.worth[stopper] == nf::Ahead::changes;
        own.begins = !holds && own.k == stopper;
        if (is_behind) atomicMin(&slots.next[own.slot], own.k);
        if (holds) atomicSub(&slots.left[own.slot], 1u);
    } else {
        own.begins = own.is_one && !holds;
    }
    if (holds)
        route_packet(batch, counts, own.packet, nodes, nodes.first,
                     ahead.apply(&batch.packets[own.packet], nodes.tables, wanted, worth,
                                 static_cast<uint32_t>(batch.sequence)));
    uint32_t* const held_of_warp = keyed().own_of_warp;
    const uint32_t held = __popc(__ballot_sync(0xffffffffu, holds));
    if (threadIdx.x % 32 == 0) held_of_warp[threadIdx.x / 32] = held;
    // Before anybody changes what these have taken as it was.
    __syncthreads();
    if (is_behind) own.begins = own.k == slots.next[own.slot];
    if (threadIdx.x != 0) return;
    uint32_t all = 0;
    for (uint32_t w = 0; w < kOrderedThreads / 32; ++w) all += held_of_warp[w];
    if (all > 0) ahead.told(nodes.tables, all);
}

/// Decides in their turn on the block's packets that are left: a thread whose packet begins takes all of its key.
template <class Process>
MILLRACE_DEVICE void run_keyed(const BatchView& batch, uint32_t* counts, const StageNodes& nodes, uint32_t wanted_bytes,
                               const OwnPacket& own, Process process) {
    const GroupedPacket* const packets = keyed().packets;
    if (!own.begins) return;
    uint32_t left = own.slot != KeySlots::kNone ? key_slots().left[own.slot] : 1;
    for (uint32_t k = own.k; left > 0; ++k) {
        if (packets[k].key != own.key) continue;
        --left;
        const uint32_t i = packets[k].packet;
        route_packet(batch, counts, i, nodes, nodes.first,
                     process(&batch.packets[i], nodes.tables, i, wanted_of(batch, i, wanted_bytes)));
    }
}
}  // namespace detail

/// What takes packet `i` in keyed_packets, which wants `wanted` (nf::Wanted): an NF that decides on it there, or one
/// that ends what it has decided before.
template <class Process>
MILLRACE_DEVICE auto deciding(const BatchView& batch, Process process) {
    const auto number = static_cast<uint32_t>(batch.sequence);
    return [=](Packet* packet, const void* tables, uint32_t, const void* wanted) {
        return process(packet, tables, wanted, number);
    };
}
/// The same for one that emits events.
template <class Process>
MILLRACE_DEVICE auto telling(const BatchView& batch, uint16_t node, Process process) {
    EventBuffer* const events = batch.events;
    const auto number = static_cast<uint32_t>(batch.sequence);
    return [=](Packet* packet, const void* tables, uint32_t, const void* wanted) {
        packet->set_events(events, node);
        return process(packet, tables, wanted, number);
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

/// What of an NF takes decisions that were made ahead: nf::WantedAhead::holds and apply.
template <class Holds, class Apply, class Told>
struct DecidedAhead {
    static constexpr bool kAny = true;
    Holds its_holds;
    Apply its_apply;
    Told its_told;
    MILLRACE_DEVICE nf::Ahead holds(const void* tables, const void* wanted) const {
        return static_cast<nf::Ahead>(its_holds(tables, wanted));
    }
    MILLRACE_DEVICE Decision apply(Packet* packet, const void* tables, const void* wanted, nf::Ahead worth,
                                   uint32_t batch) const {
        return its_apply(packet, tables, wanted, static_cast<uint32_t>(worth), batch);
    }
    /// Counts those that have held.
    MILLRACE_DEVICE void told(const void* tables, uint32_t packets) const { its_told(tables, packets); }
};
template <class Holds, class Apply, class Told>
MILLRACE_DEVICE auto decided_ahead(Holds holds, Apply apply, Told told) {
    return DecidedAhead<Holds, Apply, Told>{holds, apply, told};
}
/// Of an NF that decides in the batch's turn only.
struct NothingAhead {
    static constexpr bool kAny = false;
};

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
        } else {
            __syncthreads();
            packet.begins = packet.is_one && (packet.slot == detail::KeySlots::kNone ||
                                              detail::key_slots().first[packet.slot] == packet.k);
            if (packet.is_one && !packet.begins) {
                // For whoever takes it after another of its key.
                prefetch_near(&batch.packets[packet.packet], sizeof(Packet));
                prefetch_near(detail::wanted_of(batch, packet.packet, wanted_bytes), wanted_bytes);
            }
        }
        detail::run_keyed(batch, counts, own, wanted_bytes, packet, process);
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
