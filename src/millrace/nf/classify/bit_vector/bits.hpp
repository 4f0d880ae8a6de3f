// Bit counting that g++ and NVRTC both know.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace::nf::classify {

/// The index of the lowest bit that is set; `word` is not 0.
MILLRACE_DEVICE uint32_t lowest_bit(uint32_t word) {
#if MILLRACE_GPU
    return static_cast<uint32_t>(__ffs(static_cast<int>(word)) - 1);
#else
    return static_cast<uint32_t>(__builtin_ctz(word));
#endif
}

MILLRACE_DEVICE uint32_t count_bits(uint64_t word) {
#if MILLRACE_GPU
    return static_cast<uint32_t>(__popcll(static_cast<long long>(word)));
#else
    return static_cast<uint32_t>(__builtin_popcountll(word));
#endif
}

}  // namespace millrace::nf::classify
