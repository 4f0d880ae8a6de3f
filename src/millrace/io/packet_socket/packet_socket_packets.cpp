// How ports on the kernel's interfaces receive.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "millrace/io/packet_socket/packet_socket_port.hpp"
#include "millrace/io/release.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {
namespace {

/// Puts frames into mbufs. Those that are yet to be cut get another one in place of theirs, from `uncut`.
struct IntoBuffers {
    rte_mbuf** next;
    PacketPool* uncut;
    uint16_t port;
    uint64_t number, number_step;

    /// Where a frame is to be written; null: nowhere now.
    uint8_t* place(uint32_t bytes, uint64_t ns, uint16_t segment_bytes = 0) {
        if (segment_bytes != 0) {
            rte_mbuf* own = nullptr;
            if (!uncut->allocate(&own, 1)) return nullptr;
            rte_pktmbuf_free(std::exchange(*next, own));
            set_segment_bytes(own, segment_bytes);
        }
        rte_mbuf* const mbuf = *next;
        mbuf->data_len = static_cast<uint16_t>(bytes);
        mbuf->pkt_len = bytes;
        mbuf->port = port;
        set_packet_metadata(mbuf, ns, number);
        return rte_pktmbuf_mtod(mbuf, uint8_t*);
    }
    void written() {
        ++next;
        number += number_step;
    }
    /// The frame has not come.
    void take_out() { set_segment_bytes(*next, 0); }
};

/// Puts frames into a log.
struct IntoLog {
    FrameLog& log;
    uint64_t first_ns = 0;

    uint8_t* place(uint32_t bytes, uint64_t ns, uint16_t segment_bytes = 0) {
        if (first_ns == 0) first_ns = ns;
        return log.add(static_cast<uint16_t>(bytes), segment_bytes);
    }
    void written() {}
    void take_out() { log.take_out(); }
};

/// The same, and counts what was written.
template <class Place>
struct Counted {
    Place& to;
    uint32_t frames = 0;
    uint64_t bytes = 0;

    uint8_t* place(uint32_t length, uint64_t ns, uint16_t segment_bytes = 0) {
        return to.place(length, ns, segment_bytes);
    }
    void written(uint32_t length) {
        to.written();
        ++frames;
        bytes += length;
    }
    void take_out() { to.take_out(); }
};

}  // namespace

bool PacketSocketPort::take_next_ring(Queue& queue) {
    if (queue.next.load(std::memory_order_relaxed) == nullptr) return false;
    // While frames of it are out its memory must stay.
    if (queue.ring->blocks == nullptr || queue.ring->blocks->out() == 0) queue.ring->is_left = true;
    queue.ring = queue.next.exchange(nullptr, std::memory_order_acquire);
    return true;
}

/// Copies the frame to where `place` says; false when it says nowhere.
template <class Place>
bool PacketSocketPort::take_plain(uint16_t queue_number, const RingFrame& frame, Place& place) {
    const uint32_t tag_bytes = frame.vlan_tag != 0 ? eth::kVlanBytes : 0, bytes = frame.bytes + tag_bytes;
    if (frame.bytes < eth::kHeaderBytes || bytes > options_.max_frame_bytes) {
        receiving(queue_number).drop(frame.bytes < eth::kHeaderBytes ? PortDrop::too_short : PortDrop::too_long);
        return true;
    }
    uint8_t* const out = place.place(bytes, frame.timestamp_ns);
    if (out == nullptr) return false;
    if (tag_bytes == 0) {
        std::memcpy(out, frame.data, bytes);
    } else {
        std::memcpy(out, frame.data, kAddressBytes);
        store_be32(out + kAddressBytes, frame.vlan_tag);
        std::memcpy(out + kAddressBytes + tag_bytes, frame.data + kAddressBytes, frame.bytes - kAddressBytes);
    }
    if (frame.offload.needs_checksum() &&
        finish_checksum({out, bytes}, frame.offload.checksum_start + tag_bytes, frame.offload.checksum_offset))
        increase(queues_[queue_number]->finished, 1);
    place.written(bytes);
    return true;
}

/// What is left to a network card of a frame that goes on without being cut; nothing where it is to be cut.
std::optional<OffloadHeader> PacketSocketPort::stays_uncut(const Queue& queue, const RingFrame& frame) const {
    const uint32_t tag_bytes = frame.vlan_tag != 0 ? eth::kVlanBytes : 0;
    if (!queue.gives_uncut || !frame.offload.is_to_be_cut() || !frame.offload.needs_checksum()) return std::nullopt;
    if (!frame.is_set_aside && frame.bytes < frame.whole_bytes) return std::nullopt;
    const auto offload = offload_of({frame.data, frame.bytes}, frame.whole_bytes, frame.offload.segment_bytes);
    constexpr auto kKind = static_cast<uint8_t>(~OffloadHeader::kCongestion);
    if (!offload || (offload->kind & kKind) != (frame.offload.kind & kKind) ||
        offload->checksum_start != frame.offload.checksum_start ||
        frame.whole_bytes + tag_bytes > uncut_pool_->max_frame_bytes() ||
        offload->longest_frame() + tag_bytes > options_.max_frame_bytes ||
        offload->segments_of(frame.whole_bytes) > kMaxSegments)
        return std::nullopt;
    return offload;
}

/// Brings such a frame to where `place` says; false when it says nowhere.
template <class Place>
bool PacketSocketPort::take_uncut(uint16_t queue_number, const RingFrame& frame, const OffloadHeader& offload,
                                  Place& place) {
    Queue& queue = *queues_[queue_number];
    const uint32_t tag_bytes = frame.vlan_tag != 0 ? eth::kVlanBytes : 0, bytes = frame.whole_bytes + tag_bytes;
    uint8_t* const out = place.place(bytes, frame.timestamp_ns, offload.segment_bytes);
    if (out == nullptr) return false;
    if (frame.is_set_aside) {
        OffloadHeader again{};
        if (queue.ring->frames->fetch({out, bytes}, again, tag_bytes) != frame.whole_bytes) {
            place.take_out();
            receiving(queue_number).drop(PortDrop::missed);
            return true;
        }
    } else {
        std::memcpy(out, frame.data, kAddressBytes);
        std::memcpy(out + kAddressBytes + tag_bytes, frame.data + kAddressBytes, frame.bytes - kAddressBytes);
    }
    if (tag_bytes != 0) store_be32(out + kAddressBytes, frame.vlan_tag);
    increase(queue.uncut_in, 1);
    increase(queue.segments_in, offload.segments_of(frame.whole_bytes));
    place.written(bytes);
    return true;
}

/// Fetches a frame that no slot holds or that is to be cut, and begins to cut it.
void PacketSocketPort::take_whole(uint16_t queue_number, const RingFrame& frame) {
    Queue& queue = *queues_[queue_number];
    uint8_t* data = queue.whole.get() + kWholeFront;
    OffloadHeader offload = frame.offload;
    int64_t bytes = frame.bytes;
    if (frame.is_set_aside) bytes = queue.ring->frames->fetch({data, kWholeBytes}, offload);
    else if (frame.bytes < frame.whole_bytes) bytes = -1;  // the kernel had no room to set it aside
    else std::memcpy(data, frame.data, std::min<size_t>(frame.bytes, kWholeBytes));
    if (bytes < 0) return receiving(queue_number).drop(PortDrop::missed);
    if (bytes >= int64_t{eth::kHeaderBytes} && bytes <= int64_t{kWholeBytes} && offload.is_to_be_cut()) {
        if (frame.vlan_tag != 0) {
            data -= eth::kVlanBytes;
            std::memmove(data, data + eth::kVlanBytes, kAddressBytes);
            store_be32(data + kAddressBytes, frame.vlan_tag);
            bytes += eth::kVlanBytes;
            offload.checksum_start = static_cast<uint16_t>(offload.checksum_start + eth::kVlanBytes);
        }
        queue.whole_ns = frame.timestamp_ns;
        if (queue.segments.start({data, static_cast<size_t>(bytes)}, offload) &&
            queue.segments.next_bytes() <= options_.max_frame_bytes)
            return increase(queue.cut, 1);
    }
    queue.segments.stop();
    receiving(queue_number).drop(PortDrop::too_long);
}

/// Takes at most `most` frames to where `place` says, until there are no more or it says nowhere; returns how many.
template <class Place>
uint32_t PacketSocketPort::take(uint16_t queue_number, uint32_t most, Place& place) {
    Queue& queue = *queues_[queue_number];
    Counted<Place> counted{place};
    size_t uncut_bytes = 0;
    while (counted.frames < most && uncut_bytes < kUncutAtOnce) {
        if (queue.segments.is_active()) {
            const uint32_t bytes = queue.segments.next_bytes();
            uint8_t* const out = counted.place(bytes, queue.whole_ns);
            if (out == nullptr) break;
            queue.segments.write(out);
            counted.written(bytes);
            continue;
        }
        if (queue.ring->frames->ready(1) == 0) {
            if (take_next_ring(queue)) continue;
            break;
        }
        const RingFrame frame = queue.ring->frames->front();
        const bool is_whole = frame.is_set_aside || frame.bytes < frame.whole_bytes || frame.offload.is_to_be_cut();
        if (frame.is_outgoing) {
            // Where the kernel does not leave them out; a frame that was set aside has to be fetched to go.
            OffloadHeader ignored{};
            if (frame.is_set_aside) queue.ring->frames->fetch({queue.whole.get(), 1}, ignored);
        } else if (const auto offload = stays_uncut(queue, frame)) {
            if (!take_uncut(queue_number, frame, *offload, counted)) break;
            uncut_bytes += frame.whole_bytes;
        } else if (is_whole) {
            take_whole(queue_number, frame);
        } else if (!take_plain(queue_number, frame, counted)) {
            break;
        }
        queue.ring->frames->pop();
    }
    queue.received += counted.frames;
    if (counted.frames != 0) receiving(queue_number).count(counted.frames, counted.bytes);
    return counted.frames;
}

uint16_t PacketSocketPort::receive(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count) {
    Queue& queue = *queues_[queue_number];
    // As many buffers as frames wait, at first sight.
    uint32_t most = queue.segments.is_active() ? count : queue.ring->frames->ready(count);
    if (most == 0 && take_next_ring(queue)) most = queue.ring->frames->ready(count);
    if (most == 0) return 0;
    while (!pool_.allocate(mbufs, static_cast<uint16_t>(most))) {
        most /= 2;
        if (most != 0) continue;
        increase(queue.starved, 1);
        return 0;
    }
    IntoBuffers into{.next = mbufs,
                     .uncut = uncut_pool_.get(),
                     .port = info_.index,
                     .number = queue_number + 1u + queue.received * info_.receive_queues,
                     .number_step = info_.receive_queues};
    const uint32_t n = take(queue_number, most, into);
    if (n < most) release_packets(mbufs + n, most - n);
    return static_cast<uint16_t>(n);
}

/// Frames where the kernel has put them: none, where none waits or the next one can't be taken so.
ReceiveBlock PacketSocketPort::take_blocks(uint16_t queue_number, uint32_t most) {
    Queue& queue = *queues_[queue_number];
    QueueCounters& counters = receiving(queue_number);
    using Action = BlockRing::Action;
    uint64_t bytes = 0;
    const auto action_of = [&](const RingFrame& frame) {
        const uint32_t tag_bytes = frame.vlan_tag != 0 ? eth::kVlanBytes : 0;
        if (frame.is_outgoing) return Action::dropped;
        if (frame.bytes < eth::kHeaderBytes) {
            counters.drop(PortDrop::too_short);
            return Action::dropped;
        }
        if (frame.offload.is_to_be_cut()) {
            const auto offload = stays_uncut(queue, frame);
            if (!offload) return Action::alone;
            increase(queue.uncut_in, 1);
            increase(queue.segments_in, offload->segments_of(frame.whole_bytes));
        } else if (frame.bytes < frame.whole_bytes || frame.bytes + tag_bytes > options_.max_frame_bytes) {
            counters.drop(PortDrop::too_long);
            return Action::dropped;
        } else if (frame.offload.needs_checksum()) {
            increase(queue.finished, 1);
        }
        bytes += frame.bytes + tag_bytes;
        return frame.offload.is_to_be_cut() ? Action::uncut : Action::plain;
    };
    const ReceiveBlock block = queue.ring->blocks->take(most, action_of);
    if (block.count != 0) counters.count(block.count, bytes);
    return block;
}

/// There is a place for it.
void PacketSocketPort::note_out(Queue& queue, Ring* ring, uint32_t frames) {
    OutRun& newest = queue.out_runs[(queue.oldest_run + queue.run_count + kOutRuns - 1) % kOutRuns];
    if (queue.run_count > 0 && newest.ring == ring) newest.frames += frames;
    else queue.out_runs[(queue.oldest_run + queue.run_count++) % kOutRuns] = {ring, frames};
}

void PacketSocketPort::give_back(uint16_t queue_number, uint32_t count) {
    Queue& queue = *queues_[queue_number];
    if (queue.out_runs.empty()) return queue.log->give_back(count);
    while (count > 0) {
        OutRun& oldest = queue.out_runs[queue.oldest_run];
        const uint32_t own = std::min(count, oldest.frames);
        if (oldest.ring == nullptr) queue.log->give_back(own);
        else oldest.ring->blocks->give_back(own);
        if (oldest.ring != nullptr && oldest.ring != queue.ring && oldest.ring->blocks->out() == 0)
            oldest.ring->is_left.store(true, std::memory_order_release);
        count -= own;
        if ((oldest.frames -= own) > 0) return;
        queue.oldest_run = (queue.oldest_run + 1) % kOutRuns;
        --queue.run_count;
    }
}

ReceiveBlock PacketSocketPort::receive_block(uint16_t queue_number, uint32_t most) {
    constexpr uint32_t kFew = 64;  // that are copied before others may be taken where they lie again
    Queue& queue = *queues_[queue_number];
    if (!queue.out_runs.empty() && queue.run_count == kOutRuns) return {};
    ReceiveBlock block;
    const uint64_t before = queue.received;
    Ring* ring = queue.ring;
    if (ring->blocks != nullptr && !queue.segments.is_active()) {
        block = take_blocks(queue_number, most);
        queue.received += block.count;
    }
    if (block.count == 0) {
        ring = nullptr;
        IntoLog into{*queue.log};
        if (take(queue_number, queue.out_runs.empty() ? most : std::min(most, kFew), into) == 0) {
            if (into.first_ns != 0) increase(queue.starved, 1);
            return {};
        }
        block = queue.log->take();
        block.first_ns = into.first_ns;
    }
    if (!queue.out_runs.empty()) note_out(queue, ring, block.count);
    block.port = info_.index;
    block.first_number = queue_number + 1u + before * info_.receive_queues;
    block.number_step = info_.receive_queues;
    return block;
}

}  // namespace millrace::io
