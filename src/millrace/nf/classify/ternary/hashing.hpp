// Universal hash functions over ternary keys.
#pragma once

#include "millrace/nf/classify/ternary/ternary.hpp"

namespace millrace::nf::classify {

/// A multilinear hash of a masked key to 32 bits (Carter and Wegman, 1979; Lemire and Kaser, "Strongly
/// universal string hashing is fast", 2014), from which further functions h(x) = (a x + b) / 2^32 mod 2^32
/// follow (Dietzfelbinger, 1996). Both need no division, where the paper's `mod p` takes one.
template <unsigned Words>
struct HashFunction {
    static constexpr unsigned kDerived = 3;

    uint64_t word[Words];
    uint64_t offset;
    uint64_t factor[kDerived];
    uint64_t addend[kDerived];

    MILLRACE_DEVICE uint32_t hash(const TernaryKey<Words>& key, const uint32_t (&mask)[Words]) const {
        uint64_t sum = offset;
        for (unsigned i = 0; i < Words; ++i) sum += word[i] * (key.words[i] & mask[i]);
        return static_cast<uint32_t>(sum >> 32);
    }
    /// The derived function `which` of a hash.
    MILLRACE_DEVICE uint32_t derive(unsigned which, uint32_t x) const {
        return static_cast<uint32_t>((factor[which] * x + addend[which]) >> 32);
    }
};

/// A hash without what it has kept of the keys' structure: masked keys that differ in a few bits have hashes in rows,
/// which would crowd a part of a table.
MILLRACE_DEVICE uint32_t scatter(uint32_t hash) { return (hash ^ hash >> 15) * 0x9e3779b1u; }

/// A hash spread evenly over [0, count).
MILLRACE_DEVICE uint32_t spread(uint32_t hash, uint32_t count) {
    return static_cast<uint32_t>((static_cast<uint64_t>(hash) * count) >> 32);
}

}  // namespace millrace::nf::classify
