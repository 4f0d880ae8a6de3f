// A bounded queue between threads.
#pragma once

#include <rte_ring.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace millrace {

/// Any number of threads put and take, without locks; order is kept. What is in it when it goes is dropped: take it out
/// before. Needs no EAL.
template <class T>
class BoundedQueue {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0);

public:
    /// Room for `slots - 1` elements; `slots` is a power of two.
    explicit BoundedQueue(uint32_t slots) {
        const ssize_t bytes = rte_ring_get_memsize_elem(sizeof(T), slots);
        ring_.reset(bytes < 0
                        ? nullptr
                        : static_cast<rte_ring*>(std::aligned_alloc(RTE_CACHE_LINE_SIZE, static_cast<size_t>(bytes))));
        // With relaxed tails nobody waits for a thread that the kernel has stopped between its two steps.
        constexpr unsigned kRelaxed = RING_F_MP_RTS_ENQ | RING_F_MC_RTS_DEQ;
        if (ring_ == nullptr || rte_ring_init(ring_.get(), "queue", slots, kRelaxed) != 0) throw std::bad_alloc();
    }

    /// False when it is full.
    bool put(const T& element) { return rte_ring_enqueue_elem(ring_.get(), const_cast<T*>(&element), sizeof(T)) == 0; }
    bool take(T& element) { return rte_ring_dequeue_elem(ring_.get(), &element, sizeof(T)) == 0; }
    bool empty() const { return rte_ring_empty(ring_.get()) != 0; }

private:
    struct Free {
        void operator()(rte_ring* ring) const { std::free(ring); }
    };
    std::unique_ptr<rte_ring, Free> ring_;
};

}  // namespace millrace
