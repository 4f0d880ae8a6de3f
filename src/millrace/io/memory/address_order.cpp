#include "millrace/io/memory/address_order.hpp"

#include <rte_errno.h>

#include <algorithm>
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
        for (uint32_t i = 0; i < count;) {
            const uint32_t number = number_of(elements[i]), bit = number % kBits;
            if (number / kBits != word) {
                if (bits != 0) free_[word].fetch_or(bits, std::memory_order_release);
                word = number / kBits;
                bits = 0;
            }
            // Most come back as they went out: one behind the other.
            const uint32_t n = in_a_row(elements + i, std::min(count - i, kBits - bit));
            bits |= ~uint64_t{0} >> (kBits - n) << bit;
            i += n;
        }
        if (bits != 0) free_[word].fetch_or(bits, std::memory_order_release);
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
            const auto place = static_cast<uint32_t>(std::countr_zero(wanted));
            if (const uint64_t behind = (wanted >> place) + 1; (behind & (behind - 1)) == 0) {  // all in a row
                const auto n = static_cast<uint32_t>(std::popcount(wanted));
                void** const to = elements + taken;
                const size_t stride = stride_;
                uint8_t* const element = base_ + size_t{word * kBits + place} * stride;
                for (uint32_t i = 0; i < n; ++i) to[i] = element + i * stride;
                taken += n;
                return;
            }
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
    /// How many of the first `most` elements, one at least, lie one behind the other.
    uint32_t in_a_row(void* const* elements, uint32_t most) const {
        constexpr uint32_t kAtOnce = 8;  // without a branch
        const auto gap = [&](uint32_t i) {
            return reinterpret_cast<uint64_t>(elements[i]) - reinterpret_cast<uint64_t>(elements[i - 1]) - stride_;
        };
        uint32_t n = 1;
        for (uint64_t others = 0; n + kAtOnce <= most; n += kAtOnce) {
            for (uint32_t k = 0; k < kAtOnce; ++k) others |= gap(n + k);
            if (others != 0) break;
        }
        while (n < most && gap(n) == 0) ++n;
        return n;
    }
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
