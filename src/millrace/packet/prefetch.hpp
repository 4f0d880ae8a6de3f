// Memory asked for before it is needed, without waiting for it.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

#if MILLRACE_GPU
namespace detail {
template <class Ask>
MILLRACE_DEVICE void each_line(const void* memory, uint32_t bytes, Ask&& ask) {
    constexpr uintptr_t kLine = 32;  // of a cache
    const auto first = reinterpret_cast<uintptr_t>(memory);
    for (uintptr_t at = first / kLine * kLine; at < first + bytes; at += kLine) ask(at);
}
}  // namespace detail
#endif

/// Has `bytes` of memory, which is about to be changed, brought into the core's cache; on a GPU into the one that all
/// multiprocessors share.
MILLRACE_DEVICE void prefetch(const void* memory, uint32_t bytes) {
#if MILLRACE_GPU
    detail::each_line(memory, bytes, [](uintptr_t at) { asm volatile("prefetch.global.L2 [%0];" : : "l"(at)); });
#else
    constexpr uintptr_t kLine = 64;
    const auto first = reinterpret_cast<uintptr_t>(memory);
    for (uintptr_t at = first / kLine * kLine; at < first + bytes; at += kLine) {
        __builtin_prefetch(reinterpret_cast<const void*>(at), 1);
        // GCC leaves out calls of what does nothing but this.
        asm volatile("");
    }
#endif
}

#if MILLRACE_GPU
/// The same into the multiprocessor's own cache.
MILLRACE_DEVICE void prefetch_near(const void* memory, uint32_t bytes) {
    detail::each_line(memory, bytes, [](uintptr_t at) { asm volatile("prefetch.global.L1 [%0];" : : "l"(at)); });
}
#endif

}  // namespace millrace
