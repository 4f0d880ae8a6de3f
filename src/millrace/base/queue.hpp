// A bounded queue between threads.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>

namespace millrace {

/// Any number of threads put and take, without locks; order is kept. What is in it when it goes is dropped: take it out
/// before. Needs no EAL.
///
/// Nobody waits for a thread that the kernel has stopped within `put` or `take`: who comes to its slot is told that the
/// queue is full, or empty. So a taker may be told so although there is an element that somebody has put, behind one
/// that is just being put; it finds both later, in their order. Who must know that all is taken counts what is put,
/// before it is: who has put behind it sees that count.
///
/// D. Vyukov's bounded MPMC queue: each slot has a number, which says who may use the slot next. It is p before the put
/// of place p, p + 1 before its take, and p + slots after it. It is the element's only guard, and all of C++'s memory
/// model, so that ThreadSanitizer follows; a ring of DPDK's has loads that are atomic by the processor's rules alone.
template <class T>
class BoundedQueue {
    static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);

public:
    /// Room for `slots` elements; a power of two, and at least two. Throws std::invalid_argument for others.
    explicit BoundedQueue(uint32_t slots) : mask_(slots - 1) {
        if (slots < 2 || !std::has_single_bit(slots))
            throw std::invalid_argument("a queue's slots are a power of two, and at least two");
        slots_ = std::make_unique<Slot[]>(slots);
        for (uint32_t i = 0; i < slots; ++i) slots_[i].sequence.store(i, std::memory_order_relaxed);
    }

    /// False when it is full, or its next slot is just being emptied.
    bool put(const T& element) {
        uint64_t place = 0;
        Slot* const slot = claim(puts_, 0, place);
        if (slot == nullptr) return false;
        slot->element = element;
        slot->sequence.store(place + 1, std::memory_order_release);
        return true;
    }

    /// False when it is empty, or its next slot is just being filled.
    bool take(T& element) {
        uint64_t place = 0;
        Slot* const slot = claim(takes_, 1, place);
        if (slot == nullptr) return false;
        element = slot->element;
        slot->sequence.store(place + mask_ + 1, std::memory_order_release);
        return true;
    }

    /// Whether takes have begun for all puts that have begun: false while an element is just being put.
    bool empty() const { return puts_.load(std::memory_order_acquire) <= takes_.load(std::memory_order_acquire); }

private:
    struct Slot {
        std::atomic<uint64_t> sequence;
        T element;
    };
    static constexpr size_t kCacheLine = 64;

    /// The slot of the next place, which is the caller's from now on; null when it is not free yet.
    Slot* claim(std::atomic<uint64_t>& next, uint64_t offset, uint64_t& place) {
        place = next.load(std::memory_order_relaxed);
        while (true) {
            Slot& slot = slots_[place & mask_];
            const auto ahead = static_cast<int64_t>(slot.sequence.load(std::memory_order_acquire) - (place + offset));
            if (ahead < 0) return nullptr;
            if (ahead > 0) place = next.load(std::memory_order_relaxed);  // somebody else has it
            else if (next.compare_exchange_weak(place, place + 1, std::memory_order_acq_rel, std::memory_order_relaxed))
                return &slot;
        }
    }

    const uint64_t mask_;
    std::unique_ptr<Slot[]> slots_;
    alignas(kCacheLine) std::atomic<uint64_t> puts_{0};   // places that somebody has put into, or is about to
    alignas(kCacheLine) std::atomic<uint64_t> takes_{0};  // … taken from
};

}  // namespace millrace
