// The packet path of ports on the kernel's interfaces.
#include <algorithm>
#include <array>
#include <cstring>

#include "millrace/io/kernel/packet_socket_port.hpp"
#include "millrace/io/release.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {
namespace {

constexpr uint32_t kAddressBytes = 12;  // before a VLAN tag

void add(std::atomic<uint64_t>& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

bool PacketSocketPort::take_next_ring(Queue& queue) {
    if (queue.next.load(std::memory_order_relaxed) == nullptr) return false;
    queue.ring->is_left.store(true, std::memory_order_release);
    queue.ring = queue.next.exchange(nullptr, std::memory_order_acquire);
    return true;
}

/// Copies the frame to where `place` says; false when it says nowhere.
template <class Place>
bool PacketSocketPort::take_plain(uint16_t queue_number, const SlotFrame& frame, const Place& place) {
    const uint32_t tag_bytes = frame.vlan_tag != 0 ? eth::kVlanBytes : 0, bytes = frame.bytes + tag_bytes;
    if (frame.bytes < eth::kHeaderBytes || bytes > options_.max_frame_bytes) {
        receiving(queue_number).drop(frame.bytes < eth::kHeaderBytes ? PortDrop::too_short : PortDrop::too_long);
        return true;
    }
    uint8_t* const out = place(bytes, frame.timestamp_ns);
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
        add(queues_[queue_number]->finished, 1);
    return true;
}

/// Fetches a frame that no slot holds or that is to be cut, and begins to cut it.
void PacketSocketPort::take_whole(uint16_t queue_number, const SlotFrame& frame) {
    Queue& queue = *queues_[queue_number];
    uint8_t* data = queue.whole.get() + kWholeFront;
    OffloadHeader offload = frame.offload;
    int64_t bytes = frame.bytes;
    if (frame.is_set_aside) bytes = queue.ring->fetch({data, kWholeBytes}, offload);
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
            return add(queue.cut, 1);
    }
    queue.segments.stop();
    receiving(queue_number).drop(PortDrop::too_long);
}

/// Takes at most `most` frames to where `place` says (length, time), until there are no more or it says nowhere;
/// returns how many.
template <class Place>
uint32_t PacketSocketPort::take(uint16_t queue_number, uint32_t most, const Place& place) {
    Queue& queue = *queues_[queue_number];
    uint64_t bytes = 0;
    uint32_t n = 0;
    const auto counted = [&](uint32_t length, uint64_t ns) {
        uint8_t* const out = place(length, ns);
        if (out == nullptr) return out;
        bytes += length;
        ++n;
        return out;
    };
    while (n < most) {
        if (queue.segments.is_active()) {
            uint8_t* const out = counted(queue.segments.next_bytes(), queue.whole_ns);
            if (out == nullptr) break;
            queue.segments.write(out);
            continue;
        }
        if (queue.ring->ready(1) == 0) {
            if (take_next_ring(queue)) continue;
            break;
        }
        const SlotFrame frame = queue.ring->front();
        const bool is_whole = frame.is_set_aside || frame.bytes < frame.whole_bytes || frame.offload.is_to_be_cut();
        if (frame.is_outgoing) {
            // Where the kernel does not leave them out; a frame that was set aside has to be fetched to go.
            OffloadHeader ignored{};
            if (frame.is_set_aside) queue.ring->fetch({queue.whole.get(), 1}, ignored);
        } else if (is_whole) {
            take_whole(queue_number, frame);
        } else if (!take_plain(queue_number, frame, counted)) {
            break;
        }
        queue.ring->pop();
    }
    queue.received += n;
    if (n != 0) receiving(queue_number).count(n, bytes);
    return n;
}

uint16_t PacketSocketPort::receive(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count) {
    Queue& queue = *queues_[queue_number];
    // As many buffers as frames wait, at first sight.
    uint32_t most = queue.segments.is_active() ? count : queue.ring->ready(count);
    if (most == 0 && take_next_ring(queue)) most = queue.ring->ready(count);
    if (most == 0) return 0;
    while (!pool_.allocate(mbufs, static_cast<uint16_t>(most))) {
        most /= 2;
        if (most != 0) continue;
        add(queue.starved, 1);
        return 0;
    }
    uint64_t number = queue_number + 1u + queue.received * info_.receive_queues;
    rte_mbuf** next = mbufs;
    const uint32_t n = take(queue_number, most, [&](uint32_t bytes, uint64_t ns) {
        rte_mbuf* const mbuf = *next++;
        mbuf->data_len = static_cast<uint16_t>(bytes);
        mbuf->pkt_len = bytes;
        mbuf->port = info_.index;
        set_packet_metadata(mbuf, ns, number);
        number += info_.receive_queues;
        return rte_pktmbuf_mtod(mbuf, uint8_t*);
    });
    if (n < most) release_packets(mbufs + n, most - n);
    return static_cast<uint16_t>(n);
}

ReceiveBlock PacketSocketPort::receive_block(uint16_t queue_number, uint32_t most) {
    Queue& queue = *queues_[queue_number];
    const uint64_t before = queue.received;
    uint64_t first_ns = 0;
    if (take(queue_number, most, [&](uint32_t bytes, uint64_t ns) {
            if (first_ns == 0) first_ns = ns;
            return queue.log->add(static_cast<uint16_t>(bytes));
        }) == 0) {
        if (first_ns != 0) add(queue.starved, 1);
        return {};
    }
    ReceiveBlock block = queue.log->take();
    block.port = info_.index;
    block.first_number = queue_number + 1u + before * info_.receive_queues;
    block.number_step = info_.receive_queues;
    block.first_ns = first_ns;
    return block;
}

/// Sends the first of `count` frames and returns how many it is done with. `pieces_of` fills in where a frame lies and
/// returns how many pieces and bytes that is; `release` is told of frames that are done with.
template <class PiecesOf, class Release>
uint32_t PacketSocketPort::send_all(uint16_t queue_number, uint32_t count, const PiecesOf& pieces_of,
                                    const Release& release) {
    SendQueue& out = *queues_[queue_number]->out;
    QueueCounters& counters = sending(queue_number);
    if (!is_up_.load(std::memory_order_relaxed)) {
        counters.drop(PortDrop::link_down, count);
        release(0, count);
        return count;
    }
    const uint32_t most_bytes = mtu();
    std::array<iovec, SendQueue::kMaxPieces> pieces;
    uint32_t done = 0;
    for (bool goes_on = true; goes_on && done < count;) {
        SendResult result;
        uint32_t end = done;
        for (; end < count && !out.is_full(); ++end) {
            const auto [n, bytes] = pieces_of(end, pieces);
            const bool fits = n != 0 && fits_mtu(static_cast<const uint8_t*>(pieces[0].iov_base), pieces[0].iov_len,
                                                 bytes, most_bytes);
            if (fits && out.add({pieces.data(), n}, bytes)) continue;
            // Those before it go first.
            if (!fits && end == done) result.drop(n == 0 ? PortDrop::too_many_segments : PortDrop::over_mtu);
            break;
        }
        const uint32_t asked = out.frames();
        out.send(result);
        goes_on = result.done >= asked;
        if (result.sent != 0) counters.count(result.sent, result.sent_bytes);
        for (size_t reason = 0; reason < kPortDrops; ++reason)
            if (result.drops[reason] != 0) counters.drop(static_cast<PortDrop>(reason), result.drops[reason]);
        release(done, result.done);
        done += result.done;
    }
    return done;
}

uint16_t PacketSocketPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    const auto pieces_of = [&](uint32_t i, std::array<iovec, SendQueue::kMaxPieces>& pieces) {
        if (mbufs[i]->nb_segs > pieces.size()) return std::pair{size_t{0}, uint32_t{0}};
        size_t n = 0;
        for (rte_mbuf* segment = mbufs[i]; segment != nullptr; segment = segment->next)
            pieces[n++] = {rte_pktmbuf_mtod(segment, void*), segment->data_len};
        return std::pair{n, mbufs[i]->pkt_len};
    };
    const auto release = [&](uint32_t first, uint32_t n) { release_packets(mbufs + first, n); };
    return static_cast<uint16_t>(send_all(queue, count, pieces_of, release));
}

size_t PacketSocketPort::send_frames(uint16_t queue, const ReceiveBlock&, std::span<const FramePieces> frames) {
    const auto pieces_of = [&](uint32_t i, std::array<iovec, SendQueue::kMaxPieces>& pieces) {
        pieces[0] = {const_cast<uint8_t*>(frames[i].head), frames[i].head_bytes};
        pieces[1] = {const_cast<uint8_t*>(frames[i].rest), frames[i].rest_bytes};
        return std::pair{frames[i].rest_bytes != 0 ? size_t{2} : size_t{1}, frames[i].bytes()};
    };
    return send_all(queue, static_cast<uint32_t>(frames.size()), pieces_of, [](uint32_t, uint32_t) {});
}

}  // namespace millrace::io
