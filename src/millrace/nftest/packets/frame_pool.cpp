#include "millrace/nftest/packets/frame_pool.hpp"

#include <algorithm>
#include <stdexcept>

#include "millrace/base/eal.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::nftest {

io::PacketPool& frame_pool() {
    static io::PacketPool* pool = [] {
        start_eal();
        io::register_metadata();
        io::PoolOptions options;
        options.packets = 8191;
        options.max_frame_bytes = kMaxFrameBytes;
        options.headroom_bytes = 256;
        options.tailroom_bytes = 128;
        return new io::PacketPool("frames", options);
    }();
    return *pool;
}

rte_mbuf* make_mbuf(const Frame& frame, uint64_t number) {
    rte_mbuf* mbuf = nullptr;
    if (!frame_pool().allocate(&mbuf, 1))
        throw std::runtime_error("the pool of frames is empty: packets were not freed");
    std::copy(frame.begin(), frame.end(), rte_pktmbuf_mtod(mbuf, uint8_t*));
    mbuf->data_len = static_cast<uint16_t>(frame.size());
    mbuf->pkt_len = static_cast<uint32_t>(frame.size());
    mbuf->port = 0;
    io::set_packet_metadata(mbuf, 1'700'000'000'000'000'000ull + number * 1000, number);
    return mbuf;
}

}  // namespace millrace::nftest
