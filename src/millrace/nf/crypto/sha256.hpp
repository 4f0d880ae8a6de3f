// SHA-256 (FIPS 180-4, section 6.2); HMAC-SHA-256-128 is the first 16 bytes of its HMAC (RFC 4868).
#pragma once

#include "millrace/nf/crypto/hash_blocks.hpp"

namespace millrace::crypto {

/// The chaining value; at the end the digest, as big-endian words.
struct Sha256 {
    static constexpr uint32_t kWords = 8;
    uint32_t h[kWords] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    /// Takes in one block, given as 16 big-endian words, which it overwrites.
    MILLRACE_DEVICE void take(uint32_t (&w)[16]);
};

namespace detail {
/// The first 32 bits of the fractional part of the cube root of the prime with this number (FIPS 180-4, section 4.2.2).
MILLRACE_DEVICE uint32_t sha256_constant(unsigned t) {
#if !MILLRACE_GPU
    static  // on a GPU the rounds are unrolled, and these are part of their instructions
#endif
        constexpr uint32_t words[64] = {
            0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
            0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
            0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
            0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
            0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
            0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
            0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
            0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
        };
    return words[t];
}
MILLRACE_DEVICE uint32_t rotate_bits(uint32_t v, unsigned a, unsigned b, unsigned c) {
    return rotate_left(v, 32 - a) ^ rotate_left(v, 32 - b) ^ rotate_left(v, 32 - c);
}
}  // namespace detail

MILLRACE_DEVICE void Sha256::take(uint32_t (&w)[16]) {
    uint32_t s[8];
    for (unsigned i = 0; i < 8; ++i) s[i] = h[i];
    // Unrolled on a GPU, so that schedule and state stay in registers. The state turns by one place each round.
#if MILLRACE_GPU
#pragma unroll
#endif
    for (unsigned t = 0; t < 64; ++t) {
        if (t >= 16) {
            const uint32_t early = w[(t + 1) & 15], late = w[(t + 14) & 15];
            w[t & 15] += (detail::rotate_left(early, 25) ^ detail::rotate_left(early, 14) ^ early >> 3) +
                         w[(t + 9) & 15] + (detail::rotate_left(late, 15) ^ detail::rotate_left(late, 13) ^ late >> 10);
        }
        const uint32_t a = s[(64 - t) & 7], b = s[(65 - t) & 7], c = s[(66 - t) & 7];
        const uint32_t e = s[(68 - t) & 7], f = s[(69 - t) & 7], g = s[(70 - t) & 7];
        uint32_t& last = s[(71 - t) & 7];
        last += detail::rotate_bits(e, 6, 11, 25) + (g ^ (e & (f ^ g))) + detail::sha256_constant(t) + w[t & 15];
        s[(67 - t) & 7] += last;
        last += detail::rotate_bits(a, 2, 13, 22) + ((a & b) | (c & (a | b)));
    }
    for (unsigned i = 0; i < 8; ++i) h[i] += s[i];
}

}  // namespace millrace::crypto
