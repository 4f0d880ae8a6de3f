// Memory for packets: mbufs at a constant distance from each other.
#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>
#include <string>

namespace millrace::io {

/// The longest frame that one mbuf can hold behind `headroom`: buffer lengths are 16 bits wide.
constexpr uint32_t longest_frame(uint32_t headroom) { return 65535u - headroom; }

struct PoolOptions {
    uint32_t packets = 16384;
    uint32_t max_frame_bytes = 1522;  ///< a frame of this length fits behind the headroom
    uint32_t headroom_bytes = 128;    ///< free bytes before each frame, at least RTE_PKTMBUF_HEADROOM
    uint32_t tailroom_bytes = 64;     ///< at least this much stays free behind the longest frame (ESP trailer)
    int numa_node = -1;               ///< -1: any
    bool all_in_sequence = false;  ///< buffers come into use one after the other, not those again that were in use last
};

/// An rte_mempool of single-segment mbufs in one piece of memory: element i begins at
/// `base() + i * stride()` (its rte_mbuf structure; the frame's bytes follow at a constant distance). Free
/// ones come into use lowest address first, unless `all_in_sequence`, in whatever order they were freed: so a burst
/// lies at rising addresses, `stride` apart, and a GPU's copy engine moves it as a few strided runs.
///
/// The memory is EAL's huge pages when EAL has them (so that NICs can reach it); else it is mapped for
/// itself, with transparent huge pages if the kernel gives them, and costs nothing from EAL's share.
class PacketPool {
public:
    /// Throws std::runtime_error when memory is short. Starts nothing: EAL must run.
    PacketPool(const std::string& name, const PoolOptions& options);
    /// Frees the memory, unless packets are still out: then it stays for good, as they may yet be used.
    ~PacketPool();
    PacketPool(const PacketPool&) = delete;
    PacketPool& operator=(const PacketPool&) = delete;

    rte_mempool* mempool() const { return pool_; }
    uint8_t* base() const { return base_; }
    uint32_t stride_bytes() const { return stride_; }
    uint32_t packets() const { return options_.packets; }
    /// All memory that packets of this pool lie in: what a device has to pin.
    uint8_t* memory() const { return memory_; }
    size_t memory_bytes() const { return memory_bytes_; }
    uint32_t headroom_bytes() const { return options_.headroom_bytes; }
    uint32_t max_frame_bytes() const { return options_.max_frame_bytes; }

    /// The element that `mbuf` is, below `packets()`; the mbuf must be of this pool.
    uint32_t index_of(const rte_mbuf* mbuf) const {
        const uint64_t lines = static_cast<size_t>(reinterpret_cast<const uint8_t*>(mbuf) - base_) /
                               RTE_CACHE_LINE_SIZE;
        return static_cast<uint32_t>(lines * per_line_ >> 32);
    }
    rte_mbuf* at(uint32_t index) const { return reinterpret_cast<rte_mbuf*>(base_ + size_t{index} * stride_); }
    bool owns(const rte_mbuf* mbuf) const { return mbuf->pool == pool_; }

    /// All of `count` mbufs or none: empty, with the pool's headroom.
    bool allocate(rte_mbuf** mbufs, uint16_t count) {
        if (rte_pktmbuf_alloc_bulk(pool_, mbufs, count) != 0) return false;
        if (options_.headroom_bytes != RTE_PKTMBUF_HEADROOM)
            for (uint16_t i = 0; i < count; ++i) mbufs[i]->data_off = static_cast<uint16_t>(options_.headroom_bytes);
        return true;
    }
    /// The same without resetting the mbufs: the caller sets lengths, data_off, port and flags. They hold
    /// whatever their last use left there; refcnt is 1, next is null and nb_segs is 1, as in every free mbuf.
    bool allocate_raw(rte_mbuf** mbufs, uint16_t count) {
        return rte_mempool_get_bulk(pool_, reinterpret_cast<void**>(mbufs), count) == 0;
    }
    uint32_t available() const { return rte_mempool_avail_count(pool_); }

private:
    void map_memory(const std::string& name, size_t bytes);
    void release();

    PoolOptions options_;
    rte_mempool* pool_ = nullptr;
    const void* zone_ = nullptr;  // rte_memzone when the memory is EAL's
    uint8_t* memory_ = nullptr;
    size_t memory_bytes_ = 0;
    uint8_t* base_ = nullptr;
    uint32_t stride_ = 0;
    uint64_t per_line_ = 0;  // elements a cache line, times 2^32 and rounded up: dividing takes much longer
};

}  // namespace millrace::io
