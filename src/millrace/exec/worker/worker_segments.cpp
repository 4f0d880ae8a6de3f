// Frames that are yet to be cut into those of the wire: who gets them, and where they are cut at last.
#include <algorithm>

#include "millrace/chain/uncut_frames.hpp"
#include "millrace/exec/worker/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::exec {

/// Ports give such frames as they are where all functions take them so.
void Worker::ask_for_uncut() {
    for (const auto& port : runtime_.ports_) {
        if (!receives_of(*port)) continue;
        const bool uncut = port->uncut_pool() != nullptr && chain::takes_uncut(*configuration_, port->index());
        port->give_uncut(static_cast<uint16_t>(index_), uncut);
        has_uncut_ |= uncut;  // for good: some may be under way when others are not wanted any more
    }
    if (has_uncut_) segments_.reserve(kMaxSplit);
}

/// Such a frame leaves as it is by a port that has it cut, within its MTU; else as its segments. Returns how many
/// packets it is then.
size_t Worker::leave_uncut(uint16_t port_index, const chain::Program& program, ChainCounters& counters, rte_mbuf* mbuf,
                           ChainCounters* sender) {
    const io::Port& port = *runtime_.ports_[port_index];
    const std::span<const uint8_t> frame(rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len);
    const auto offload = io::offload_of(frame, mbuf->data_len, io::segment_bytes(mbuf));
    if (offload && port.sends_uncut() &&
        io::Port::fits_mtu(frame.data(), frame.size(), offload->longest_frame(), port.mtu())) {
        outgoing_[port_index].add({&mbuf, 1}, sender);
        return 1;
    }
    size_t packets = 0;
    if (offload && cut_into_segments(*mbuf, *offload)) {
        counters.split.add(segments_.size() - 1);
        packets = leave_in_order(port_index, program, counters, segments_, sender);
    } else {
        counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
    }
    rte_pktmbuf_free(mbuf);
    return packets;
}

/// Fills segments_ with the segments of a frame; false, and none of them is kept, where there are too few buffers.
bool Worker::cut_into_segments(const rte_mbuf& whole, const io::OffloadHeader& offload) {
    const io::PacketPool* const pool = whole.port < pools_.size() ? pools_[whole.port] : nullptr;
    segments_.clear();
    io::Segmenter segmenter;
    const std::span<const uint8_t> frame(rte_pktmbuf_mtod(&whole, const uint8_t*), whole.data_len);
    if (pool == nullptr || pool->max_frame_bytes() < offload.longest_frame() || !segmenter.start(frame, offload))
        return false;
    while (segmenter.is_active() && segments_.size() < kMaxSplit) {
        rte_mbuf* const segment = buffer_of(*pool);
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

}  // namespace millrace::exec
