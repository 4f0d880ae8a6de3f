// Where the arrays of a batch lie in its piece of the packet ring.
#pragma once

#include <cstddef>

#include "millrace/device/kernel/batch.hpp"
#include "millrace/exec/offload/chains/loaded_chain.hpp"

namespace millrace::exec {

/// Events that come back with the results; more are fetched when there are more. Those that a batch of `n` packets has
/// no room for the CPU tells: packets with so many are few, or handing on their events takes it longer than asking for
/// them again.
inline constexpr uint32_t kEagerEvents = 64;
inline constexpr uint32_t kEventsPerPacket = 4;
constexpr size_t event_room(size_t n) { return n * kEventsPerPacket + kEagerEvents; }

/// What a batch's head begins with; counts of outcomes follow.
struct HeadStart {
    EventBuffer events;
    nf::Journal journal;
};
static_assert(sizeof(HeadStart) % sizeof(uint64_t) == 0);

/// What a piece has to hold.
struct PieceNeeds {
    size_t packets = 0;
    size_t frames_bytes = 0;   ///< of the packet buffer
    uint32_t prefix_back = 0;  ///< bytes of each frame that come back, or chain::kWholeFrame
    bool heads_home = false;   ///< a kernel writes these heads into the host's memory
    bool sources = false;      ///< where each frame lies on the host
    bool times = false;        ///< when each packet came
    bool events = false;
    size_t staging_bytes = 0;  ///< contiguous frames, as they were received
    RingNeeds chain;
};

/// A piece holds, one behind the other: the descriptors, where the frames lie on the host if that must be said of each,
/// when the packets came if an NF looks at it, the head (EventBuffer, outcome counts), the frames,
/// the results, the snapshot of the NFs' state, the events, the packets whose events were left, the room that frames
/// are staged in if they cross contiguous, and last the frames of packets whose events were left, where they may be
/// others than the host's. So the host writes descriptors and head with one copy, and gets all from the head to the
/// first events with one: a copy engine loses microseconds with each. Where only heads of frames go back, they stand in
/// the frames' place, and the frames behind the events.
///
/// Offsets and sizes are in bytes; the descriptors are at 0.
struct PieceLayout {
    /// Bytes of a head with so many counters of outcomes.
    static constexpr size_t head_of(size_t counters) { return sizeof(HeadStart) + counters * sizeof(uint32_t); }
    static constexpr size_t kAlign = 64;
    static constexpr size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

    PieceLayout() = default;
    explicit PieceLayout(const PieceNeeds& needs);

    size_t sources_at = 0, times_at = 0, head_at = 0, back_at = 0, results_at = 0, snapshot_at = 0, events_at = 0,
           left_at = 0, frames_at = 0, staging_at = 0, kept_at = 0;
    size_t head_bytes = 0;  ///< of HeadStart and outcome counts
    size_t heads_at = 0;    ///< heads of frames in the result buffer, as if it were of the piece
    size_t kept_bytes = 0;  ///< room for kept frames
    size_t bytes = 0;

    /// What the host writes besides the frames, and how much that is at most.
    size_t input_bytes() const { return head_at + head_bytes; }
    /// Behind what comes back without being asked for: all from head_at on.
    size_t back_end(bool events) const { return events_at + (events ? kEagerEvents * sizeof(Event) : 0); }
    static size_t most_input(size_t n) {
        return aligned(n * sizeof(device::FrameDescriptor)) + 2 * aligned(n * sizeof(uint64_t)) +
               head_of(size_t{device::kMaxNodes} * device::kMaxOutcomes);
    }
    /// Room for the frames that one NF keeps, as it saw them.
    static size_t most_kept(size_t n, size_t frames_bytes) { return aligned(frames_bytes + n * 16); }
    /// Besides the frames, at most.
    static size_t most_beside_frames(size_t n, const RingNeeds& needs) {
        return aligned(n * (sizeof(device::FrameDescriptor) + 2 * sizeof(uint64_t) + sizeof(device::PacketResult) +
                            kMaxPrefix + needs.emitters * (sizeof(LeftEvents) + 16)) +
                       event_room(n) * sizeof(Event) + head_of(needs.counters) + needs.state_bytes) +
               10 * kAlign;
    }
    /// Of them that come back, at most.
    static size_t most_back_beside_frames(size_t n, const RingNeeds& needs) {
        return aligned(n * (sizeof(device::PacketResult) + kMaxPrefix) + head_of(needs.counters) + needs.state_bytes +
                       kEagerEvents * sizeof(Event)) +
               8 * kAlign;
    }
};

}  // namespace millrace::exec
