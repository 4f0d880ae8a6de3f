// Pinned host memory that whole batches come back into, lent to packets until they have left.
#pragma once

#include <immintrin.h>
#include <rte_mbuf.h>

#include <atomic>
#include <memory>
#include <vector>

#include "millrace/device/owned_memory.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::exec {

class ResultBuffers;

/// Memory for the frames of one batch. Its packets' mbufs point into it ("external buffers" in DPDK's
/// terms), so that no frame is copied after it has come back; the last one to be freed makes the buffer
/// free again.
class ResultBuffer {
public:
    uint8_t* data() const { return data_.get(); }
    size_t bytes() const { return bytes_; }

    /// Lends the buffer to `packets` packets; `attach` follows for each of them, or `take_back`.
    void lend(uint16_t packets);
    /// That many of them did without.
    void take_back(uint16_t packets) {
        if (packets > 0 && rte_mbuf_ext_refcnt_update(&shared_, static_cast<int16_t>(-static_cast<int>(packets))) == 0)
            freed(nullptr, this);
    }
    /// Makes `mbuf`'s frame the `length` bytes at `offset`, with that much free room before and behind. The mbuf's own
    /// buffer stays as it is and is its again when it is freed.
    void attach(rte_mbuf* mbuf, size_t offset, uint16_t length, uint16_t headroom, uint16_t tailroom) {
        if (RTE_MBUF_HAS_EXTBUF(mbuf)) {  // the buffer of the chain before
            const uint16_t segment_bytes = io::segment_bytes(mbuf);
            rte_pktmbuf_detach(mbuf);
            if (segment_bytes != 0) io::set_segment_bytes(mbuf, segment_bytes);
        }
        uint8_t* first = data() + offset - headroom;
        mbuf->buf_addr = first;
        rte_mbuf_iova_set(mbuf, reinterpret_cast<rte_iova_t>(first));  // virtual addresses are IO addresses
        mbuf->buf_len = static_cast<uint16_t>(headroom + length + tailroom);
        mbuf->data_off = headroom;
        mbuf->data_len = length;
        mbuf->pkt_len = length;
        mbuf->ol_flags |= RTE_MBUF_F_EXTERNAL;
        mbuf->shinfo = &shared_;
    }

    /// The same with a free mbuf, for a frame that was received by `port`. By few stores: the CPU has its cache lines.
    void load(rte_mbuf* mbuf, size_t offset, uint16_t length, uint16_t headroom, uint16_t tailroom, uint16_t port) {
        static_assert(offsetof(rte_mbuf, buf_iova) == 8 && offsetof(rte_mbuf, data_off) == 16 &&
                      offsetof(rte_mbuf, refcnt) == 18 && offsetof(rte_mbuf, nb_segs) == 20 &&
                      offsetof(rte_mbuf, port) == 22 && offsetof(rte_mbuf, ol_flags) == 24 &&
                      offsetof(rte_mbuf, packet_type) == 32 && offsetof(rte_mbuf, pkt_len) == 36 &&
                      offsetof(rte_mbuf, data_len) == 40 && offsetof(rte_mbuf, vlan_tci) == 42);
        const auto first = reinterpret_cast<int64_t>(data() + offset - headroom);
        auto* const line = reinterpret_cast<__m128i*>(mbuf);
        _mm_store_si128(line, _mm_set1_epi64x(first));
        _mm_store_si128(line + 1, _mm_set_epi64x(RTE_MBUF_F_EXTERNAL,
                                                 static_cast<int64_t>(uint64_t{headroom} | uint64_t{1} << 16 |
                                                                      uint64_t{1} << 32 | uint64_t{port} << 48)));
        _mm_store_si128(line + 2, _mm_set_epi32(0, length, length, 0));
        mbuf->buf_len = static_cast<uint16_t>(headroom + length + tailroom);
        mbuf->shinfo = &shared_;
    }

private:
    friend class ResultBuffers;
    static void freed(void*, void* buffer);
    device::HostArray<uint8_t> data_;
    size_t bytes_ = 0;
    rte_mbuf_ext_shared_info shared_{};
    std::atomic<bool> free_{true};
    ResultBuffers* buffers_ = nullptr;
    std::shared_ptr<ResultBuffers> owner_;  // while it is lent
};

/// The buffers of one engine. Packets may outlive the engine: then the buffers do, too.
class ResultBuffers : public std::enable_shared_from_this<ResultBuffers> {
public:
    ResultBuffers(std::shared_ptr<device::Device> device, unsigned count, size_t bytes_each);
    /// A buffer that no packet is in, the caller's until it lends it or gives it back; null when all are out.
    ResultBuffer* take();
    void give_back(ResultBuffer& buffer) { buffer.free_.store(true, std::memory_order_release); }

private:
    friend class ResultBuffer;
    std::shared_ptr<device::Device> device_;
    std::vector<std::unique_ptr<ResultBuffer>> buffers_;
};

}  // namespace millrace::exec
