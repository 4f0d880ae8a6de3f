// How the kernels of a chain spread packets over a GPU. Included by the generated source only.
//
// A block of threads owns a few consecutive packets, BatchView::block_packets of them. It runs the nodes one
// after the other; a node with fewer lanes per packet leaves whole warps idle. Packets live in global memory
// between the nodes, so lanes can be mapped anew for each. Warps take packets longest frame first, so that those
// of a warp are of a length, and none is left with a long one at the end.
#pragma once

#include "millrace/device/kernel/chain.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

#if MILLRACE_GPU

namespace millrace::device {

/// Threads that copy a frame together.
inline constexpr uint32_t kCopyLanes = 8;

/// Fetches packet `i`'s frame from the host's memory, or from where it has landed, in kCopyLanes threads. The bus takes long to
/// answer: each thread asks for several words before it waits.
MILLRACE_DEVICE void gather_frame(const BatchView& batch, uint32_t i) {
    constexpr uint32_t kWord = sizeof(uint4), kHalf = sizeof(uint2), kAsked = 4;
    const uint32_t rank = threadIdx.x % kCopyLanes;
    const FrameDescriptor& frame = batch.descriptors[i];
    const auto* from = reinterpret_cast<const uint8_t*>(batch.source_of(i));
    uint8_t* to = batch.frames + frame.offset;
    if ((reinterpret_cast<uintptr_t>(from) & (kWord - 1)) != 0 || (reinterpret_cast<uintptr_t>(to) & (kHalf - 1)) != 0) {
        for (uint32_t at = rank; at < frame.present; at += kCopyLanes) to[at] = from[at];
        return;
    }
    // The last word may reach behind the frame, the last half of one that is written up to a multiple of kHalf: frames begin at such.
    const auto* words = reinterpret_cast<const uint4*>(from);
    auto* into = reinterpret_cast<uint2*>(to);
    const uint32_t count = (frame.present + kWord - 1) / kWord, halves = (frame.present + kHalf - 1) / kHalf;
    const bool whole = (reinterpret_cast<uintptr_t>(to) & (kWord - 1)) == 0;
    const auto put = [&](uint32_t at, const uint4& word) {
        if (whole && 2 * at + 1 < halves) {
            reinterpret_cast<uint4*>(into)[at] = word;
            return;
        }
        into[2 * at] = make_uint2(word.x, word.y);
        if (2 * at + 1 < halves) into[2 * at + 1] = make_uint2(word.z, word.w);
    };
    for (uint32_t at = rank; at < count; at += kCopyLanes * kAsked) {
        uint4 asked[kAsked];
#pragma unroll
        for (uint32_t k = 0; k < kAsked; ++k)
            if (at + k * kCopyLanes < count) asked[k] = __ldcs(words + at + k * kCopyLanes);
#pragma unroll
        for (uint32_t k = 0; k < kAsked; ++k)
            if (at + k * kCopyLanes < count) put(at + k * kCopyLanes, asked[k]);
    }
}

/// The packets of this block.
class BlockPackets {
public:
    struct Shared {
        uint16_t bytes[kMostBlockPackets];
        uint8_t order[kMostBlockPackets];
        uint32_t keys[kMostBlockPackets];
        uint8_t waiting[kMostBlockPackets];  ///< those that wait for a node, in that order
        uint32_t waiting_of_warp[kMostBlockPackets / 32];
        uint32_t taken[kMaxNodes];  ///< by node: groups of packets that warps have taken
    };

    /// Share `share` of the batch.
    MILLRACE_DEVICE BlockPackets(const BatchView& batch, Shared& shared, uint32_t share) : shared_(shared), first_(share * batch.block_packets) {
        count_ = smaller(first_ + batch.block_packets, batch.count) - first_;
        if (threadIdx.x < kMaxNodes) shared.taken[threadIdx.x] = 0;
        for (uint32_t k = threadIdx.x; k < count_; k += blockDim.x) shared.bytes[k] = batch.descriptors[first_ + k].present;
        __syncthreads();
        for (uint32_t k = threadIdx.x; k < count_; k += blockDim.x) {
            uint32_t place = 0;
            for (uint32_t other = 0; other < count_; ++other)
                place += shared.bytes[other] > shared.bytes[k] || (shared.bytes[other] == shared.bytes[k] && other < k);
            shared.order[place] = static_cast<uint8_t>(k);
        }
        __syncthreads();
        list_ = shared.order;
        waiting_ = count_;
    }

    /// Finds the packets that wait for `node`, for `each_waiting` and `share`, so that the others leave no lanes idle. In order of
    /// length, as they were. Without it those get all packets, and must look which of them wait.
    MILLRACE_DEVICE void find_waiting(const BatchView& batch, uint32_t node) {
        const uint32_t k = threadIdx.x;
        const bool waits = k < count_ && batch.at[first_ + shared_.order[k]] == node;
        waiting_ = static_cast<uint32_t>(__syncthreads_count(waits));
        list_ = shared_.order;
        if (waiting_ == count_ || waiting_ == 0) return;
        const uint32_t warp = k / 32, same = __ballot_sync(0xffffffffu, waits);
        if (k % 32 == 0 && warp < kMostBlockPackets / 32) shared_.waiting_of_warp[warp] = __popc(same);
        __syncthreads();
        uint32_t place = __popc(same & ((1u << k % 32) - 1));
        for (uint32_t before = 0; before < warp && before < kMostBlockPackets / 32; ++before) place += shared_.waiting_of_warp[before];
        if (waits) shared_.waiting[place] = shared_.order[k];
        list_ = shared_.waiting;
        __syncthreads();
    }
    /// Runs `f(i)` for each packet that waits, one thread a packet.
    template <class F>
    MILLRACE_DEVICE void each_waiting(F&& f) const {
        for (uint32_t k = threadIdx.x; k < waiting_; k += blockDim.x) f(first_ + list_[k]);
        __syncthreads();
    }
    /// Sets the block's frames apart.
    MILLRACE_DEVICE void set_apart(const BatchView& batch) const {
        for (uint32_t k = threadIdx.x / kCopyLanes; k < count_; k += blockDim.x / kCopyLanes) gather_frame(batch, first_ + k);
        __syncthreads();
    }
    /// Runs `f(i)` for each packet, one thread a packet.
    template <class F>
    MILLRACE_DEVICE void for_each(F&& f) const {
        for (uint32_t k = threadIdx.x; k < count_; k += blockDim.x) f(first_ + shared_.order[k]);
        __syncthreads();
    }
    /// Writes down each packet's order key, and its rank: kLeads and how many of the block's packets have its key if it is the first of
    /// them; else how far behind that one it is, times 256, and how many are before it; 0 without a key. So whoever numbers the batch
    /// need look at the first ones alone.
    template <class KeyOf>
    MILLRACE_DEVICE void rank(const BatchView& batch, KeyOf&& key_of) const {
        for_each([&](uint32_t i) { shared_.keys[i - first_] = batch.keys[i] = key_of(i); });
        for (uint32_t k = threadIdx.x; k < count_; k += blockDim.x) {
            const uint32_t key = shared_.keys[k];
            uint32_t before = 0, all = 0, leader = k;
            for (uint32_t other = 0; other < count_; ++other) {
                if (shared_.keys[other] != key) continue;
                if (all++ == 0) leader = other;
                before += other < k;
            }
            batch.ranks[first_ + k] = static_cast<uint16_t>(key == kNoOrderKey ? 0 : leader == k ? kLeads | all : (k - leader) << 8 | before);
        }
        __syncthreads();
    }
    static constexpr uint32_t kLeads = 0x8000;
    /// Runs `f(i)` for each packet that waits in `LaneCount` neighbouring threads of a warp. Once for each node.
    template <unsigned LaneCount, class F>
    MILLRACE_DEVICE void share(uint32_t node, F&& f) const {
        constexpr uint32_t kAtOnce = 32 / LaneCount;
        while (true) {
            uint32_t group = 0;
            if (threadIdx.x % 32 == 0) group = atomicAdd(&shared_.taken[node], 1u);
            group = __shfl_sync(0xffffffffu, group, 0);
            if (group * kAtOnce >= waiting_) break;
            const uint32_t k = group * kAtOnce + threadIdx.x % 32 / LaneCount;
            if (k < waiting_) f(first_ + list_[k]);
            __syncwarp();
        }
        __syncthreads();
    }

private:
    Shared& shared_;
    uint32_t first_, count_;
    const uint8_t* list_ = nullptr;
    uint32_t waiting_ = 0;
};

/// Counts of a block's outcomes, in its shared memory until the block ends: thousands of packets would
/// queue up at one counter in the device's memory.
template <unsigned Nodes>
class BlockCounts {
public:
    MILLRACE_DEVICE explicit BlockCounts(uint32_t (&counts)[Nodes * kMaxOutcomes]) : counts_(counts) {
        for (uint32_t i = threadIdx.x; i < Nodes * kMaxOutcomes; i += blockDim.x) counts_[i] = 0;
        __syncthreads();
    }
    MILLRACE_DEVICE uint32_t* data() const { return counts_; }
    MILLRACE_DEVICE void flush(const BatchView& batch) const {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < Nodes * kMaxOutcomes; i += blockDim.x)
            if (counts_[i] != 0) atomicAdd(&batch.outcome_counts[i], counts_[i]);
    }

private:
    uint32_t* counts_;
};

/// Tells what each part of a step takes: the cycles of a block from one barrier to the next, all blocks' together.
class BlockTimer {
public:
    MILLRACE_DEVICE explicit BlockTimer(const BatchView& batch) : times_(batch.part_times), last_(clock64()) {}
    /// What came since the last call was `part`. Behind a barrier.
    MILLRACE_DEVICE void lap(uint32_t part) {
        const long long now = clock64();
        if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(times_ + part), static_cast<unsigned long long>(now - last_));
        last_ = now;
    }

private:
    uint64_t* times_;
    long long last_;
};

/// Runs `f(i)` for each of the batch's packets in kCopyLanes threads, all blocks in turn.
template <class F>
MILLRACE_DEVICE void for_each_copy(const BatchView& batch, F&& f) {
    const uint32_t at_once = gridDim.x * (blockDim.x / kCopyLanes);
    for (uint32_t i = blockIdx.x * (blockDim.x / kCopyLanes) + threadIdx.x / kCopyLanes; i < batch.count; i += at_once) f(i);
}

/// Fetches all frames.
MILLRACE_DEVICE void gather_frames(const BatchView& batch) {
    for_each_copy(batch, [&](uint32_t i) { gather_frame(batch, i); });
}

/// Copies the head of packet `i` that goes back, in kCopyLanes threads.
MILLRACE_DEVICE void pack_head(const BatchView& batch, uint32_t i) {
    constexpr uint32_t kWord = sizeof(uint4);
    const uint8_t* from = batch.frames + batch.results[i].offset;
    uint8_t* to = batch.prefixes + static_cast<uint64_t>(i) * batch.prefix_bytes;
    if (((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | batch.prefix_bytes) & (kWord - 1)) != 0) {
        pack_packet(batch, i, Lanes<kCopyLanes>{});
        return;
    }
    // The last word may reach behind what was brought: into the room of its own frame.
    const uint32_t words = (smaller(batch.prefix_bytes, static_cast<uint32_t>(batch.descriptors[i].present)) + kWord - 1) / kWord;
    for (uint32_t k = threadIdx.x % kCopyLanes; k < words; k += kCopyLanes) reinterpret_cast<uint4*>(to)[k] = reinterpret_cast<const uint4*>(from)[k];
}

/// Copies all heads.
MILLRACE_DEVICE void pack_heads(const BatchView& batch) {
    for_each_copy(batch, [&](uint32_t i) { pack_head(batch, i); });
}

/// What follows `process`: the decision's target, or a function that takes the decision, kept until then.
enum class Then { route, hold };

/// Ends one node that has a `finish` for those of the block's packets that wait for it, one thread a packet.
template <Then After, class Finish>
MILLRACE_DEVICE void finish_node(const BatchView& batch, const BlockPackets& block, uint32_t* counts, const void* tables, uint32_t node, Finish finish,
                                 const Target* targets, uint32_t outcomes) {
    block.each_waiting([&](uint32_t i) {
        if (batch.at[i] != node) return;
        Packet packet = batch.packets[i];
        const Decision decision = finish(&packet, tables, batch.decisions[i]);
        batch.packets[i] = packet;
        if constexpr (After == Then::hold) {
            batch.decisions[i] = decision;
        } else {
            route_packet(batch, counts, i, node, decision, targets, outcomes);
        }
    });
}

/// Runs one node for those of the block's packets that wait for it. All lanes of a packet work on
/// copies of its handle; the first one's is kept, as uniform code has made them equal.
template <unsigned LaneCount, bool EmitsEvents, Then After, class Process>
MILLRACE_DEVICE void run_node(const BatchView& batch, const BlockPackets& block, uint32_t* counts, const void* tables, uint32_t node, Process process,
                              const Target* targets, uint32_t outcomes) {
    const Lanes<LaneCount> lanes;
    block.share<LaneCount>(node, [&](uint32_t i) {
        if (batch.at[i] != node) return;
        Packet packet = batch.packets[i];
        if constexpr (EmitsEvents) packet.set_events(batch.events, static_cast<uint16_t>(node));
        lanes.sync();
        const Decision decision = process(&packet, tables);
        lanes.once([&] {
            batch.packets[i] = packet;
            if constexpr (After != Then::route) {
                batch.decisions[i] = decision;
            } else {
                route_packet(batch, counts, i, node, decision, targets, outcomes);
            }
        });
    });
}

/// Threads of the ordered kernels, which are one block each. Few enough to fit beside the blocks that fill
/// a multiprocessor: all batches wait for them.
inline constexpr uint32_t kOrderedThreads = 256;

/// Gives packet `i` its ticket, if it has one of `keys` order keys.
MILLRACE_DEVICE void take_ticket(const BatchView& batch, uint32_t i, uint64_t keys) {
    if (batch.keys[i] >= keys) return;
    const uint32_t rank = batch.ranks[i];
    const bool leads = (rank & BlockPackets::kLeads) != 0;
    batch.packets[i].set_ticket(leads ? batch.bases[i] : batch.bases[i - (rank >> 8)] + (rank & 0xff));
}

/// Most packets that lead their key in their block which number_leaders takes.
inline constexpr uint32_t kMostLeaders = kOrderedThreads;

/// Writes the tickets of the packets that lead their key in their block, where there are few of them; whether there are. One block.
/// Each thread looks through an equal share of the batch for them, and then takes one.
MILLRACE_DEVICE bool number_leaders(const BatchView& batch, MutableView<uint64_t> tickets) {
    constexpr uint32_t kAtOnce = 8;  // ranks of a load
    __shared__ uint32_t places[kMostLeaders], keys[kMostLeaders], weights[kMostLeaders];
    __shared__ uint32_t of_warp[kOrderedThreads / 32];
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
    if (total > kMostLeaders) {
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
    const uint64_t ticket = numbered ? tickets[key] + before : 0;
    __syncthreads();
    if (numbered) batch.bases[places[mine]] = ticket;
    if (last) tickets[key] = ticket + weights[mine];
    return true;
}

/// Numbers the packets that have an order key, in order of arrival: `take_ticket` then finds what is theirs. One block; where few packets
/// lead their key it looks at these alone. Else rounds of 1,024 packets in order of
/// arrival, a thread taking every 256th. Within a round the packets of a key are counted by groups of 32:
/// a key's counts stand in a row of a table that the keys are hashed into, and a packet's place is the sum
/// of those before its group's.
MILLRACE_DEVICE void number_packets(const BatchView& batch, MutableView<uint64_t> tickets) {
    if (number_leaders(batch, tickets)) return;
    constexpr uint32_t kNone = 0xffffffffu, kShare = 4, kRound = kShare * kOrderedThreads, kGroups = kRound / 32;
    __shared__ uint32_t keys[kRound];
    __shared__ uint32_t counts[kRound][kGroups / 4];  // a byte for each group
    const uint32_t lane = threadIdx.x % 32;
    const auto group_of = [](uint32_t k) { return (k * kOrderedThreads + threadIdx.x) / 32; };
    const auto key_of = [&](uint32_t i) {
        const uint32_t key = i < batch.count ? batch.keys[i] : kNone;
        return key < tickets.size() ? key : kNone;
    };
    uint32_t key[kShare], next_key[kShare], peers[kShare], row[kShare];
    for (uint32_t k = 0; k < kShare; ++k) next_key[k] = key_of(k * kOrderedThreads + threadIdx.x);
    for (uint32_t i = threadIdx.x; i < kRound; i += kOrderedThreads) keys[i] = kNone;
    for (uint32_t i = threadIdx.x; i < kRound * (kGroups / 4); i += kOrderedThreads) counts[i / (kGroups / 4)][i % (kGroups / 4)] = 0;
    __syncthreads();
    for (uint32_t first = 0; first < batch.count; first += kRound) {
#pragma unroll
        for (uint32_t k = 0; k < kShare; ++k) {
            key[k] = next_key[k];
            next_key[k] = key_of(first + kRound + k * kOrderedThreads + threadIdx.x);
            peers[k] = __match_any_sync(0xffffffffu, key[k]);
            row[k] = kNone;
            if (key[k] == kNone || lane != __ffs(peers[k]) - 1u) continue;
            // Never more keys than rows, so there is one.
            for (uint32_t at = key[k] * 2654435761u >> 22;; at = (at + 1) % kRound) {
                const uint32_t owner = atomicCAS(&keys[at], kNone, key[k]);
                if (owner != kNone && owner != key[k]) continue;
                row[k] = at;
                break;
            }
            reinterpret_cast<uint8_t*>(counts[row[k]])[group_of(k)] = static_cast<uint8_t>(__popc(peers[k]));
        }
        __syncthreads();
        uint64_t after[kShare];  // the counter behind this round, where this thread is to write it
#pragma unroll
        for (uint32_t k = 0; k < kShare; ++k) {
            const uint32_t group = group_of(k);
            uint32_t before = 0, total = 0;
            uint64_t base = 0;
            if (row[k] != kNone) {
                base = tickets[key[k]];
                for (uint32_t w = 0; w < kGroups / 4; ++w) {
                    const uint32_t word = counts[row[k]][w];
                    const uint32_t earlier = w < group / 4 ? word : w == group / 4 ? word & ((1u << (8 * (group % 4))) - 1) : 0;
                    before = __dp4a(earlier, 0x01010101u, before);
                    total = __dp4a(word, 0x01010101u, total);
                }
            }
            const uint64_t ticket = __shfl_sync(0xffffffffu, base + before, __ffs(peers[k]) - 1) + __popc(peers[k] & ((1u << lane) - 1));
            if (key[k] != kNone) batch.bases[first + k * kOrderedThreads + threadIdx.x] = ticket;
            // The last group that has the key carries its counter on.
            if (row[k] != kNone && before + __popc(peers[k]) != total) row[k] = kNone;
            after[k] = base + total;
        }
        __syncthreads();
#pragma unroll
        for (uint32_t k = 0; k < kShare; ++k) {
            if (row[k] == kNone) continue;
            tickets[key[k]] = after[k];
            // Leaves the table as it was: few of its rows are used.
            keys[row[k]] = kNone;
            for (uint32_t w = 0; w < kGroups / 4; ++w) counts[row[k]][w] = 0;
        }
        __syncthreads();
    }
}

/// Ends `node` for its packets: those with the same key one after the other in order of arrival,
/// different keys side by side. One block; the first packet of a key in a round takes all of the
/// round's. Packets without a key stand for themselves. The keys are those of `number_packets`: the NF
/// may have changed the packet since.
template <class Commit>
MILLRACE_DEVICE void commit_packets(const BatchView& batch, uint32_t* counts, const void* tables, uint32_t node, Commit commit, const Target* targets,
                                    uint32_t outcomes) {
    __shared__ uint32_t keys[kOrderedThreads];
    __shared__ uint8_t waits[kOrderedThreads];
    for (uint32_t first = 0; first < batch.count; first += blockDim.x) {
        const uint32_t i = first + threadIdx.x;
        const bool mine = i < batch.count && batch.at[i] == node;
        const uint32_t key = mine ? batch.keys[i] : 0xffffffffu;
        keys[threadIdx.x] = key;
        waits[threadIdx.x] = mine;
        __syncthreads();
        bool leads = mine;
        for (uint32_t k = 0; k < threadIdx.x && leads; ++k) leads = !(waits[k] && keys[k] == key && key != 0xffffffffu);
        if (leads) {
            for (uint32_t k = threadIdx.x; k < blockDim.x; ++k) {
                if (k != threadIdx.x && !(waits[k] && keys[k] == key && key != 0xffffffffu)) continue;
                route_packet(batch, counts, first + k, node, commit(&batch.packets[first + k], tables, batch.decisions[first + k]), targets, outcomes);
            }
        }
        __syncthreads();
    }
}

}  // namespace millrace::device

#endif
