// Memory for tables whose rows are read in no order: on large pages, which spare most of the address translation.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

namespace millrace {

/// Asks for large pages, from the first byte to the last. A wish, not a need; what is smaller than such a page is
/// ordinary memory. It begins at a cache line.
template <class T>
struct LargePageAllocator {
    using value_type = T;
    LargePageAllocator() = default;
    template <class Other>
    LargePageAllocator(const LargePageAllocator<Other>&) {}

    T* allocate(size_t count) {
        if (!is_mapped(count)) return static_cast<T*>(::operator new(count * sizeof(T), kLine));
        // A map of its own: what the heap gives again has small pages already. And from a large page's border on, or
        // the first rows, the busiest, would lie on small ones.
        const size_t bytes = mapped_bytes(count);
        void* const map = mmap(nullptr, bytes + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED) throw std::bad_alloc();
        const size_t before = (0 - reinterpret_cast<uintptr_t>(map)) % kLargePage;
        uint8_t* const memory = static_cast<uint8_t*>(map) + before;
        if (before > 0) munmap(map, before);
        munmap(memory + bytes, kLargePage - before);
        madvise(memory, bytes, MADV_HUGEPAGE);
        return reinterpret_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t count) {
        if (!is_mapped(count)) ::operator delete(memory, kLine);
        else munmap(memory, mapped_bytes(count));
    }
    friend bool operator==(const LargePageAllocator&, const LargePageAllocator&) { return true; }

protected:
    static constexpr bool is_mapped(size_t count) { return count * sizeof(T) >= kLargePage; }

private:
    static constexpr size_t kLargePage = size_t{2} << 20;
    static constexpr std::align_val_t kLine{64};
    static size_t mapped_bytes(size_t count) { return (count * sizeof(T) + kLargePage - 1) / kLargePage * kLargePage; }
};

template <class T>
using LargePageVector = std::vector<T, LargePageAllocator<T>>;

/// The same with elements that are made of zeros, as the system gives them: it gives a page when that is first touched,
/// so that a table which nobody uses takes no time and no memory. Such a vector may be made, read and written, but not
/// grow or shrink.
template <class T>
struct ZeroPageAllocator : LargePageAllocator<T> {
    static_assert(std::is_trivially_copyable_v<T>);
    using value_type = T;
    ZeroPageAllocator() = default;
    template <class Other>
    ZeroPageAllocator(const ZeroPageAllocator<Other>&) {}

    T* allocate(size_t count) {
        T* const memory = LargePageAllocator<T>::allocate(count);
        if (!LargePageAllocator<T>::is_mapped(count)) std::memset(static_cast<void*>(memory), 0, count * sizeof(T));
        return memory;
    }
    /// An element of zeros is there already.
    void construct(T*) noexcept {}
};
template <class T>
using ZeroPageVector = std::vector<T, ZeroPageAllocator<T>>;

/// Has the system give all of this memory now, and not where it is first touched; several threads share the work. What
/// it holds stays, whoever writes to it meanwhile. Where there is not enough, the program ends as it would later.
void make_present(void* memory, size_t bytes);

}  // namespace millrace
