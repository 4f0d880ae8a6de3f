// Keys as words of four bytes: hashed and compared, the same on every device.
#pragma once

#include "millrace/packet/bytes.hpp"

namespace millrace::nf {

template <class K>
class KeyWords {
public:
    /// Pairs of 64 bits are multiplied, all apart from each other, and what comes of them once more.
    MILLRACE_DEVICE static uint64_t hash(const K& key, uint64_t seed) {
        constexpr uint64_t kOdd[] = {0xff51afd7ed558ccdull, 0xc4ceb9fe1a85ec53ull, 0x9e3779b97f4a7c15ull};
        uint64_t mixed = sizeof(K);
#if MILLRACE_GPU
#pragma unroll
#else
#pragma GCC unroll 8
#endif
        for (uint32_t i = 0; i < kCount; i += 4)
            mixed ^= folded(pair(key, i) ^ seed ^ kOdd[0] * (i + 1),
                            pair(key, i + 2) ^ (seed >> 32 | seed << 32) ^ kOdd[1]);
        return folded(mixed ^ seed, kOdd[2]);
    }
    /// Whether all words are.
    MILLRACE_DEVICE static bool same(const K& a, const K& b) {
        uint64_t differs = 0;
#if MILLRACE_GPU
#pragma unroll
#else
#pragma GCC unroll 32
#endif
        for (uint32_t i = 0; i < kCount; i += 2) differs |= pair(a, i) ^ pair(b, i);
        return differs == 0;
    }

private:
    static constexpr uint32_t kCount = sizeof(K) / 4;
    MILLRACE_DEVICE static uint32_t word(const K& key, uint32_t i) {
#if MILLRACE_GPU
        return reinterpret_cast<const uint32_t*>(&key)[i];
#else
        return load_raw<uint32_t>(reinterpret_cast<const uint8_t*>(&key) + 4 * i);
#endif
    }
    /// Words `i` and `i` + 1, as far as there are some.
    MILLRACE_DEVICE static uint64_t pair(const K& key, uint32_t i) {
#if !MILLRACE_GPU
        if (i + 1 < kCount) return load_raw<uint64_t>(reinterpret_cast<const uint8_t*>(&key) + 4 * i);
#endif
        return (i < kCount ? word(key, i) : 0) | static_cast<uint64_t>(i + 1 < kCount ? word(key, i + 1) : 0) << 32;
    }
    /// Both halves of a product.
    MILLRACE_DEVICE static uint64_t folded(uint64_t a, uint64_t b) {
#if MILLRACE_GPU
        return a * b ^ __umul64hi(a, b);
#else
        const auto product = static_cast<unsigned __int128>(a) * b;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#endif
    }
};

}  // namespace millrace::nf
