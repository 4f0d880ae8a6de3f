// What batches do one after the other: each is one block's work, in a kernel that waits for its place in the sequence.
// Packets are numbered by their order keys, and committed. Included by the generated source only.
#pragma once

#include "millrace/device/kernel/launch.hpp"

#if MILLRACE_GPU

namespace millrace::device {

/// Threads of the ordered kernels, which are one block each. Few enough to fit beside the blocks that fill
/// a multiprocessor: all batches wait for them.
inline constexpr uint32_t kOrderedThreads = 256;

/// Set in BatchView::bases where a ticket is that of entry (bits 32 to 62) of BatchView::key_table, and bits 0 to 31 on
/// top of it.
inline constexpr uint64_t kOfEntry = uint64_t{1} << 63;

/// Gives packet `i` its ticket, if it has one of `keys` order keys.
MILLRACE_DEVICE void take_ticket(const BatchView& batch, uint32_t i, uint64_t keys) {
    if (batch.keys[i] >= keys) return;
    const uint32_t rank = batch.ranks[i];
    const bool leads = (rank & BlockPackets::kLeads) != 0;
    uint64_t base = batch.bases[leads ? i : i - (rank >> 8)];
    if ((base & kOfEntry) != 0) base = batch.key_table[(base & ~kOfEntry) >> 32] + static_cast<uint32_t>(base);
    batch.packets[i].set_ticket(leads ? base : base + (rank & 0xff));
}

namespace detail {
MILLRACE_DEVICE uint64_t load_acquire(const uint64_t* at) {
    uint64_t value;
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}
/// Waits until `there` says true, or the device has failed: a kernel that is waited for may then have been refused.
template <class There>
MILLRACE_DEVICE void wait_until(const BatchView& batch, There&& there) {
    constexpr uint32_t kBetweenQuestions = 64;  // to the host's memory, which is far
    for (uint32_t looks = 1; !there(); ++looks)
        if (looks % kBetweenQuestions == 0 && *const_cast<const volatile uint32_t*>(batch.given_up) != 0) break;
}
}  // namespace detail

/// In the first step of the chain's sequences [first, last), of a batch that has a number: waits until the batches
/// before it are through with them. What they have written is seen from here on.
MILLRACE_DEVICE void await_sequence(const BatchView& batch, uint32_t first, uint32_t last) {
    if (batch.sequence == 0) return;
    if (threadIdx.x < last - first) {
        const SequencePoint after = batch.after[first + threadIdx.x];
        const uint64_t* const done = &batch.sequencer->done[after.place()];
        detail::wait_until(batch, [&] { return detail::load_acquire(done) >= after.number(); });
        __threadfence();
    }
    __syncthreads();
}
/// In the last one: the next batch may begin with the first.
MILLRACE_DEVICE void release_sequence(const BatchView& batch, uint32_t first, uint32_t last) {
    if (batch.sequence == 0) return;
    __syncthreads();
    if (threadIdx.x >= last - first) return;
    __threadfence();
    asm volatile("st.release.gpu.u64 [%0], %1;"
                 :
                 : "l"(&batch.sequencer->done[batch.after[first + threadIdx.x].place()]), "l"(batch.sequence)
                 : "memory");
}

/// Most packets that lead their key in their block which number_leaders takes.
inline constexpr uint32_t kMaxLeaders = kOrderedThreads;

// The block's own memory, in functions that are no templates: a kernel that numbers and commits for several NFs has it
// once.
namespace detail {
struct Leaders {
    uint32_t places[kMaxLeaders], keys[kMaxLeaders], weights[kMaxLeaders];
    uint32_t of_warp[kOrderedThreads / 32];
};
MILLRACE_DEVICE Leaders& leaders() {
    __shared__ Leaders own;
    return own;
}

/// Packets of a round of number_packets that a thread takes, all of a round, and its groups of 32.
inline constexpr uint32_t kShare = 2, kRound = kShare * kOrderedThreads, kGroups = kRound / 32;
/// A hash table in which half of the rows are free even when each packet has a key of its own: one that is full takes
/// hundreds of looks for its last keys.
inline constexpr uint32_t kRows = 2 * kRound, kRowBits = 10;
static_assert(kRows == 1u << kRowBits);
struct Round {
    uint32_t keys[kRows];
    uint32_t counts[kRows][kGroups / 4];  ///< a byte for each group
};
MILLRACE_DEVICE Round& round() {
    __shared__ Round own;
    return own;
}

struct Committing {
    uint32_t keys[kOrderedThreads];
    uint8_t waits[kOrderedThreads];
};
MILLRACE_DEVICE Committing& committing() {
    __shared__ Committing own;
    return own;
}
}  // namespace detail

/// Writes the tickets of the packets that lead their key in their block, where there are few of them; whether there
/// are. One block. Each thread looks through an equal share of the batch for them, and then takes one. Calls `await`
/// before it looks at tickets.
template <class Await>
MILLRACE_DEVICE bool number_leaders(const BatchView& batch, MutableView<uint64_t> tickets, Await&& await) {
    constexpr uint32_t kAtOnce = 8;  // ranks of a load
    auto& [places, keys, weights, of_warp] = detail::leaders();
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t share = (batch.count + kOrderedThreads * kAtOnce - 1) / (kOrderedThreads * kAtOnce) * kAtOnce;
    const uint32_t from = smaller(threadIdx.x * share, batch.count), to = smaller(from + share, batch.count);
    uint32_t own = 0;
    {
        constexpr uint32_t kBoth = BlockPackets::kLeads << 16 | BlockPackets::kLeads;
        uint32_t at = from;
        for (; at + kAtOnce <= to; at += kAtOnce) {
            const uint4 some = *reinterpret_cast<const uint4*>(batch.ranks + at);
            own += __popc(some.x & kBoth) + __popc(some.y & kBoth) + __popc(some.z & kBoth) + __popc(some.w & kBoth);
        }
        for (; at < to; ++at) own += (batch.ranks[at] & BlockPackets::kLeads) != 0;
    }
    uint32_t place = own;  // behind those of the threads before
    for (uint32_t by = 1; by < 32; by *= 2) {
        const uint32_t before = __shfl_up_sync(0xffffffffu, place, by);
        if (lane >= by) place += before;
    }
    if (lane == 31) of_warp[warp] = place;
    place -= own;
    __syncthreads();
    uint32_t total = 0;
    for (uint32_t w = 0; w < kOrderedThreads / 32; ++w) {
        if (w < warp) place += of_warp[w];
        total += of_warp[w];
    }
    if (total > kMaxLeaders) {
        __syncthreads();
        return false;
    }
    for (uint32_t i = from; own > 0; ++i) {
        const uint32_t rank = batch.ranks[i];
        if ((rank & BlockPackets::kLeads) == 0) continue;
        places[place] = i;
        keys[place] = batch.keys[i];
        weights[place++] = rank & ~BlockPackets::kLeads;
        --own;
    }
    __syncthreads();
    const uint32_t mine = threadIdx.x, key = mine < total ? keys[mine] : kNoOrderKey;
    const bool numbered = key < tickets.size();
    uint32_t before = 0;
    bool last = numbered;
    if (numbered)
        for (uint32_t other = 0; other < total; ++other) {
            if (keys[other] != key) continue;
            if (other < mine) before += weights[other];
            last = last && other <= mine;
        }
    await();
    const uint64_t ticket = numbered ? tickets[key] + before : 0;
    __syncthreads();
    if (numbered) batch.bases[places[mine]] = ticket;
    if (last) tickets[key] = ticket + weights[mine];
    return true;
}

namespace detail {
/// Entries of the table of keys for `packets` packets.
MILLRACE_DEVICE uint32_t key_entries(uint32_t packets) { return packets < 2 ? 4 : 2u << (32 - __clz(packets - 1)); }

/// Where `key` stands in a table of keys, or the free entry where it would. Keys are slots of state, small and dense:
/// where they are fewer than entries each has its own.
MILLRACE_DEVICE uint32_t find_key(const uint64_t* table, uint32_t entries, uint32_t key) {
    uint32_t at = key & (entries - 1);
    for (uint64_t entry; (entry = table[at]) != 0 && static_cast<uint32_t>(entry >> 32) != key + 1;)
        at = (at + 1) & (entries - 1);
    return at;
}
}  // namespace detail

/// Numbers the packets that have an order key, in order of arrival: `take_ticket` then finds what is theirs. One block;
/// where few packets lead their key it looks at these alone. Else rounds of 512 packets in order of arrival, a thread
/// taking every 256th. Within a round the packets of a key are counted by groups of 32: a key's counts stand in a row
/// of a table that the keys are hashed into, and a packet's place is the sum of those before its group's. A second
/// table, of the whole batch, has for each key how many packets had it so far. Only then it calls `await`, once, and
/// draws tickets for each key: batches wait for each other no longer than that takes.
template <class Await>
MILLRACE_DEVICE void number_packets(const BatchView& batch, MutableView<uint64_t> tickets, Await&& await) {
    if (number_leaders(batch, tickets, await)) return;
    using detail::kGroups, detail::kRound, detail::kRows, detail::kShare;
    constexpr uint32_t kNone = 0xffffffffu;
    auto& [keys, counts] = detail::round();
    const uint32_t lane = threadIdx.x % 32;
    const auto group_of = [](uint32_t k) { return (k * kOrderedThreads + threadIdx.x) / 32; };
    const auto key_of = [&](uint32_t i) {
        const uint32_t key = i < batch.count ? batch.keys[i] : kNone;
        return key < tickets.size() ? key : kNone;
    };
    const uint32_t entries = detail::key_entries(batch.count);
    const uint32_t in_use = tickets.size() < entries ? static_cast<uint32_t>(tickets.size()) : entries;
    for (uint32_t i = threadIdx.x; i < in_use; i += kOrderedThreads) batch.key_table[i] = 0;
    uint32_t key[kShare], next_key[kShare], peers[kShare], row[kShare], entry[kShare];
    for (uint32_t k = 0; k < kShare; ++k) next_key[k] = key_of(k * kOrderedThreads + threadIdx.x);
    for (uint32_t i = threadIdx.x; i < kRows; i += kOrderedThreads) keys[i] = kNone;
    for (uint32_t i = threadIdx.x; i < kRows * (kGroups / 4); i += kOrderedThreads)
        counts[i / (kGroups / 4)][i % (kGroups / 4)] = 0;
    __syncthreads();
    for (uint32_t first = 0; first < batch.count; first += kRound) {
#pragma unroll
        for (uint32_t k = 0; k < kShare; ++k) {
            key[k] = next_key[k];
            next_key[k] = key_of(first + kRound + k * kOrderedThreads + threadIdx.x);
            peers[k] = __match_any_sync(0xffffffffu, key[k]);
            row[k] = kNone;
            if (key[k] == kNone || lane != __ffs(peers[k]) - 1u) continue;
            for (uint32_t at = key[k] * 2654435761u >> (32 - detail::kRowBits);; at = (at + 1) % kRows) {
                const uint32_t owner = atomicCAS(&keys[at], kNone, key[k]);
                if (owner != kNone && owner != key[k]) continue;
                row[k] = at;
                break;
            }
            reinterpret_cast<uint8_t*>(counts[row[k]])[group_of(k)] = static_cast<uint8_t>(__popc(peers[k]));
            // A key that is new to the batch gets its entry at once: no entry is freed, and all of a key find the same.
            entry[k] = detail::find_key(batch.key_table, entries, key[k]);
            for (const uint64_t own = static_cast<uint64_t>(key[k] + 1) << 32; true;
                 entry[k] = (entry[k] + 1) & (entries - 1)) {
                const uint64_t found = atomicCAS(reinterpret_cast<unsigned long long*>(&batch.key_table[entry[k]]),
                                                 0ull, static_cast<unsigned long long>(own));
                if (found == 0 || found >> 32 == key[k] + 1) break;
            }
        }
        __syncthreads();
        uint32_t after[kShare];  // the key's packets up to this round's end, where this thread is to write it
#pragma unroll
        for (uint32_t k = 0; k < kShare; ++k) {
            const uint32_t group = group_of(k);
            uint32_t before = 0, total = 0, base = 0;
            if (row[k] != kNone) {
                base = static_cast<uint32_t>(batch.key_table[entry[k]]);
                for (uint32_t w = 0; w < kGroups / 4; ++w) {
                    const uint32_t word = counts[row[k]][w];
                    const uint32_t earlier = w < group / 4    ? word
                                             : w == group / 4 ? word & ((1u << (8 * (group % 4))) - 1)
                                                              : 0;
                    before = __dp4a(earlier, 0x01010101u, before);
                    total = __dp4a(word, 0x01010101u, total);
                }
            }
            const uint32_t leader = __ffs(peers[k]) - 1;
            const uint32_t rank = __shfl_sync(0xffffffffu, base + before, leader) +
                                  __popc(peers[k] & ((1u << lane) - 1));
            const uint32_t at = __shfl_sync(0xffffffffu, entry[k], leader);
            if (key[k] != kNone)
                batch.bases[first + k * kOrderedThreads + threadIdx.x] = kOfEntry | static_cast<uint64_t>(at) << 32 |
                                                                         rank;
            after[k] = base + total;
            // The last group that has the key carries its count on.
            if (row[k] != kNone && before + __popc(peers[k]) != total) row[k] = kNone;
        }
        __syncthreads();
#pragma unroll
        for (uint32_t k = 0; k < kShare; ++k) {
            if (row[k] == kNone) continue;
            batch.key_table[entry[k]] = static_cast<uint64_t>(key[k] + 1) << 32 | after[k];
            // Leaves the rows as they were: few of them are used.
            keys[row[k]] = kNone;
            for (uint32_t w = 0; w < kGroups / 4; ++w) counts[row[k]][w] = 0;
        }
        __syncthreads();
    }
    await();
    // All other batches wait now: what a thread loads for one key does not wait for what it stores for another.
    constexpr uint32_t kAtOnce = 8;
    for (uint32_t first_entry = threadIdx.x; first_entry < in_use; first_entry += kAtOnce * kOrderedThreads) {
        uint64_t of_key[kAtOnce], ticket[kAtOnce];
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t i = first_entry + k * kOrderedThreads;
            of_key[k] = i < in_use ? batch.key_table[i] : 0;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) ticket[k] = of_key[k] != 0 ? tickets[(of_key[k] >> 32) - 1] : 0;
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            if (of_key[k] == 0) continue;
            batch.key_table[first_entry + k * kOrderedThreads] = ticket[k];
            tickets[(of_key[k] >> 32) - 1] = ticket[k] + static_cast<uint32_t>(of_key[k]);
        }
    }
}

/// Ends a stage for its packets: those with the same key one after the other in order of arrival,
/// different keys concurrently. One block; the first packet of a key in a round takes all of the
/// round's. Packets without a key stand for themselves. The keys are those of `number_packets`: the NF
/// may have changed the packet since.
template <class Commit>
MILLRACE_DEVICE void commit_packets(const BatchView& batch, uint32_t* counts, const StageNodes& own, Commit commit) {
    auto& [keys, waits] = detail::committing();
    for (uint32_t first = 0; first < batch.count; first += blockDim.x) {
        const uint32_t i = first + threadIdx.x;
        const bool mine = i < batch.count && own.has(batch.at[i]);
        const uint32_t key = mine ? batch.keys[i] : 0xffffffffu;
        keys[threadIdx.x] = key;
        waits[threadIdx.x] = mine;
        __syncthreads();
        bool leads = mine;
        for (uint32_t k = 0; k < threadIdx.x && leads; ++k) leads = !(waits[k] && keys[k] == key && key != 0xffffffffu);
        if (leads) {
            for (uint32_t k = threadIdx.x; k < blockDim.x; ++k) {
                if (k != threadIdx.x && !(waits[k] && keys[k] == key && key != 0xffffffffu)) continue;
                const uint32_t node = batch.at[first + k];
                route_packet(batch, counts, first + k, own, node,
                             commit(&batch.packets[first + k], own.tables_of(node), batch.decisions[first + k]));
            }
        }
        __syncthreads();
    }
}

}  // namespace millrace::device

#endif
