// How the kernels of a chain spread packets over a GPU. Included by the generated source only.
//
// A block of threads owns a few consecutive packets: as many as keep all its threads busy with an NF of
// the chain's largest number of lanes. It runs the nodes one after the other; a node with fewer lanes per
// packet leaves whole warps idle. Packets live in global memory between the nodes, so lanes can be mapped
// anew for each.
#pragma once

#include "millrace/device/kernel/chain.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

#if MILLRACE_GPU

namespace millrace::device {

/// The packets of this block: [first, last).
struct BlockShare {
    uint32_t first, last;
};
template <unsigned Packets>
MILLRACE_DEVICE BlockShare block_share(const BatchView& batch) {
    const uint32_t first = blockIdx.x * Packets;
    return {first, smaller(first + Packets, batch.count)};
}

/// Runs `f(i)` for each of the block's packets, one thread a packet.
template <unsigned Packets, class F>
MILLRACE_DEVICE void for_each_packet(const BatchView& batch, F&& f) {
    const BlockShare share = block_share<Packets>(batch);
    for (uint32_t i = share.first + threadIdx.x; i < share.last; i += blockDim.x) f(i);
    __syncthreads();
}

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

/// Fetches the block's frames from the host's memory, 8 threads a frame, 16 bytes a thread at a time.
template <unsigned Packets>
MILLRACE_DEVICE void gather_block(const BatchView& batch) {
    constexpr uint32_t kThreads = 8;
    const BlockShare share = block_share<Packets>(batch);
    for (uint32_t i = share.first + threadIdx.x / kThreads; i < share.last; i += blockDim.x / kThreads) {
        const FrameDescriptor& frame = batch.descriptors[i];
        const auto* from = reinterpret_cast<const uint8_t*>(batch.sources != nullptr ? batch.sources[i] : batch.source + i * batch.source_pitch);
        uint8_t* to = batch.frames + frame.offset;
        const uint32_t rank = threadIdx.x % kThreads;
        uint32_t done = 0;
        if (((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) & 15) == 0) {
            for (uint32_t at = 16 * rank; at + 16 <= frame.present; at += 16 * kThreads)
                *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
            done = frame.present & ~15u;
        }
        for (uint32_t at = done + rank; at < frame.present; at += kThreads) to[at] = from[at];
    }
}

/// Copies the heads that go back, 8 threads a packet.
template <unsigned Packets>
MILLRACE_DEVICE void pack_block(const BatchView& batch) {
    const BlockShare share = block_share<Packets>(batch);
    const Lanes<8> lanes;
    for (uint32_t i = share.first + threadIdx.x / 8; i < share.last; i += blockDim.x / 8) pack_packet(batch, i, lanes);
}

/// What follows `process`: the decision's target, or a function that takes the decision, kept until then.
enum class Then { route, hold };

/// Ends one node that has a `finish` for those of the block's packets that wait for it, one thread a packet.
template <unsigned Packets, Then After, class Finish>
MILLRACE_DEVICE void finish_node(const BatchView& batch, uint32_t* counts, const void* tables, uint32_t node, Finish finish,
                                 const Target* targets, uint32_t outcomes) {
    for_each_packet<Packets>(batch, [&](uint32_t i) {
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
template <unsigned Packets, unsigned LaneCount, bool EmitsEvents, Then After, class Process>
MILLRACE_DEVICE void run_node(const BatchView& batch, uint32_t* counts, const void* tables, uint32_t node, Process process, const Target* targets,
                              uint32_t outcomes) {
    const BlockShare share = block_share<Packets>(batch);
    const Lanes<LaneCount> lanes;
    for (uint32_t i = share.first + threadIdx.x / LaneCount; i < share.last; i += blockDim.x / LaneCount) {
        if (batch.at[i] != node) continue;
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
    }
    __syncthreads();
}

/// Threads of the ordered kernels, which are one block each. Few enough to fit beside the blocks that fill
/// a multiprocessor: all batches wait for them.
inline constexpr uint32_t kOrderedThreads = 256;

/// Gives each packet that has an order key its ticket. One block; rounds of 1,024 packets in order of
/// arrival, a thread taking every 256th. Within a round the packets of a key are counted by groups of 32:
/// a key's counts stand in a row of a table that the keys are hashed into, and a packet's place is the sum
/// of those before its group's.
MILLRACE_DEVICE void number_packets(const BatchView& batch, MutableView<uint64_t> tickets) {
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
            if (key[k] != kNone) batch.packets[first + k * kOrderedThreads + threadIdx.x].set_ticket(ticket);
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
