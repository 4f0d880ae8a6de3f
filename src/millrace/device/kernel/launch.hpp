// How the kernels of a chain spread packets over a GPU. Included by the generated source only.
//
// A block of threads owns as many consecutive packets as it has threads. It runs the nodes one after
// the other; a node with L lanes per packet takes the block's packets in L rounds. Packets live in
// global memory between the nodes, so lanes can be mapped anew for each.
#pragma once

#include "millrace/device/kernel/chain.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

#if MILLRACE_GPU

namespace millrace::device {

MILLRACE_DEVICE uint32_t block_first() { return blockIdx.x * blockDim.x; }
MILLRACE_DEVICE uint32_t block_last(const BatchView& batch) { return smaller(block_first() + blockDim.x, batch.count); }

/// Parses the block's packets, one thread each.
MILLRACE_DEVICE void begin_block(const BatchView& batch, uint32_t nodes, bool drop_malformed) {
    const uint32_t i = block_first() + threadIdx.x;
    if (i < batch.count) begin_packet(batch, i, nodes, drop_malformed);
    __syncthreads();
}

MILLRACE_DEVICE void end_block(const BatchView& batch) {
    const uint32_t i = block_first() + threadIdx.x;
    if (i < batch.count) end_packet(batch, i);
}

MILLRACE_DEVICE void pack_block(const BatchView& batch) {
    const uint32_t i = block_first() + threadIdx.x;
    if (i < batch.count) pack_packet(batch, i);
}

/// Runs one node for those of the block's packets that wait for it. All lanes of a packet work on
/// copies of its handle; the first one's is kept, as uniform code has made them equal.
template <unsigned LaneCount, bool EmitsEvents, bool Hold, class Process>
MILLRACE_DEVICE void run_node(const BatchView& batch, const void* tables, uint32_t node, Process process, const Target* targets,
                              uint32_t outcomes) {
    const uint32_t last = block_last(batch);
    const Lanes<LaneCount> lanes;
    for (uint32_t i = block_first() + threadIdx.x / LaneCount; i < last; i += blockDim.x / LaneCount) {
        if (batch.at[i] != node) continue;
        Packet packet = batch.packets[i];
        if constexpr (EmitsEvents) packet.set_events(batch.events, static_cast<uint16_t>(node));
        lanes.sync();
        const Decision decision = process(&packet, tables);
        lanes.once([&] {
            batch.packets[i] = packet;
            if constexpr (Hold) {
                batch.decisions[i] = decision;
            } else {
                route_packet(batch, i, node, decision, targets, outcomes);
            }
        });
    }
    __syncthreads();
}

/// Packets that one round of the ordered kernels takes; they run in one block of that many threads.
inline constexpr uint32_t kOrderedThreads = 1024;

/// Gives each packet that waits for `node` its ticket. One block; rounds of kOrderedThreads packets
/// in order of arrival; within a round a packet counts those before it with the same key.
template <class OrderKey>
MILLRACE_DEVICE void number_packets(const BatchView& batch, const void* tables, uint32_t node, OrderKey order_key,
                                    MutableView<uint64_t> tickets) {
    __shared__ uint32_t keys[kOrderedThreads];
    for (uint32_t first = 0; first < batch.count; first += blockDim.x) {
        const uint32_t i = first + threadIdx.x;
        uint32_t key = 0xffffffffu;
        if (i < batch.count && batch.at[i] == node) key = order_key(&batch.packets[i], tables);
        if (key >= tickets.size()) key = 0xffffffffu;
        keys[threadIdx.x] = key;
        if (i < batch.count) batch.keys[i] = key;
        __syncthreads();
        uint32_t before = 0, same = 0;
        if (key != 0xffffffffu) {
            for (uint32_t k = 0; k < blockDim.x; ++k) {
                same += keys[k] == key;
                before += k < threadIdx.x && keys[k] == key;
            }
            batch.packets[i].set_ticket(tickets[key] + before);
        }
        __syncthreads();
        if (key != 0xffffffffu && before + 1 == same) tickets[key] += same;
        __syncthreads();
    }
}

/// Ends `node` for its packets: those with the same key one after the other in order of arrival,
/// different keys side by side. One block; the first packet of a key in a round takes all of the
/// round's. Packets without a key stand for themselves. The keys are those of `number_packets`: the NF
/// may have changed the packet since.
template <class Commit>
MILLRACE_DEVICE void commit_packets(const BatchView& batch, const void* tables, uint32_t node, Commit commit, const Target* targets,
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
                route_packet(batch, first + k, node, commit(&batch.packets[first + k], tables, batch.decisions[first + k]), targets, outcomes);
            }
        }
        __syncthreads();
    }
}

}  // namespace millrace::device

#endif
