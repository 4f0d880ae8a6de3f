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

struct OffloadEngine::Queue {
    std::shared_ptr<const chain::Program> program;
    std::shared_ptr<device::LoadedProgram> loaded;
    ChainCounters* counters = nullptr;
    std::vector<device::Step> steps;
    uint32_t prefix_in = chain::kWholeFrame;   // bytes of each frame that go to the device
    uint32_t prefix_back = chain::kWholeFrame; // and come back; 0: none
    std::vector<rte_mbuf*> waiting;
    std::vector<std::pair<uint64_t, size_t>> bursts;  // arrival (TSC) and packets of each burst
};

struct OffloadEngine::Layout {
    size_t packets = 0;
    size_t bytes = 0;            // of the packet buffer
    uint32_t headroom = 0, tailroom = 0;
    std::vector<uint32_t> offsets;  // of each frame's first byte
    std::vector<uint32_t> present;
};

/// Everything that one batch needs, allocated once. Input and output blocks hold several arrays so
/// that one copy moves each.
struct OffloadEngine::Slot {
    device::StreamId stream = 0;
    // Host side.
    uint8_t* frames_in = nullptr;
    uint8_t* frames_out = nullptr;
    uint8_t* input = nullptr;    // EventBuffer, outcome counts, descriptors
    uint8_t* output = nullptr;   // EventBuffer, outcome counts, results
    Event* events = nullptr;
    Decision* visits = nullptr;
    std::vector<uint8_t> states;
    std::vector<device::CopyPiece> pieces_in, pieces_out;
    // Device side.
    device::Address device_block = 0, device_events = 0, device_visits = 0, device_prefixes = 0, device_work = 0;
    // The batch.
    std::shared_ptr<const chain::Program> program;
    std::shared_ptr<device::LoadedProgram> loaded;
    ChainCounters* counters = nullptr;
    std::vector<device::Step> steps;
    std::vector<rte_mbuf*> mbufs;
    std::vector<std::pair<uint64_t, size_t>> bursts;
    device::BatchView view;
    size_t ring_offset = 0, ring_bytes = 0;
    uint32_t prefix_in = 0, prefix_back = 0;
    device::EventId done = 0;
    uint64_t launched = 0;
    uint64_t order = 0;          // among the device's ordered batches, from 1; 0: not ordered
    bool fetching_rest = false;

    static constexpr size_t kOutcomes = device::kMaxNodes * device::kMaxOutcomes;
    static constexpr size_t kHead = sizeof(EventBuffer) + kOutcomes * sizeof(uint32_t);
    EventBuffer& event_buffer(uint8_t* block) const { return *reinterpret_cast<EventBuffer*>(block); }
    uint32_t* outcomes(uint8_t* block) const { return reinterpret_cast<uint32_t*>(block + sizeof(EventBuffer)); }
    device::FrameDescriptor* descriptors() const { return reinterpret_cast<device::FrameDescriptor*>(input + kHead); }
    device::PacketResult* results() const { return reinterpret_cast<device::PacketResult*>(output + kHead); }
};

}  // namespace millrace::exec
