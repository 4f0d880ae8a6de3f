// Memory that is zero and not there yet: the system gives a page when it is first written.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace millrace {

/// For a std::vector of plain numbers, whose elements are zero without having been written: large ones that are seldom
/// all needed. It must not grow after it was made.
template <class T>
struct ZeroedAllocator {
    using value_type = T;
    ZeroedAllocator() = default;
    template <class U>
    explicit ZeroedAllocator(const ZeroedAllocator<U>&) {}

    T* allocate(std::size_t count) {
        if (void* const memory = std::calloc(count, sizeof(T))) return static_cast<T*>(memory);
        throw std::bad_alloc();
    }
    void deallocate(T* memory, std::size_t) { std::free(memory); }
    /// Of value-initialised elements: there is nothing to do.
    void construct(T*) {}
    friend bool operator==(const ZeroedAllocator&, const ZeroedAllocator&) { return true; }
};

}  // namespace millrace
