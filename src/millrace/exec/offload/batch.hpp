// A batch: its buffers on both sides, and what is in them.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "millrace/device/batch_work.hpp"
#include "millrace/exec/offload/chain_queue.hpp"
#include "millrace/exec/offload/frame_layout.hpp"
#include "millrace/exec/offload/result_buffer.hpp"
#include "millrace/exec/offload/piece_layout.hpp"

namespace millrace::exec {

/// Where a packet goes, by what decided on it.
inline Target target_of(const chain::Program& program, const device::PacketResult& result) {
    if (result.node < program.nodes.size()) return program.nodes[result.node].target(result.outcome);
    const bool dropped = result.node == kParserNode || result.node == kNoChainNode;
    return dropped ? Target{Target::Kind::drop, 0} : Target{};
}

/// The number of the chain that a packet was classified into, by what decided on it; chain::kNoChain: into none.
inline uint16_t chain_of(const chain::Program& program, const device::PacketResult& result) {
    return result.node < program.nodes.size() ? program.chain_of_node[result.node] : result.detail;
}

/// Everything that one batch needs, allocated once.
class Batch {
public:
    /// Where it is, and so whose.
    enum class State : uint8_t {
        laid_out,  ///< of who makes the calls: the worker, or a CallThread. Before it has packets: of the worker
        told,      ///< of the device, which has been told all, or of the worker, if that failed (put_status)
        rest,      ///< back but for what could only be asked for when the results were here
        back,      ///< of the worker, all of it
    };

    /// Room for `most_packets` and as many bytes of frames. Throws device::DeviceError.
    Batch(std::shared_ptr<device::Device> device, uint32_t most_packets, size_t most_bytes, bool wants_visits,
          bool timed);
    /// It is not in flight.
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    /// Makes room for what comes back of chains with such needs, in a region of these.
    void fit(const RingNeeds& needs, std::shared_ptr<ResultBuffers> from);
    void give_back_buffer();

    std::atomic<State> state{State::laid_out};
    device::StreamId stream = 0;
    // Host side.
    uint8_t* frames_in = nullptr;  // for packed transfers
    uint8_t* input = nullptr;      // all before the frames
    std::shared_ptr<ResultBuffers> regions;
    ResultBuffer* region = nullptr;  // what comes back lands here, from the head on
    Event* more_events = nullptr;    // where there are more than come back at once
    LeftEvents* left = nullptr;      // where more were emitted than there was room for
    uint8_t* kept = nullptr;         // their frames, where those received are others
    std::vector<uint64_t> sources;   // where the frames of mbufs lie
    Decision* visits = nullptr;
    std::vector<device::CopyPiece> pieces;
    // Device side.
    device::Address device_visits = 0, device_work = 0;
    // The batch.
    std::shared_ptr<const LoadedChain> chain;  // null: nothing is in it
    uint64_t number = 0;                       // on the resident kernel's list
    std::vector<rte_mbuf*> mbufs;
    std::vector<io::ReceiveBlock> receive_blocks;  // what its frames came with, in place of mbufs; empty: mbufs
    StagedRanges staged_ranges;                    // of those runs
    std::vector<Burst> bursts;
    device::BatchView view;
    FrameLayout frames;
    PieceLayout piece;
    device::Address address = 0;  // of the piece
    TransferIn transfer = TransferIn::packed;
    TransferOut way_back = TransferOut::region;
    device::EventId done = 0;
    uint64_t begun = 0, laid_out = 0;  // when the worker took it up, and when it was there to be told of (TSC)
    uint64_t launched = 0, calls_from = 0, told = 0;  // when it was to be put on the device, when that was first told
                                                      // of it, and when it knew all
    uint64_t bytes_in = 0, bytes_back = 0;            // that cross the bus
    device::Status put_status = device::Status::ok;   // of who made the calls
    uint64_t order = 0;  // among the device's ordered batches, from 1, until its sequence says more; 0: not ordered
    uint64_t unsequenced = 0;  // of those, that have no sequence number
    // For the timeline: what the stream has been given to do, up to when, and the host.
    struct Mark {
        const std::string* name;
        device::EventId event;
        uint64_t bytes;
    };
    std::vector<Mark> marks;
    uint64_t timeline_number = 0, arrived_ns = 0, put_from_ns = 0, put_until_ns = 0;

    uint64_t first_source() const {
        return receive_blocks.empty() ? sources[0] : reinterpret_cast<uint64_t>(receive_blocks.front().data(0));
    }
    /// Where frame `i` was received.
    uint64_t source_of(size_t i) const {
        if (receive_blocks.empty()) return sources[i];
        auto block = receive_blocks.begin();
        for (; i >= block->count; ++block) i -= block->count;
        return reinterpret_cast<uint64_t>(block->data(static_cast<uint32_t>(i)));
    }
    /// Calls f(i, address) for each frame of the batch, with where it was received.
    template <class F>
    void for_each_source(F f) const {
        size_t i = 0;
        for (const io::ReceiveBlock& block : receive_blocks)
            for (uint32_t k = 0; k < block.count; ++k) f(i++, reinterpret_cast<uint64_t>(block.data(k)));
        for (; i < frames.count; ++i) f(i, sources[i]);
    }
    /// Whether the frames cross contiguous, as they were received.
    bool is_staged() const { return transfer == TransferIn::packed && !receive_blocks.empty(); }

    /// Whether kernels read the frames where they were received.
    bool in_place() const { return transfer == TransferIn::zero_copy && chain->prefixes.back == 0; }
    /// Whether the host packs them first.
    bool packs() const {
        return transfer == TransferIn::packed ? !is_staged() : transfer == TransferIn::zero_copy && !in_place();
    }
    /// Whether the device has to know where each frame lies.
    bool needs_sources() const {
        return (transfer == TransferIn::gather || in_place() || is_staged()) &&
               (frames.runs != 1 || (is_staged() && staged_ranges.all().size() > 1));
    }
    PieceNeeds needs() const {
        return {.packets = frames.count,
                .frames_bytes = frames.bytes,
                .prefix_back = chain->prefixes.back,
                .heads_home = way_back == TransferOut::zero_copy,
                .sources = needs_sources(),
                .events = chain->program->emits_events(),
                .staging_bytes = is_staged() ? staged_ranges.bytes() : 0,
                .chain = chain->needs};
    }

    /// Adds up the bytes that cross the bus for it, since it was last asked.
    void count_bytes() {
        chain->counters->bytes_to_device.add(std::exchange(bytes_in, 0));
        chain->counters->bytes_to_host.add(std::exchange(bytes_back, 0));
    }

    device::FrameDescriptor* descriptors() const { return reinterpret_cast<device::FrameDescriptor*>(input); }
    EventBuffer& event_buffer(uint8_t* head) const { return *reinterpret_cast<EventBuffer*>(head); }
    uint32_t* outcomes(uint8_t* head) const { return reinterpret_cast<uint32_t*>(head + sizeof(EventBuffer)); }
    uint64_t& sequences_done(uint8_t* head) const { return *reinterpret_cast<uint64_t*>(head + PieceLayout::kOrderAt); }
    /// Among the device's ordered batches, once it is back: batches of several workers are numbered in an order
    /// of their own.
    uint64_t order_had() const {
        const uint64_t done = order != 0 ? sequences_done(back(piece.head_at)) : 0;
        return done != 0 ? unsequenced + done : order;
    }
    // What came back lies in the region as from the head on in the piece.
    uint8_t* back(size_t at) const { return region->data() + (at - piece.head_at); }
    /// How many packets have had their events left.
    uint32_t left_count() const {
        return std::min(event_buffer(back(piece.head_at)).left_count, event_buffer(back(piece.head_at)).left_capacity);
    }
    size_t kept_bytes() const {
        return std::min(event_buffer(back(piece.head_at)).kept_bytes, event_buffer(back(piece.head_at)).kept_capacity);
    }
    const device::PacketResult* results() const {
        return reinterpret_cast<const device::PacketResult*>(back(piece.results_at));
    }
    /// How many events the device has stored.
    uint32_t stored_events() const {
        return std::min(event_buffer(back(piece.head_at)).count, event_buffer(back(piece.head_at)).capacity);
    }
    Event* events() const {
        return stored_events() > kEagerEvents ? more_events : reinterpret_cast<Event*>(back(piece.events_at));
    }

private:
    const std::shared_ptr<device::Device> device_;
    const uint32_t most_packets_;
    const size_t most_bytes_;
};

}  // namespace millrace::exec
