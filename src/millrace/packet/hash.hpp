// Hashes of a few words.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

/// A hash of words, which nobody can tell who does not know the seed.
MILLRACE_DEVICE uint32_t hash_words(uint64_t seed, uint32_t a, uint32_t b) {
    uint64_t h = (seed ^ a) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 32 ^ b) * 0xc4ceb9fe1a85ec53ull;
    h = (h ^ h >> 29) * 0x9fb21c651e98df25ull;
    return static_cast<uint32_t>(h >> 32);
}

}  // namespace millrace
