// A block's packets of the network function whose keys it has: what is known of them, and how they are decided on in
// order of arrival within each key. Included by keyed.hpp only.
#pragma once

#include "millrace/device/kernel/order.hpp"
#include "millrace/nf/state/ahead.hpp"

#if MILLRACE_GPU

namespace millrace::device {

/// Packets of a batch that one block takes, since it has their keys; their place in BatchView::bases.
struct KeyGroup {
    uint32_t first, count;
};
struct GroupedPacket {
    uint32_t packet, key;
};
/// What the blocks of a batch have in common; in BatchView::key_table, before the groups.
struct KeyGroups {
    uint32_t through;  ///< blocks that are through with their packets
    uint32_t unused;
};
static_assert(sizeof(GroupedPacket) == sizeof(uint64_t) && sizeof(KeyGroup) == sizeof(uint64_t) &&
              sizeof(KeyGroups) == sizeof(uint64_t));

/// What of an NF takes decisions that were made ahead: nf::WantedAhead::holds and apply; and nf::Together::decide.
template <class Holds, class Apply, class DecideTogether, class Count>
struct DecidedAhead {
    static constexpr bool kAny = true;
    Holds its_holds;
    Apply its_apply;
    DecideTogether decide_together;
    Count its_count;
    MILLRACE_DEVICE nf::Ahead holds(const void* tables, const void* wanted) const {
        return static_cast<nf::Ahead>(its_holds(tables, wanted));
    }
    MILLRACE_DEVICE Decision apply(Packet* packet, const void* tables, const void* wanted, nf::Ahead worth,
                                   const nf::InBatch& in) const {
        return its_apply(packet, tables, wanted, static_cast<uint32_t>(worth), &in);
    }
    MILLRACE_DEVICE void count(const void* tables, nf::KeyedCount what, uint32_t packets) const {
        its_count(tables, static_cast<uint32_t>(what), packets);
    }
};
template <class Holds, class Apply, class DecideTogether, class Count>
MILLRACE_DEVICE auto decided_ahead(Holds holds, Apply apply, DecideTogether together, Count count) {
    return DecidedAhead<Holds, Apply, DecideTogether, Count>{holds, apply, together, count};
}
/// Of an NF that decides in sequence only.
struct NothingAhead {
    static constexpr bool kAny = false;
};

/// `batch`, as a function decides in it that is `node` of the chain.
MILLRACE_DEVICE nf::InBatch in_batch(const BatchView& batch, uint16_t node) {
    // The highest number means something else to the host (journal_copy.hpp). Of the next batch: then nobody takes an
    // entry for older than it is.
    const auto number = static_cast<uint32_t>(batch.sequence);
    return {number == ~uint32_t{0} ? 0 : number, node, batch.journal};
}

namespace detail {
MILLRACE_DEVICE KeyGroups& all_groups(const BatchView& batch) { return *reinterpret_cast<KeyGroups*>(batch.key_table); }
MILLRACE_DEVICE KeyGroup* groups_of(const BatchView& batch) { return reinterpret_cast<KeyGroup*>(batch.key_table + 1); }
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
    uint32_t left[kCount];             ///< packets of the key
    uint32_t first[kCount];            ///< the first of them
    uint32_t stopper[kCount];          ///< the first for which what was decided ahead does more than pass
    nf::Ahead worth[kOrderedThreads];  ///< by packet

    MILLRACE_DEVICE void clear() {
        for (uint32_t at = threadIdx.x; at < kCount; at += kOrderedThreads) {
            keys[at] = first[at] = stopper[at] = kNone;
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
    bool is_left;   ///< it is to be decided on in sequence
};
MILLRACE_DEVICE OwnPacket find_own(uint32_t count) {
    OwnPacket own{own_packet(), 0, kNoOrderKey, KeySlots::kNone, false, false};
    own.is_one = own.is_left = own.k < count;
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
    if (has_key)
        holds = own.k < slots.stopper[own.slot] || (own.k == slots.first[own.slot] && worth == nf::Ahead::changes);
    own.is_left = own.is_one && !holds;
    if (holds)
        route_packet(batch, counts, own.packet, nodes, nodes.first,
                     ahead.apply(&batch.packets[own.packet], nodes.tables, wanted, worth,
                                 in_batch(batch, static_cast<uint16_t>(nodes.first))));
    uint32_t* const held_of_warp = keyed().own_of_warp;
    const uint32_t held = __popc(__ballot_sync(0xffffffffu, holds));
    if (threadIdx.x % 32 == 0) held_of_warp[threadIdx.x / 32] = held;
    // Before anybody changes what these have taken as it was.
    __syncthreads();
    if (threadIdx.x != 0) return;
    uint32_t all = 0;
    for (uint32_t w = 0; w < kOrderedThreads / 32; ++w) all += held_of_warp[w];
    if (all > 0) ahead.count(nodes.tables, nf::KeyedCount::ahead, all);
}

/// Decides in sequence on the block's packets: the thread that has the first one of a key takes all of it.
template <class Process>
MILLRACE_DEVICE void run_in_sequence(const BatchView& batch, uint32_t* counts, const StageNodes& nodes,
                                     uint32_t wanted_bytes, const OwnPacket& own, Process process) {
    const GroupedPacket* const packets = keyed().packets;
    uint32_t left = own.slot != KeySlots::kNone ? key_slots().left[own.slot] : 1;
    for (uint32_t k = own.k; left > 0; ++k) {
        if (packets[k].key != own.key) continue;
        --left;
        const uint32_t i = packets[k].packet;
        route_packet(batch, counts, i, nodes, nodes.first,
                     process(&batch.packets[i], nodes.tables, i, wanted_of(batch, i, wanted_bytes)));
    }
}

/// The packets that are left, those of a key one behind the other.
struct Lined {
    static constexpr uint32_t kNothing = 0xffff, kNoKey = 0xfffe;  // in place of a slot
    uint16_t slots[kOrderedThreads];                               ///< by packet
    uint8_t by_warp[KeySlots::kCount][kOrderedThreads / 32];       ///< how many of a key are among 32 packets
    uint16_t begins[KeySlots::kCount];                             ///< where the key's are in the line
    uint32_t count;                                                ///< in the line
    uint8_t line[kOrderedThreads];                                 ///< the packets
    uint8_t heads[kOrderedThreads], lasts[kOrderedThreads];        ///< where the first and the last one of its key are
};
MILLRACE_DEVICE Lined& lined() {
    __shared__ Lined own;
    return own;
}
/// Lines the block's packets up that are left. False: there is none. `own` is the thread's.
MILLRACE_DEVICE bool line_up(const OwnPacket& own) {
    constexpr uint32_t kWarps = kOrderedThreads / 32;
    Lined& line = lined();
    line.slots[own.k] = static_cast<uint16_t>(!own.is_left                  ? Lined::kNothing
                                              : own.slot == KeySlots::kNone ? Lined::kNoKey
                                                                            : own.slot);
    if (threadIdx.x == 0) line.count = 0;
    if (__syncthreads_count(own.is_left) == 0) return false;
    for (uint32_t at = threadIdx.x; at < KeySlots::kCount; at += kOrderedThreads)
        for (uint32_t w = 0; w < kWarps; ++w) line.by_warp[at][w] = 0;
    __syncthreads();
    // A thread looks at the packet of its number from here on.
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, slot = line.slots[threadIdx.x];
    const uint32_t peers = __match_any_sync(0xffffffffu, slot), before = peers & ((1u << lane) - 1);
    const bool has_key = slot < Lined::kNoKey;
    if (has_key && before == 0) line.by_warp[slot][warp] = static_cast<uint8_t>(__popc(peers));
    __syncthreads();
    uint32_t rank = 0, all = slot == Lined::kNoKey ? 1 : 0, begin = 0;
    if (has_key) {
        rank = __popc(before);
        for (uint32_t w = 0; w < kWarps; ++w) {
            all += line.by_warp[slot][w];
            if (w < warp) rank += line.by_warp[slot][w];
        }
    }
    if (all > 0 && rank == 0) begin = atomicAdd(&line.count, all);
    if (has_key && rank == 0) line.begins[slot] = static_cast<uint16_t>(begin);
    __syncthreads();
    if (all > 0) {
        if (has_key) begin = line.begins[slot];
        const uint32_t at = begin + rank;
        line.line[at] = static_cast<uint8_t>(threadIdx.x);
        line.heads[at] = static_cast<uint8_t>(begin);
        line.lasts[at] = static_cast<uint8_t>(begin + all - 1);
    }
    __syncthreads();
    return true;
}

/// Decides in sequence on the block's packets that are left, those of a key together, by an NF that decides ahead.
template <class Process, class Ahead>
MILLRACE_DEVICE void run_together(const BatchView& batch, uint32_t* counts, const StageNodes& nodes,
                                  uint32_t wanted_bytes, const OwnPacket& own, Process process, const Ahead& ahead) {
    if (!line_up(own)) return;
    const nf::InBatch in = in_batch(batch, static_cast<uint16_t>(nodes.first));
    const GroupedPacket* const packets = keyed().packets;
    const Lined& line = lined();
    const bool has_one = threadIdx.x < line.count;
    const auto packet_at = [&](uint32_t at) { return packets[line.line[at]].packet; };
    const auto wanted_at = [&](uint32_t at) { return wanted_of(batch, packet_at(at), wanted_bytes); };
    const uint32_t i = has_one ? packet_at(threadIdx.x) : 0;
    const uint8_t* const wanted = wanted_of(batch, i, wanted_bytes);
    // The first of its key that has not been decided on, and the one behind its last.
    uint32_t head = has_one ? line.heads[threadIdx.x] : 0;
    const uint32_t end = has_one ? line.lasts[threadIdx.x] + 1 : 0;
    uint32_t together = 0;
    for (;;) {
        const bool waits = has_one && threadIdx.x >= head;
        const bool has_peers = waits && end - head > 1;
        const int waiting = __syncthreads_count(waits);
        if (waiting == 0) break;
        Decision decision{};
        uint32_t decided = 0;
        if (__syncthreads_count(has_peers) != 0) {
            decided = ahead.decide_together(waits ? &batch.packets[i] : nullptr, nodes.tables, wanted,
                                            waits ? wanted_at(head) : wanted, head, end, &in, &decision);
            together += waits && threadIdx.x < head + decided ? 1 : 0;
        }
        if (waits && decided == 0) {
            if (threadIdx.x == head) decision = process(&batch.packets[i], nodes.tables, i, wanted);
            decided = 1;
        }
        if (waits && threadIdx.x < head + decided) route_packet(batch, counts, i, nodes, nodes.first, decision);
        head += decided;
    }
    together = sum_of_warp(together);
    if (threadIdx.x % 32 == 0 && together > 0) ahead.count(nodes.tables, nf::KeyedCount::together, together);
}
}  // namespace detail

}  // namespace millrace::device

#endif
