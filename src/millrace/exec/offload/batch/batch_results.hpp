// What has come back with a batch.
#pragma once

#include <algorithm>

#include "millrace/exec/offload/batch/batch_buffers.hpp"

namespace millrace::exec {

/// Where a packet goes, by what decided on it.
inline Target target_of(const chain::Program& program, const device::PacketResult& result) {
    if (result.node() < program.nodes.size()) return program.nodes[result.node()].target(result.outcome());
    const bool dropped = result.node() == kParserNode || result.node() == kNoChainNode;
    return dropped ? Target{Target::Kind::drop, 0} : Target{};
}

/// The number of the chain that a packet was classified into, by what decided on it; chain::kNoChain: into none.
inline uint16_t chain_of(const chain::Program& program, const device::PacketResult& result) {
    return result.node() < program.nodes.size() ? program.chain_of_node[result.node()] : result.detail;
}

/// The head of a batch's piece, which the host writes and gets back with the results.
class PieceHead {
public:
    explicit PieceHead(uint8_t* head) : head_(head) {}
    EventBuffer& events() const { return reinterpret_cast<HeadStart*>(head_)->events; }
    nf::Journal& journal() const { return reinterpret_cast<HeadStart*>(head_)->journal; }
    /// [node][LoadedChain::counters_of_node], up to the end.
    uint32_t* outcomes() const { return reinterpret_cast<uint32_t*>(head_ + sizeof(HeadStart)); }

private:
    uint8_t* head_;
};

/// A view of a batch's result buffer. Only what lies from the head to the first events is there before the rest has
/// been asked for.
class BatchResults {
public:
    BatchResults(const BatchBuffers& buffers, const PieceLayout& piece) : buffers_(buffers), piece_(piece) {}

    uint8_t* at(size_t place) const { return buffers_.back(piece_, place); }
    PieceHead head() const { return PieceHead(at(piece_.head_at)); }
    const device::PacketResult* packets() const {
        return reinterpret_cast<const device::PacketResult*>(at(piece_.results_at));
    }
    const uint8_t* snapshot() const { return at(piece_.snapshot_at); }
    /// How many events the device has stored.
    uint32_t stored_events() const { return std::min(head().events().count, head().events().capacity); }
    Event* events() const {
        return stored_events() > kEagerEvents ? buffers_.more_events() : reinterpret_cast<Event*>(at(piece_.events_at));
    }
    /// How many packets have had their events left.
    uint32_t left_count() const { return std::min(head().events().left_count, head().events().left_capacity); }
    size_t kept_bytes() const { return std::min(head().events().kept_bytes, head().events().kept_capacity); }

private:
    const BatchBuffers& buffers_;
    const PieceLayout& piece_;
};

}  // namespace millrace::exec
