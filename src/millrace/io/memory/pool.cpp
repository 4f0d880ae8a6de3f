#include "millrace/io/memory/pool.hpp"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memzone.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "millrace/io/memory/address_order.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::io {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

/// DPDK's names are short and unique in the process; a number keeps two pools of one port name apart.
std::string unique_name(const std::string& name) {
    static std::atomic<unsigned> number{0};
    return name.substr(0, 12) + "." + std::to_string(number++);
}

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

PacketPool::PacketPool(const std::string& name, const PoolOptions& options) : options_(options) {
    const auto fail = [&](const std::string& why) {
        release();
        throw std::runtime_error("packet pool '" + name + "': " + why);
    };
    if (options.headroom_bytes < RTE_PKTMBUF_HEADROOM) fail("the headroom is below DPDK's 128 bytes");
    uint32_t room = options.headroom_bytes + options.max_frame_bytes + options.tailroom_bytes;
    if (options.headroom_bytes + options.max_frame_bytes > 65535) fail("one mbuf holds no frame of that length");
    room = std::min<uint32_t>(static_cast<uint32_t>(round_up(room, RTE_CACHE_LINE_SIZE)), 65535);
    if (options.packets == 0) fail("it has no packets");
    register_metadata();

    // Without a cache for each thread: it would give the buffers out in the order in which they came back.
    const std::string unique = unique_name(name);
    // With MEMPOOL_F_NO_IOVA_CONTIG elements lie back to back, not one to a small page.
    pool_ = rte_mempool_create_empty(unique.c_str(), options.packets, static_cast<unsigned>(sizeof(rte_mbuf)) + room, 0,
                                     sizeof(rte_pktmbuf_pool_private), options.numa_node, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
    if (pool_ == nullptr) fail(rte_strerror(rte_errno));
    if (rte_mempool_set_ops_byname(pool_, address_order_ops(), options.all_in_sequence ? this : nullptr) != 0)
        fail("its mempool driver is missing");
    rte_pktmbuf_pool_private shape{};
    shape.mbuf_data_room_size = static_cast<uint16_t>(room);
    rte_pktmbuf_pool_init(pool_, &shape);

    stride_ = pool_->header_size + pool_->elt_size + pool_->trailer_size;
    per_line_ = ((uint64_t{1} << 32) + stride_ / RTE_CACHE_LINE_SIZE - 1) / (stride_ / RTE_CACHE_LINE_SIZE);
    map_memory(unique, round_up(size_t{stride_} * options.packets + RTE_MEMPOOL_ALIGN, kHugePage));
    if (memory_ == nullptr) fail("no memory for " + std::to_string(memory_bytes_ >> 20) + " MiB of packets");
    const rte_iova_t iova = zone_ != nullptr ? static_cast<const rte_memzone*>(zone_)->iova
                                             : reinterpret_cast<rte_iova_t>(memory_);
    const int filled = rte_mempool_populate_iova(pool_, reinterpret_cast<char*>(memory_), iova, memory_bytes_, nullptr,
                                                 nullptr);
    if (filled < 0 || pool_->populated_size != options.packets) fail("DPDK does not fill the pool");
    rte_mempool_obj_iter(pool_, rte_pktmbuf_init, nullptr);
    rte_mempool_obj_iter(
        pool_,
        [](rte_mempool*, void* self, void* object, unsigned index) {
            if (index == 0) static_cast<PacketPool*>(self)->base_ = static_cast<uint8_t*>(object);
        },
        this);
}

void PacketPool::map_memory(const std::string& name, size_t bytes) {
    memory_bytes_ = bytes;
    if (rte_eal_has_hugepages() != 0) {
        // Virtual addresses serve as IO addresses (an IOMMU or no NIC at all); DPDK picks that mode by
        // itself wherever it can. Where it cannot, the memory must be contiguous for the bus too.
        const unsigned flags = rte_eal_iova_mode() == RTE_IOVA_VA ? 0 : RTE_MEMZONE_IOVA_CONTIG;
        const rte_memzone* zone = rte_memzone_reserve_aligned(("mem." + name).c_str(), bytes, options_.numa_node, flags,
                                                              kHugePage);
        zone_ = zone;
        if (zone != nullptr) memory_ = static_cast<uint8_t*>(zone->addr);
        return;
    }
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    madvise(memory, bytes, MADV_HUGEPAGE);
    memory_ = static_cast<uint8_t*>(memory);
}

void PacketPool::release() {
    // Whoever still holds a packet would write into freed memory: then all of it stays.
    if (pool_ != nullptr && base_ != nullptr && available() != options_.packets) return;
    rte_mempool_free(pool_);
    pool_ = nullptr;
    if (zone_ != nullptr) {
        rte_memzone_free(static_cast<const rte_memzone*>(zone_));
    } else if (memory_ != nullptr) {
        munmap(memory_, memory_bytes_);
    }
    zone_ = nullptr;
    memory_ = nullptr;
}

PacketPool::~PacketPool() { release(); }

}  // namespace millrace::io
