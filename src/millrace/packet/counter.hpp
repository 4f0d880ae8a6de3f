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

MILLRACE_DEVICE uint32_t add_atomically(uint32_t& counter, uint32_t n) {
#if MILLRACE_GPU
    return atomicAdd(&counter, n);
#else
    return __atomic_fetch_add(&counter, n, __ATOMIC_RELAXED);
#endif
}

/// Sets it to `least` where it is less, whoever else does so meanwhile.
MILLRACE_DEVICE void raise_atomically(uint64_t& value, uint64_t least) {
#if MILLRACE_GPU
    atomicMax(reinterpret_cast<unsigned long long*>(&value), static_cast<unsigned long long>(least));
#else
    uint64_t is = __atomic_load_n(&value, __ATOMIC_RELAXED);
    while (is < least && !__atomic_compare_exchange_n(&value, &is, least, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
#endif
}

}  // namespace millrace
