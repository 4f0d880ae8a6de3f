// The buffers of a batch, as the parts of the offload engine share them.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <vector>

#include "millrace/device/batch_work.hpp"
#include "millrace/exec/offload/offload_engine.hpp"

namespace millrace::exec {

/// Events that come back with the results; more are fetched when there are more. Those that a batch of `n` packets has
/// no room for the CPU tells: packets with so many are few, or handing on their events takes it longer than asking for
/// them again.
inline constexpr uint32_t kEagerEvents = 64;
inline constexpr uint32_t kEventsPerPacket = 4;
constexpr size_t event_room(size_t n) { return n * kEventsPerPacket + kEagerEvents; }

/// Where a packet goes, by what decided on it.
inline Target target_of(const chain::Program& program, const device::PacketResult& result) {
    if (result.node < program.nodes.size()) return program.nodes[result.node].target(result.outcome);
    return result.node == kParserNode ? Target{Target::Kind::drop, 0} : Target{};
}

/// Everything that one batch needs, allocated once.
///
/// Frames that were received side by side may cross like that and be set apart by a kernel: the piece then ends with
/// the room that they land in.
///
/// A batch's piece of the packet ring holds, one behind the other: the descriptors, where the frames lie on the host
/// if that must be said of each, the head (EventBuffer, outcome counts, BatchView::order), the frames, the results, the
/// snapshot of the NFs' state, the events, the packets whose events were left, and last those packets' frames, where
/// they may be others than the host's. So the host writes descriptors and head with one copy, and gets all from the
/// head to the first events with one: a copy engine loses microseconds with each. Where only heads of frames go back,
/// they stand in the frames' place, and the frames behind the events.
struct OffloadEngine::Slot {
    static constexpr size_t kOutcomes = device::kMaxNodes * device::kMaxOutcomes;
    static constexpr size_t kOrderAt = sizeof(EventBuffer) + kOutcomes * sizeof(uint32_t);  // in the head
    static_assert(kOrderAt % sizeof(uint64_t) == 0);
    static constexpr size_t kHead = kOrderAt + sizeof(uint64_t);
    static constexpr size_t kAlign = 64;
    static constexpr size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

    device::StreamId stream = 0;
    // Host side.
    uint8_t* frames_in = nullptr;   // for packed transfers
    uint8_t* input = nullptr;       // all before the frames
    FrameRegion* region = nullptr;  // what comes back lands here, from the head on
    Event* more_events = nullptr;   // where there are more than come back at once
    LeftEvents* left = nullptr;     // where more were emitted than there was room for
    uint8_t* kept = nullptr;        // their frames, where those received are others
    std::vector<uint64_t> sources;  // where the frames of mbufs lie
    Decision* visits = nullptr;
    std::vector<device::CopyPiece> pieces;
    // Device side.
    device::Address device_visits = 0, device_work = 0;
    // The batch.
    std::shared_ptr<const LoadedChain> chain;  // null: nothing is in it
    uint64_t number = 0;                       // on the resident kernel's list
    std::vector<rte_mbuf*> mbufs;
    std::vector<io::FrameRun> frame_runs;  // what its frames came with, in place of mbufs; empty: mbufs
    /// Memory that holds frames side by side.
    struct Landing {
        const uint8_t* from;
        size_t bytes, at;  ///< where among all of them
        size_t first;      ///< frame of the batch
    };
    std::vector<Landing> landings;  // of those runs, neighbours as one
    std::vector<Burst> bursts;
    device::BatchView view;
    size_t count = 0;
    size_t ring_offset = 0;   // of the piece
    size_t frames_bytes = 0;  // of the packet buffer
    size_t frame_bytes = 0;   // that are to be brought
    uint32_t widest = 0;      // the most of them that one frame has
    uint32_t slot_bytes = 0;  // from one frame to the next in the packet buffer; 0: uneven
    size_t runs = 0;          // of frames that lie at one distance from each other
    ptrdiff_t pitch = 0;      // that distance
    uint32_t headroom = 0, tailroom = 0;
    uint32_t prefix_in = 0, prefix_back = 0;
    TransferIn transfer = TransferIn::packed;
    TransferOut way_back = TransferOut::region;
    device::EventId done = 0;
    uint64_t begun = 0, laid_out = 0;  // when the worker took it up, and when it was there to be told of (TSC)
    uint64_t launched = 0, calls_from = 0, told = 0;  // when it was to be put on the device, when that was first told
                                                      // of it, and when it knew all
    uint64_t bytes_in = 0, bytes_back = 0;            // that cross the bus
    device::Status put_status = device::Status::ok;
    std::atomic<bool> is_put{false};  // by who makes the calls; then all above that they set is there
    uint64_t order = 0;         // among the device's ordered batches, from 1, until its turn says more; 0: not ordered
    uint64_t without_turn = 0;  // of those, that took no turn
    bool fetching_rest = false;
    // For the timeline: what the stream has been given to do, up to when, and the host.
    struct Mark {
        const std::string* name;
        device::EventId event;
        uint64_t bytes;
    };
    std::vector<Mark> marks;
    uint64_t batch = 0, arrived_ns = 0, put_from_ns = 0, put_until_ns = 0;
    // Where things lie in the piece; `place` computes them.
    size_t sources_at = 0, head_at = 0, back_at = 0, results_at = 0, snapshot_at = 0, events_at = 0, left_at = 0,
           frames_at = 0, piece_bytes = 0;
    size_t heads_at = 0;  // of the region, as if it were of the piece
    size_t landing_at = 0, kept_at = 0;

    uint64_t first_source() const {
        return frame_runs.empty() ? sources[0] : reinterpret_cast<uint64_t>(frame_runs.front().data(0));
    }
    /// Where frame `i` was received.
    uint64_t source_of(size_t i) const {
        if (frame_runs.empty()) return sources[i];
        auto run = frame_runs.begin();
        for (; i >= run->count; ++run) i -= run->count;
        return reinterpret_cast<uint64_t>(run->data(static_cast<uint32_t>(i)));
    }
    /// Calls f(i, address) for each frame of the batch, with where it was received.
    template <class F>
    void for_each_source(F f) const {
        size_t i = 0;
        for (const io::FrameRun& run : frame_runs)
            for (uint32_t k = 0; k < run.count; ++k) f(i++, reinterpret_cast<uint64_t>(run.data(k)));
        for (; i < count; ++i) f(i, sources[i]);
    }
    /// Whether the frames cross side by side, as they were received.
    bool lands() const { return transfer == TransferIn::packed && !frame_runs.empty(); }
    size_t landing_bytes() const { return landings.empty() ? 0 : landings.back().at + landings.back().bytes; }

    /// Whether kernels read the frames where they were received.
    bool in_place() const { return transfer == TransferIn::zero_copy && prefix_back == 0; }
    /// Whether the host lays them side by side first.
    bool packs() const {
        return transfer == TransferIn::packed ? !lands() : transfer == TransferIn::zero_copy && !in_place();
    }
    /// Whether the device has to know where each frame lies.
    bool needs_sources() const {
        return (transfer == TransferIn::gather || in_place() || lands()) &&
               (runs != 1 || (lands() && landings.size() > 1));
    }
    /// Lays the piece out for `count` packets.
    void place() {
        const bool whole = prefix_back == chain::kWholeFrame;
        sources_at = aligned(count * sizeof(device::FrameDescriptor));
        head_at = aligned(sources_at + (needs_sources() ? count * sizeof(uint64_t) : 0));
        back_at = aligned(head_at + kHead);
        const bool straight_home = way_back == TransferOut::zero_copy;
        results_at = aligned(back_at + (whole ? frames_bytes : straight_home ? 0 : count * prefix_back));
        snapshot_at = aligned(results_at + count * sizeof(device::PacketResult));
        events_at = aligned(snapshot_at + chain->needs.state_bytes);
        left_at = aligned(events_at + (chain->program->emits_events() ? event_room(count) * sizeof(Event) : 0));
        const size_t left_end = aligned(left_at + count * chain->program->emitters() * sizeof(LeftEvents));
        heads_at = straight_home ? aligned(events_at + kEagerEvents * sizeof(Event)) : back_at;
        frames_at = whole ? back_at : left_end;
        landing_at = whole ? left_end : aligned(frames_at + frames_bytes);
        kept_at = landing_at + (lands() ? aligned(landing_bytes()) : 0);
        piece_bytes = kept_at + kept_capacity();
    }
    /// Bytes of the frames that may be kept, as NFs saw them: all of them for each NF whose packets others have
    /// changed.
    size_t kept_capacity() const {
        return chain->program->emitters_from(chain->program->first_changed()) * most_kept(count, frames_bytes);
    }
    static size_t most_kept(size_t n, size_t frames_bytes) { return aligned(frames_bytes + n * 16); }
    /// Bytes that the host writes besides the frames, and how many these are at most.
    size_t input_bytes() const { return head_at + kHead; }
    static size_t most_input(size_t n) {
        return aligned(n * sizeof(device::FrameDescriptor)) + aligned(n * sizeof(uint64_t)) + kHead;
    }
    /// Bytes of a piece besides its frames, at most.
    static size_t most_beside_frames(size_t n, const RingNeeds& needs) {
        return aligned(n * (sizeof(device::FrameDescriptor) + sizeof(uint64_t) + sizeof(device::PacketResult) +
                            kMostPrefix + needs.emitters * (sizeof(LeftEvents) + 16)) +
                       event_room(n) * sizeof(Event) + kHead + needs.state_bytes) +
               10 * kAlign;
    }
    /// Bytes of them that come back, at most.
    static size_t most_back_beside_frames(size_t n, size_t state_bytes) {
        return aligned(n * (sizeof(device::PacketResult) + kMostPrefix) + kHead + state_bytes +
                       kEagerEvents * sizeof(Event)) +
               8 * kAlign;
    }

    device::FrameDescriptor* descriptors() const { return reinterpret_cast<device::FrameDescriptor*>(input); }
    EventBuffer& event_buffer(uint8_t* head) const { return *reinterpret_cast<EventBuffer*>(head); }
    uint32_t* outcomes(uint8_t* head) const { return reinterpret_cast<uint32_t*>(head + sizeof(EventBuffer)); }
    uint64_t& turns_had(uint8_t* head) const { return *reinterpret_cast<uint64_t*>(head + kOrderAt); }
    // What came back lies in the region as from the head on in the piece.
    uint8_t* back(size_t at) const { return region->data() + (at - head_at); }
    /// How many packets have had their events left.
    uint32_t left_count() const {
        return std::min(event_buffer(back(head_at)).left_count, event_buffer(back(head_at)).left_capacity);
    }
    size_t kept_bytes() const {
        return std::min(event_buffer(back(head_at)).kept_bytes, event_buffer(back(head_at)).kept_capacity);
    }
    const device::PacketResult* results() const {
        return reinterpret_cast<const device::PacketResult*>(back(results_at));
    }
    /// How many events the device has stored.
    uint32_t stored_events() const {
        return std::min(event_buffer(back(head_at)).count, event_buffer(back(head_at)).capacity);
    }
    Event* events() const {
        return stored_events() > kEagerEvents ? more_events : reinterpret_cast<Event*>(back(events_at));
    }
};

}  // namespace millrace::exec
