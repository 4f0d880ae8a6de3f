#include "millrace/io/memory/address_order.hpp"

#include <rte_errno.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace millrace::io {
namespace {

constexpr uint32_t kBits = 64;

/// The free elements of one pool. An element's number is its distance from the first in strides.
class FreeMap {
public:
    explicit FreeMap(const rte_mempool& pool)
        : stride_(pool.header_size + pool.elt_size + pool.trailer_size),
          per_line_(((uint64_t{1} << 32) + stride_ / RTE_CACHE_LINE_SIZE - 1) / (stride_ / RTE_CACHE_LINE_SIZE)),
          words_((pool.size + kBits - 1) / kBits), round_(pool.pool_config != nullptr),
          free_(std::make_unique<std::atomic<uint64_t>[]>(words_)) {}

    void put(void* const* elements, uint32_t count) {
        // The pool's first element is the first that is ever put.
        if (base_ == nullptr && count > 0) base_ = static_cast<uint8_t*>(elements[0]);
        uint32_t word = 0;
        uint64_t bits = 0;
        const auto flush = [&] {
            if (bits != 0) free_[word].fetch_or(bits, std::memory_order_release);
            bits = 0;
        };
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t number = number_of(elements[i]);
            if (number / kBits != word) {
                flush();
                word = number / kBits;
            }
            bits |= uint64_t{1} << number % kBits;
        }
        flush();
    }

    /// All of `count` elements or none.
    bool get(void** elements, uint32_t count) {
        uint32_t taken = 0;
        const auto claim = [&](uint32_t word, uint64_t wanted) {
            while (static_cast<uint32_t>(std::popcount(wanted)) > count - taken)
                wanted &= ~(uint64_t{1} << (kBits - 1 - std::countl_zero(wanted)));
            // Another thread may have been faster with some of them.
            wanted &= free_[word].fetch_and(~wanted, std::memory_order_acquire);
            if (wanted == 0) return;
            rest_.store(word * kBits + kBits - static_cast<uint32_t>(std::countl_zero(wanted)),
                        std::memory_order_relaxed);
            for (; wanted != 0; wanted &= wanted - 1)
                elements[taken++] = base_ +
                                    size_t{word * kBits + static_cast<uint32_t>(std::countr_zero(wanted))} * stride_;
        };
        const uint32_t rest = rest_.load(std::memory_order_relaxed);
        const uint32_t first = round_ && rest < words_ * kBits ? rest / kBits : 0;
        const auto walk = [&](uint64_t least) {
            for (uint32_t step = 0; step < words_ && taken < count; ++step) {
                const uint32_t word = first + step < words_ ? first + step : first + step - words_;
                if (const uint64_t free = free_[word].load(std::memory_order_relaxed);
                    free != 0 && (free & least) == least)
                    claim(word, free);
            }
        };
        if (rest % kBits != 0) {
            const uint64_t behind = ~uint64_t{0} << rest % kBits;
            if ((free_[rest / kBits].load(std::memory_order_relaxed) & behind) == behind) claim(rest / kBits, behind);
        }
        walk(~uint64_t{0});
        walk(0);
        if (taken < count) put(elements, taken);
        return taken == count;
    }

    uint32_t count() const {
        uint32_t count = 0;
        for (uint32_t word = 0; word < words_; ++word)
            count += static_cast<uint32_t>(std::popcount(free_[word].load(std::memory_order_relaxed)));
        return count;
    }

private:
    uint32_t number_of(const void* element) const {
        const uint64_t lines = static_cast<size_t>(static_cast<const uint8_t*>(element) - base_) / RTE_CACHE_LINE_SIZE;
        return static_cast<uint32_t>(lines * per_line_ >> 32);
    }

    uint8_t* base_ = nullptr;
    const uint32_t stride_;
    const uint64_t per_line_;  // elements a cache line, times 2^32 and rounded up: dividing takes much longer
    const uint32_t words_;
    const bool round_;
    std::unique_ptr<std::atomic<uint64_t>[]> free_;
    std::atomic<uint32_t> rest_{0};  // the last word that was taken from is whole from this element on
};

FreeMap& map_of(const rte_mempool* pool) { return *static_cast<FreeMap*>(pool->pool_data); }

int allocate_map(rte_mempool* pool) {
    pool->pool_data = new (std::nothrow) FreeMap(*pool);
    return pool->pool_data == nullptr ? -ENOMEM : 0;
}
void free_map(rte_mempool* pool) { delete static_cast<FreeMap*>(pool->pool_data); }
int put(rte_mempool* pool, void* const* elements, unsigned count) {
    map_of(pool).put(elements, count);
    return 0;
}
int get(rte_mempool* pool, void** elements, unsigned count) { return map_of(pool).get(elements, count) ? 0 : -ENOBUFS; }
unsigned count_free(const rte_mempool* pool) { return map_of(pool).count(); }

}  // namespace

const char* address_order_ops() {
    static const std::string name = [] {
        rte_mempool_ops ops{};
        const std::string own = "millrace_addr";
        own.copy(ops.name, sizeof ops.name - 1);
        ops.alloc = allocate_map;
        ops.free = free_map;
        ops.enqueue = put;
        ops.dequeue = get;
        ops.get_count = count_free;
        if (rte_mempool_register_ops(&ops) < 0) throw std::runtime_error("DPDK has no room for another mempool driver");
        return own;
    }();
    return name.c_str();
}

}  // namespace millrace::io
