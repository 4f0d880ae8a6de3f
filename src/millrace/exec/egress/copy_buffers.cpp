#include "millrace/exec/egress/copy_buffers.hpp"

#include <rte_cycles.h>

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::exec {
namespace {

constexpr uint64_t kPatienceNs = 100'000'000;  // for a buffer to come free

}  // namespace

CopyBuffers::CopyBuffers(const std::vector<std::unique_ptr<io::Port>>& ports, unsigned worker, SendQueues& queues)
    : ports_(ports), queues_(queues) {
    for (const auto& port : ports) {
        const std::vector<const io::PacketPool*> pools = port->pools();
        pools_.push_back(pools.empty() ? nullptr : pools[std::min<size_t>(worker, pools.size() - 1)]);
    }
}

rte_mbuf* CopyBuffers::allocate(const io::PacketPool& pool) {
    rte_mbuf* buffer = rte_pktmbuf_alloc(pool.mempool());
    const uint64_t from = rte_rdtsc();
    while (buffer == nullptr && !is_empty_) {
        queues_.send_all();
        is_empty_ = queues_.unsent() == 0 || to_nanoseconds(rte_rdtsc() - from) > kPatienceNs;
        buffer = rte_pktmbuf_alloc(pool.mempool());
    }
    if (buffer != nullptr) is_empty_ = false;
    return buffer;
}

rte_mbuf* CopyBuffers::copy(const io::ReceiveBlock& block, const io::FramePieces& frame) {
    const uint32_t length = frame.bytes();
    const uint16_t segment_bytes = block.has_uncut ? block.spots[frame.index].segment_bytes : uint16_t{0};
    const io::PacketPool* const from = segment_bytes != 0 ? ports_[block.port]->uncut_pool() : pool(block.port);
    rte_mbuf* const copy = from != nullptr ? allocate(*from) : nullptr;
    if (copy == nullptr) return nullptr;
    if (segment_bytes != 0) io::set_segment_bytes(copy, segment_bytes);
    if (length > copy->buf_len) {
        rte_pktmbuf_free(copy);
        return nullptr;
    }
    copy->data_off = static_cast<uint16_t>(std::min<uint32_t>(from->headroom_bytes(), copy->buf_len - length));
    copy->data_len = static_cast<uint16_t>(length);
    copy->pkt_len = length;
    copy->port = block.port;
    io::set_packet_metadata(copy, block.timestamp_ns(frame.index), block.number(frame.index));
    auto* const data = rte_pktmbuf_mtod(copy, uint8_t*);
    std::copy_n(frame.head, frame.head_bytes, data);
    std::copy_n(frame.rest, frame.rest_bytes, data + frame.head_bytes);
    return copy;
}

}  // namespace millrace::exec
