// How ports on the kernel's interfaces send.
#include <algorithm>
#include <array>
#include <cstring>

#include "millrace/io/packet_socket/packet_socket_port.hpp"
#include "millrace/io/release.hpp"

namespace millrace::io {
namespace {

using Pieces = std::array<iovec, SendQueue::kMaxPieces>;

/// A frame to be sent, whose pieces are listed.
struct OutgoingFrame {
    size_t pieces = 0;  ///< 0: too many
    uint32_t bytes = 0;
    uint16_t segment_bytes = 0;
};

/// What is left to a network card of it.
OffloadHeader offload_of(const OutgoingFrame& frame, const Pieces& pieces) {
    if (frame.segment_bytes == 0) return {};
    std::array<uint8_t, 256> head;
    size_t filled = 0;
    for (size_t i = 0; i < frame.pieces && filled < head.size(); ++i) {
        const size_t bytes = std::min(pieces[i].iov_len, head.size() - filled);
        std::memcpy(head.data() + filled, pieces[i].iov_base, bytes);
        filled += bytes;
    }
    return io::offload_of(std::span<const uint8_t>(head.data(), filled), frame.bytes, frame.segment_bytes)
        .value_or(OffloadHeader{});
}

/// Bytes of the longest frame of the wire that it becomes.
uint32_t longest_of(const OutgoingFrame& frame, const OffloadHeader& offload) {
    return offload.is_to_be_cut() ? offload.longest_frame() : frame.bytes;
}

}  // namespace

/// Sends the first of `count` frames and returns how many it is done with. `frame_of` fills in where a frame lies and
/// says what it is; `release` is told of frames that are done with.
template <class FrameOf, class Release>
uint32_t PacketSocketPort::send_all(uint16_t queue_number, uint32_t count, const FrameOf& frame_of,
                                    const Release& release) {
    Queue& queue = *queues_[queue_number];
    SendQueue& out = *queue.out;
    QueueCounters& counters = sending(queue_number);
    if (!followed_.is_up()) {
        counters.drop(PortDrop::link_down, count);
        release(0, count);
        return count;
    }
    const uint32_t most_bytes = mtu();
    Pieces pieces;
    uint32_t done = 0;
    for (bool goes_on = true; goes_on && done < count;) {
        SendResult result;
        uint32_t end = done;
        for (; end < count && !out.is_full(); ++end) {
            const OutgoingFrame frame = frame_of(end, pieces);
            const auto offload = offload_of(frame, pieces);
            const bool fits = frame.pieces != 0 && fits_mtu(static_cast<const uint8_t*>(pieces[0].iov_base),
                                                            pieces[0].iov_len, longest_of(frame, offload), most_bytes);
            if (fits && out.add({pieces.data(), frame.pieces}, frame.bytes, offload)) continue;
            // Those before it go first.
            if (!fits && end == done) result.drop(frame.pieces == 0 ? PortDrop::too_many_segments : PortDrop::over_mtu);
            break;
        }
        const uint32_t asked = out.frames();
        out.send(result);
        goes_on = result.done >= asked;
        if (result.sent != 0) counters.count(result.sent, result.sent_bytes);
        if (result.uncut != 0) {
            increase(queue.uncut_out, result.uncut);
            increase(queue.segments_out, result.uncut_segments);
        }
        for (size_t reason = 0; reason < kPortDrops; ++reason)
            if (result.drops[reason] != 0) counters.drop(static_cast<PortDrop>(reason), result.drops[reason]);
        release(done, result.done);
        done += result.done;
    }
    return done;
}

uint16_t PacketSocketPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    const auto frame_of = [&](uint32_t i, Pieces& pieces) {
        if (mbufs[i]->nb_segs > pieces.size()) return OutgoingFrame{};
        OutgoingFrame frame{.bytes = mbufs[i]->pkt_len, .segment_bytes = segment_bytes(mbufs[i])};
        for (rte_mbuf* segment = mbufs[i]; segment != nullptr; segment = segment->next)
            pieces[frame.pieces++] = {rte_pktmbuf_mtod(segment, void*), segment->data_len};
        return frame;
    };
    const auto release = [&](uint32_t first, uint32_t n) { release_packets(mbufs + first, n); };
    return static_cast<uint16_t>(send_all(queue, count, frame_of, release));
}

size_t PacketSocketPort::send_frames(uint16_t queue, const ReceiveBlock& block, std::span<const FramePieces> frames) {
    const auto frame_of = [&](uint32_t i, Pieces& pieces) {
        pieces[0] = {const_cast<uint8_t*>(frames[i].head), frames[i].head_bytes};
        pieces[1] = {const_cast<uint8_t*>(frames[i].rest), frames[i].rest_bytes};
        return OutgoingFrame{
            .pieces = frames[i].rest_bytes != 0 ? size_t{2} : size_t{1},
            .bytes = frames[i].bytes(),
            .segment_bytes = block.has_uncut ? block.spots[frames[i].index].segment_bytes : uint16_t{0}};
    };
    return send_all(queue, static_cast<uint32_t>(frames.size()), frame_of, [](uint32_t, uint32_t) {});
}

}  // namespace millrace::io
