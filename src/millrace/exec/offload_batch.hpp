// The buffers of a batch, as the parts of the offload engine share them.
#pragma once

#include <vector>

#include "millrace/exec/offload_engine.hpp"

namespace millrace::exec {

/// Events that come back with the results; more are fetched when there are more.
inline constexpr uint32_t kEagerEvents = 64;
inline constexpr uint32_t kEventsPerPacket = 4;
/// Heads of frames longer than this are not worth a transfer of their own.
inline constexpr uint32_t kMostPrefix = 128;

/// Where a packet goes, by what decided on it.
inline Target target_of(const chain::Program& program, const device::PacketResult& result) {
    if (result.node < program.nodes.size()) return program.nodes[result.node].targets[result.outcome];
    return result.node == kParserNode ? Target{Target::Kind::drop, 0} : Target{};
}

struct OffloadEngine::Queue {
    std::shared_ptr<const chain::Program> program;
    std::shared_ptr<device::LoadedProgram> loaded;
    ChainCounters* counters = nullptr;
    uint32_t prefix_in = chain::kWholeFrame;   // bytes of each frame that go to the device
    uint32_t prefix_back = chain::kWholeFrame; // and come back; 0: none
    size_t state_bytes = 0;                    // of the NFs' state that comes back with each batch
    std::vector<rte_mbuf*> packets;            // those from `first` on wait for a batch
    size_t first = 0;
    std::vector<std::pair<uint64_t, size_t>> bursts;  // arrival (TSC) and packets of each burst

    size_t waiting() const { return packets.size() - first; }
    void take(size_t count) {
        first += count;
        if (first < packets.size()) return;
        packets.clear();
        first = 0;
    }
};

/// Everything that one batch needs, allocated once.
///
/// On the device a block holds, for n packets: descriptors, the head (EventBuffer and outcome counts), results,
/// the snapshot of the NFs' state, events. The host writes descriptors and head with one copy and gets head, results and the first events
/// with one.
struct OffloadEngine::Slot {
    static constexpr size_t kOutcomes = device::kMaxNodes * device::kMaxOutcomes;
    static constexpr size_t kHead = sizeof(EventBuffer) + kOutcomes * sizeof(uint32_t);

    device::StreamId stream = 0;
    // Host side.
    uint8_t* frames_in = nullptr;       // for packed transfers
    FrameRegion* region = nullptr;      // what comes back lands here
    uint8_t* block = nullptr;           // as the device's, without sources
    uint64_t* sources = nullptr;
    Decision* visits = nullptr;
    size_t block_bytes = 0;             // of the block, on both sides
    std::vector<device::CopyPiece> pieces;
    // Device side.
    device::Address device_block = 0, device_sources = 0, device_visits = 0, device_prefixes = 0, device_work = 0;
    // The batch.
    std::shared_ptr<const chain::Program> program;
    std::shared_ptr<device::LoadedProgram> loaded;
    ChainCounters* counters = nullptr;
    std::vector<rte_mbuf*> mbufs;
    std::vector<std::pair<uint64_t, size_t>> bursts;
    device::BatchView view;
    size_t count = 0;
    size_t state_bytes = 0;             // of the snapshot
    size_t ring_offset = 0, ring_bytes = 0;
    size_t frame_bytes = 0;             // that are to be brought
    uint32_t slot_bytes = 0;            // from one frame to the next in the packet buffer; 0: uneven
    size_t runs = 0;                    // of buffers that lie at one distance from each other
    ptrdiff_t pitch = 0;                // that distance in the first of them
    uint32_t headroom = 0, tailroom = 0;
    uint32_t prefix_in = 0, prefix_back = 0;
    bool gathered = false;
    device::EventId done = 0;
    uint64_t launched = 0;
    uint64_t order = 0;                 // among the device's ordered batches, from 1; 0: not ordered
    bool fetching_rest = false;

    size_t head_offset() const { return (count * sizeof(device::FrameDescriptor) + 15) / 16 * 16; }  // pointers are inside
    size_t results_offset() const { return head_offset() + kHead; }
    size_t snapshot_offset() const { return results_offset() + count * sizeof(device::PacketResult); }
    size_t events_offset() const { return snapshot_offset() + state_bytes; }
    static constexpr size_t block_bytes_for(size_t n, size_t state_bytes) {
        return state_bytes + n * (sizeof(device::FrameDescriptor) + sizeof(device::PacketResult) + kEventsPerPacket * sizeof(Event)) + kHead + 64;
    }

    EventBuffer& event_buffer() const { return *reinterpret_cast<EventBuffer*>(block + head_offset()); }
    uint32_t* outcomes() const { return reinterpret_cast<uint32_t*>(block + head_offset() + sizeof(EventBuffer)); }
    device::FrameDescriptor* descriptors() const { return reinterpret_cast<device::FrameDescriptor*>(block); }
    device::PacketResult* results() const { return reinterpret_cast<device::PacketResult*>(block + results_offset()); }
    Event* events() const { return reinterpret_cast<Event*>(block + events_offset()); }
    /// How many events the device has stored.
    uint32_t stored_events() const { return std::min(event_buffer().count, event_buffer().capacity); }
};

}  // namespace millrace::exec
