// SHA-1 (FIPS 180-4, section 6.1); HMAC-SHA1-96 is the first 12 bytes of its HMAC (RFC 2404).
#pragma once

#include "millrace/nf/crypto/hash_blocks.hpp"

namespace millrace::crypto {

/// The chaining value; at the end the digest, as big-endian words.
struct Sha1 {
    static constexpr uint32_t kWords = 5;
    uint32_t h[kWords] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

    /// Takes in one block, given as 16 big-endian words, which it overwrites.
    MILLRACE_DEVICE void take(uint32_t (&w)[16]);
};

namespace detail {
/// The round function of rounds 20 * (t / 20) and the constant that goes with it.
MILLRACE_DEVICE uint32_t sha1_mix(unsigned t, uint32_t b, uint32_t c, uint32_t d) {
    if (t < 20) return (d ^ (b & (c ^ d))) + 0x5a827999u;
    if (t < 40) return (b ^ c ^ d) + 0x6ed9eba1u;
    if (t < 60) return ((b & c) | (d & (b | c))) + 0x8f1bbcdcu;
    return (b ^ c ^ d) + 0xca62c1d6u;
}
}  // namespace detail

MILLRACE_DEVICE void Sha1::take(uint32_t (&w)[16]) {
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    // Unrolled on a GPU, so that the schedule stays in registers.
#if MILLRACE_GPU
#pragma unroll
#endif
    for (unsigned t = 0; t < 80; ++t) {
        if (t >= 16)
            w[t & 15] = detail::rotate_left(w[(t + 13) & 15] ^ w[(t + 8) & 15] ^ w[(t + 2) & 15] ^ w[t & 15], 1);
        const uint32_t next = detail::rotate_left(a, 5) + detail::sha1_mix(t, b, c, d) + e + w[t & 15];
        e = d;
        d = c;
        c = detail::rotate_left(b, 30);
        b = a;
        a = next;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
}

}  // namespace millrace::crypto
