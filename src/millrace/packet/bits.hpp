// Bits of numbers, as device code counts them.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

/// The number of the lowest bit that is set; there is one.
MILLRACE_DEVICE uint32_t lowest_bit(uint64_t bits) {
#if MILLRACE_GPU
    return static_cast<uint32_t>(__ffsll(static_cast<long long>(bits))) - 1;
#else
    return static_cast<uint32_t>(__builtin_ctzll(bits));
#endif
}

}  // namespace millrace
