// How ports on AF_XDP sockets receive and send.
#include <algorithm>
#include <cstring>

#include "millrace/io/clock.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/io/release.hpp"
#include "millrace/io/xdp/xdp_port.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {
namespace {

/// Packets to be sent.
struct OutgoingMbufs {
    rte_mbuf** all;

    uint32_t bytes(uint32_t i) const { return all[i]->pkt_len; }
    std::span<const uint8_t> head(uint32_t i) const {
        return {rte_pktmbuf_mtod(all[i], const uint8_t*), all[i]->data_len};
    }
    void copy(uint32_t i, uint8_t* to) const {
        for (const rte_mbuf* segment = all[i]; segment != nullptr; to += segment->data_len, segment = segment->next)
            std::memcpy(to, rte_pktmbuf_mtod(segment, const uint8_t*), segment->data_len);
    }
    void release(uint32_t first, uint32_t count) const { release_packets(all + first, count); }
};

/// Frames to be sent that have no mbufs.
struct OutgoingPieces {
    std::span<const FramePieces> all;

    uint32_t bytes(uint32_t i) const { return all[i].bytes(); }
    std::span<const uint8_t> head(uint32_t i) const { return {all[i].head, all[i].head_bytes}; }
    void copy(uint32_t i, uint8_t* to) const {
        std::memcpy(to, all[i].head, all[i].head_bytes);
        if (all[i].rest_bytes != 0) std::memcpy(to + all[i].head_bytes, all[i].rest, all[i].rest_bytes);
    }
    void release(uint32_t, uint32_t) const {}
};

}  // namespace

/// One of a queue's, in turns; null: no frame waits.
XdpReceiver* XdpPort::receiver_with_frames(Queue& queue) {
    if (queue.sends_by != nullptr && queue.sends_by->sender.is_stuck()) queue.sends_by->sender.nudge();
    for (size_t i = 0, at = queue.next; i < queue.channels.size(); ++i) {
        XdpReceiver& receiver = queue.channels[at]->receiver;
        if (++at == queue.channels.size()) at = 0;
        if (receiver.waiting() == 0 && (!receiver.take_next() || receiver.waiting() == 0)) continue;
        queue.next = at;
        return &receiver;
    }
    return nullptr;
}

bool XdpPort::takes(uint16_t queue, const FrameSpot& spot) {
    if (spot.length >= eth::kHeaderBytes && spot.length <= options_.max_frame_bytes) return true;
    receiving(queue).drop(spot.length < eth::kHeaderBytes ? PortDrop::too_short : PortDrop::too_long);
    return false;
}

uint16_t XdpPort::receive(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count) {
    Queue& queue = *queues_[queue_number];
    XdpReceiver* const from = receiver_with_frames(queue);
    if (from == nullptr) return 0;
    uint32_t most = std::min<uint32_t>(count, from->waiting());
    while (!pool_.allocate(mbufs, static_cast<uint16_t>(most))) {
        most /= 2;
        if (most != 0) continue;
        increase(queue.starved, 1);
        return 0;
    }
    const uint64_t now = wall_clock_ns();
    uint64_t number = queue_number + 1u + queue.received * info_.receive_queues, bytes = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < most; ++i, from->pop()) {
        const FrameSpot spot = from->front();
        if (!takes(queue_number, spot)) continue;
        rte_mbuf* const mbuf = mbufs[n++];
        mbuf->data_len = spot.length;
        mbuf->pkt_len = spot.length;
        mbuf->port = info_.index;
        set_packet_metadata(mbuf, now, number);
        std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), from->data(spot), spot.length);
        number += info_.receive_queues;
        bytes += spot.length;
    }
    from->end();
    if (n < most) release_packets(mbufs + n, most - n);
    queue.received += n;
    if (n != 0) receiving(queue_number).count(n, bytes);
    return static_cast<uint16_t>(n);
}

ReceiveBlock XdpPort::receive_block(uint16_t queue_number, uint32_t most) {
    Queue& queue = *queues_[queue_number];
    XdpReceiver* const from = receiver_with_frames(queue);
    if (from == nullptr) return {};
    uint64_t bytes = 0;
    ReceiveBlock block = from->take(most, [&](const FrameSpot& spot) {
        if (!takes(queue_number, spot)) return false;
        bytes += spot.length;
        return true;
    });
    if (block.count == 0) return {};
    const size_t mask = queue.out_runs.size() - 1;
    queue.out_runs[(queue.oldest_run + queue.run_count++) & mask] = {from, block.spots, block.count};
    block.port = info_.index;
    block.first_ns = wall_clock_ns();
    block.first_number = queue_number + 1u + queue.received * info_.receive_queues;
    block.number_step = info_.receive_queues;
    queue.received += block.count;
    receiving(queue_number).count(block.count, bytes);
    return block;
}

void XdpPort::give_back(uint16_t queue_number, uint32_t count) {
    Queue& queue = *queues_[queue_number];
    while (count > 0) {
        OutRun& oldest = queue.out_runs[queue.oldest_run];
        const uint32_t own = std::min(count, oldest.frames);
        oldest.from->give_back(oldest.spots, own);
        oldest.spots += own;
        count -= own;
        if ((oldest.frames -= own) > 0) return;
        queue.oldest_run = (queue.oldest_run + 1) & (queue.out_runs.size() - 1);
        --queue.run_count;
    }
}

void XdpPort::count(uint16_t queue, const SendResult& result) {
    QueueCounters& counters = sending(queue);
    if (result.sent != 0) counters.count(result.sent, result.sent_bytes);
    for (size_t reason = 0; reason < kPortDrops; ++reason)
        if (result.drops[reason] != 0) counters.drop(static_cast<PortDrop>(reason), result.drops[reason]);
}

/// Sends the first of `count` frames and returns how many it is done with.
template <class Frames>
uint32_t XdpPort::send_all(uint16_t queue, uint32_t count, const Frames& frames) {
    constexpr uint32_t kAtOnce = 64;
    XdpSender& out = queues_[queue]->sends_by->sender;
    SendResult result;
    out.take_next(result);
    uint32_t done = 0;
    if (!followed_.is_up()) {
        out.drop_rest(PortDrop::link_down, result);
        result.drop(PortDrop::link_down, count);
        frames.release(0, count);
        done = count;
    }
    const uint32_t most_bytes = mtu();
    while (done < count && out.send(result)) {  // those before go first
        uint32_t end = done;
        for (const uint32_t stop = std::min(count, done + kAtOnce); end < stop; ++end) {
            const uint32_t bytes = frames.bytes(end);
            const auto head = frames.head(end);
            if (bytes > out.most_bytes() || !fits_mtu(head.data(), head.size(), bytes, most_bytes)) {
                result.drop(PortDrop::over_mtu);
                continue;
            }
            uint8_t* const to = out.place();
            if (to == nullptr) break;
            frames.copy(end, to);
            out.add(bytes);
        }
        if (end == done) break;
        frames.release(done, end - done);
        done = end;
        if (done == count) out.send(result);
    }
    this->count(queue, result);
    return done;
}

uint16_t XdpPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    return static_cast<uint16_t>(send_all(queue, count, OutgoingMbufs{mbufs}));
}

size_t XdpPort::send_frames(uint16_t queue, const ReceiveBlock&, std::span<const FramePieces> frames) {
    return send_all(queue, static_cast<uint32_t>(frames.size()), OutgoingPieces{frames});
}

}  // namespace millrace::io
