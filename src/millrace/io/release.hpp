// Giving packets back, many at a time.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <cstddef>

namespace millrace::io {

/// Frees packets as rte_pktmbuf_free_bulk does, and cheaper where neighbours lie in the same external buffer,
/// as batches from a device do: its count is changed once for all of them.
inline void release_packets(rte_mbuf* const* mbufs, size_t count) {
    constexpr size_t kAtOnce = 256;
    rte_mbuf* free_ones[kAtOnce];
    size_t waiting = 0;
    const bool virtual_addresses = rte_eal_iova_mode() == RTE_IOVA_VA;
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
            // Its own buffer again, as rte_pktmbuf_detach makes it.
            const uint32_t head = static_cast<uint32_t>(sizeof(rte_mbuf)) + mbuf->priv_size;
            mbuf->buf_addr = reinterpret_cast<uint8_t*>(mbuf) + head;
            rte_mbuf_iova_set(mbuf, virtual_addresses ? reinterpret_cast<rte_iova_t>(mbuf->buf_addr)
                                                      : rte_mempool_virt2iova(mbuf) + head);
            mbuf->buf_len = rte_pktmbuf_data_room_size(mbuf->pool);
            mbuf->data_off = static_cast<uint16_t>(std::min<uint32_t>(RTE_PKTMBUF_HEADROOM, mbuf->buf_len));
            mbuf->data_len = 0;
            mbuf->ol_flags = 0;
        }
        if (waiting == kAtOnce || (waiting > 0 && mbuf->pool != free_ones[0]->pool)) put();
        free_ones[waiting++] = mbuf;
    }
    put();
    leave();
}

}  // namespace millrace::io
