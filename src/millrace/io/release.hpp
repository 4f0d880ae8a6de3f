// Giving packets back, many at a time.
#pragma once

#include <immintrin.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstddef>

namespace millrace::io {

/// Gives mbufs of external buffers their own again, as rte_pktmbuf_detach does, by few stores. Nobody else holds them.
class OwnBuffers {
public:
    void restore(rte_mbuf* mbuf) {
        static_assert(offsetof(rte_mbuf, refcnt) == offsetof(rte_mbuf, data_off) + 2 &&
                      offsetof(rte_mbuf, nb_segs) == offsetof(rte_mbuf, data_off) + 4 &&
                      offsetof(rte_mbuf, port) == offsetof(rte_mbuf, data_off) + 6 &&
                      offsetof(rte_mbuf, ol_flags) == offsetof(rte_mbuf, data_off) + 8);
        if (mbuf->pool != pool_) [[unlikely]]
            look_at(mbuf->pool);
        uint8_t* const buffer = reinterpret_cast<uint8_t*>(mbuf) + head_;
        mbuf->buf_addr = buffer;
        rte_mbuf_iova_set(
            mbuf, virtual_addresses_ ? reinterpret_cast<rte_iova_t>(buffer) : rte_mempool_virt2iova(mbuf) + head_);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(&mbuf->data_off), fields_);
        mbuf->buf_len = room_;
        mbuf->data_len = 0;
    }

private:
    void look_at(rte_mempool* pool) {
        pool_ = pool;
        head_ = static_cast<uint32_t>(sizeof(rte_mbuf)) + rte_pktmbuf_priv_size(pool);
        room_ = rte_pktmbuf_data_room_size(pool);
        // data_off, refcnt, nb_segs, no port; no flags
        fields_ = _mm_set_epi64x(
            0, static_cast<int64_t>(std::min<uint64_t>(RTE_PKTMBUF_HEADROOM, room_) | uint64_t{1} << 16 |
                                    uint64_t{1} << 32 | uint64_t{RTE_MBUF_PORT_INVALID} << 48));
    }
    const bool virtual_addresses_ = rte_eal_iova_mode() == RTE_IOVA_VA;
    rte_mempool* pool_ = nullptr;
    uint32_t head_ = 0;
    uint16_t room_ = 0;
    __m128i fields_{};
};

/// Frees packets as rte_pktmbuf_free_bulk does, and cheaper where neighbours lie in the same external buffer,
/// as batches from a device do: its count is changed once for all of them.
inline void release_packets(rte_mbuf* const* mbufs, size_t count) {
    constexpr size_t kAtOnce = 256;
    rte_mbuf* free_ones[kAtOnce];
    size_t waiting = 0;
    OwnBuffers own_buffers;
    rte_mbuf_ext_shared_info* shared = nullptr;
    uint16_t shared_count = 0;
    const auto put = [&] {
        if (waiting > 0)
            rte_mempool_put_bulk(free_ones[0]->pool, reinterpret_cast<void**>(free_ones),
                                 static_cast<unsigned>(waiting));
        waiting = 0;
    };
    const auto leave = [&] {
        if (shared_count > 0 &&
            rte_mbuf_ext_refcnt_update(shared, static_cast<int16_t>(-static_cast<int>(shared_count))) == 0)
            shared->free_cb(nullptr, shared->fcb_opaque);
        shared_count = 0;
    };
    constexpr size_t kAhead = 16;  // the last-level cache takes as long as a dozen packets
    for (size_t i = 0; i < count; ++i) {
        if (i + kAhead < count) {
            rte_prefetch0(mbufs[i + kAhead]);
            rte_prefetch0(reinterpret_cast<const uint8_t*>(mbufs[i + kAhead]) + RTE_CACHE_LINE_SIZE);
        }
        rte_mbuf* mbuf = mbufs[i];
        if (mbuf->nb_segs != 1 || rte_mbuf_refcnt_read(mbuf) != 1 || (mbuf->ol_flags & RTE_MBUF_F_INDIRECT) != 0) {
            rte_pktmbuf_free(mbuf);
            continue;
        }
        if (RTE_MBUF_HAS_EXTBUF(mbuf)) {
            if (mbuf->shinfo != shared || shared_count == INT16_MAX) {
                leave();
                shared = mbuf->shinfo;
            }
            ++shared_count;
            own_buffers.restore(mbuf);
        }
        if (waiting == kAtOnce || (waiting > 0 && mbuf->pool != free_ones[0]->pool)) put();
        free_ones[waiting++] = mbuf;
    }
    put();
    leave();
}

}  // namespace millrace::io
