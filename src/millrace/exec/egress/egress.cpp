#include "millrace/exec/egress/egress.hpp"

#include <algorithm>
#include <utility>

#include "millrace/exec/fragments/splitter.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::exec {

Egress::Egress(const std::vector<std::unique_ptr<io::Port>>& ports, const std::vector<std::unique_ptr<SpinLock>>& locks,
               const std::unique_ptr<WholePackets>& whole_packets, unsigned worker, size_t burst)
    : ports_(ports), whole_packets_(whole_packets), queues_(ports, locks, worker, burst),
      buffers_(ports, worker, queues_) {
    fragments_.reserve(kMaxPieces);
}

void Egress::expect_uncut() {
    if (!std::exchange(has_uncut_, true)) segments_.reserve(kMaxPieces);
}

size_t Egress::leave(uint16_t port, const chain::Program& program, ChainCounters& counters,
                     std::span<rte_mbuf* const> mbufs, ChainCounters* sender) {
    const auto is_uncut = [](const rte_mbuf* mbuf) { return io::segment_bytes(mbuf) != 0; };
    const bool fragments = program.reassembly && sender != nullptr;
    if (!fragments && !(has_uncut_ && std::ranges::any_of(mbufs, is_uncut))) {
        queues_.add(port, mbufs, sender);
        return mbufs.size();
    }
    size_t packets = 0;
    for (rte_mbuf* const& mbuf : mbufs) {
        if (is_uncut(mbuf)) {
            packets += leave_uncut(port, program, counters, mbuf, sender);
        } else if (fragments) {
            packets += leave_in_fragments(port, counters, mbuf, sender);
        } else {
            queues_.add(port, {&mbuf, 1}, sender);
            ++packets;
        }
    }
    return packets;
}

/// A packet of a chain that puts fragments together.
size_t Egress::leave_in_fragments(uint16_t port, ChainCounters& counters, rte_mbuf* mbuf, ChainCounters* sender) {
    const std::span frame(rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len);
    const auto split = Split::plan(frame, ports_[port]->mtu(), whole_packets_->mark(mbuf));
    if (!split) {
        queues_.add(port, {&mbuf, 1}, sender);
        return 1;
    }
    size_t packets = 0;
    if (cut_into_fragments(*split, *mbuf)) {
        packets = fragments_.size();
        counters.split.add(packets - 1);
        queues_.add(port, fragments_, sender);
    } else {
        counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
    }
    rte_pktmbuf_free(mbuf);
    return packets;
}

/// Fills fragments_ with the fragments of a packet; false, and none of them is kept, where there are too few buffers.
bool Egress::cut_into_fragments(const Split& split, const rte_mbuf& whole) {
    const io::PacketPool* pool = buffers_.pool(whole.port);
    if (pool == nullptr || pool->max_frame_bytes() < split.most_bytes()) pool = &whole_packets_->pool();
    fragments_.clear();
    for (uint32_t i = 0; i < split.count() && i < kMaxPieces; ++i) {
        rte_mbuf* const piece = buffers_.allocate(*pool);
        if (piece == nullptr) break;
        piece->data_off = static_cast<uint16_t>(pool->headroom_bytes());
        piece->data_len = static_cast<uint16_t>(split.write(i, rte_pktmbuf_mtod(piece, uint8_t*)));
        piece->pkt_len = piece->data_len;
        piece->port = whole.port;
        io::set_packet_metadata(piece, io::packet_timestamp_ns(&whole), io::packet_number(&whole));
        if (WholeMark* const mark = whole_packets_->mark(piece)) *mark = {};
        fragments_.push_back(piece);
    }
    if (fragments_.size() == split.count()) return true;
    for (rte_mbuf* const piece : fragments_) rte_pktmbuf_free(piece);
    return false;
}

/// Such a frame leaves as it is by a port that has it cut, within its MTU; else as its segments. Returns how many
/// packets it is then.
size_t Egress::leave_uncut(uint16_t port_index, const chain::Program& program, ChainCounters& counters, rte_mbuf* mbuf,
                           ChainCounters* sender) {
    const io::Port& port = *ports_[port_index];
    const std::span<const uint8_t> frame(rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len);
    const auto offload = io::offload_of(frame, mbuf->data_len, io::segment_bytes(mbuf));
    if (offload && port.sends_uncut() &&
        io::Port::fits_mtu(frame.data(), frame.size(), offload->longest_frame(), port.mtu())) {
        queues_.add(port_index, {&mbuf, 1}, sender);
        return 1;
    }
    size_t packets = 0;
    if (offload && cut_into_segments(*mbuf, *offload)) {
        counters.split.add(segments_.size() - 1);
        packets = leave(port_index, program, counters, segments_, sender);
    } else {
        counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
    }
    rte_pktmbuf_free(mbuf);
    return packets;
}

/// Fills segments_ with the segments of a frame; false, and none of them is kept, where there are too few buffers.
bool Egress::cut_into_segments(const rte_mbuf& whole, const io::OffloadHeader& offload) {
    const io::PacketPool* const pool = buffers_.pool(whole.port);
    segments_.clear();
    io::Segmenter segmenter;
    const std::span<const uint8_t> frame(rte_pktmbuf_mtod(&whole, const uint8_t*), whole.data_len);
    if (pool == nullptr || pool->max_frame_bytes() < offload.longest_frame() || !segmenter.start(frame, offload))
        return false;
    while (segmenter.is_active() && segments_.size() < kMaxPieces) {
        rte_mbuf* const segment = buffers_.allocate(*pool);
        if (segment == nullptr) break;
        segment->data_off = static_cast<uint16_t>(pool->headroom_bytes());
        segment->data_len = static_cast<uint16_t>(segmenter.next_bytes());
        segment->pkt_len = segment->data_len;
        segment->port = whole.port;
        io::set_packet_metadata(segment, io::packet_timestamp_ns(&whole), io::packet_number(&whole));
        segmenter.write(rte_pktmbuf_mtod(segment, uint8_t*));
        segments_.push_back(segment);
    }
    if (!segmenter.is_active()) return true;
    for (rte_mbuf* const segment : segments_) rte_pktmbuf_free(segment);
    segments_.clear();
    return false;
}

void Egress::hold_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames,
                         ChainCounters& sender) {
    if (queues_.is_empty(port) && queues_.gives_up(port))
        return sender.exit_drops[static_cast<size_t>(ExitDrop::transmit_full)].add(frames.size());
    // What waits does so in packets of its own: the frames' memory is the port's again that received them.
    for (const io::FramePieces& frame : frames) {
        rte_mbuf* const copy = buffers_.copy(block, frame);
        if (copy != nullptr) queues_.add(port, {&copy, 1}, &sender);
        else sender.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
    }
}

}  // namespace millrace::exec
