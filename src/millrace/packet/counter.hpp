// Counters that several packets add to at the same time.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

/// Adds `n`, whoever else adds meanwhile, and returns what was there before.
MILLRACE_DEVICE uint64_t add_atomically(uint64_t& counter, uint64_t n) {
#if MILLRACE_GPU
    return atomicAdd(reinterpret_cast<unsigned long long*>(&counter), static_cast<unsigned long long>(n));
#else
    return __atomic_fetch_add(&counter, n, __ATOMIC_RELAXED);
#endif
}

}  // namespace millrace
