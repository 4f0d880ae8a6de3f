// SHA-1 (FIPS 180-4, section 6.1) and HMAC-SHA1 (RFC 2104) with the key's two states computed before.
#pragma once

#include "millrace/packet/bytes.hpp"

namespace millrace::crypto {

inline constexpr uint32_t kSha1BlockBytes = 64;
inline constexpr uint32_t kSha1Bytes = 20;

/// The chaining value; at the end the digest, as big-endian words.
struct Sha1 {
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
};

/// A key of HMAC-SHA1: the states behind its inner and its outer padded block.
struct HmacSha1Key {
    Sha1 inner, outer;
};

namespace detail {
MILLRACE_DEVICE uint32_t rotate_left(uint32_t v, unsigned bits) { return (v << bits) | (v >> (32 - bits)); }

/// The round function of rounds 20 * (t / 20) and the constant that goes with it.
MILLRACE_DEVICE uint32_t sha1_mix(unsigned t, uint32_t b, uint32_t c, uint32_t d) {
    if (t < 20) return (d ^ (b & (c ^ d))) + 0x5a827999u;
    if (t < 40) return (b ^ c ^ d) + 0x6ed9eba1u;
    if (t < 60) return ((b & c) | (d & (b | c))) + 0x8f1bbcdcu;
    return (b ^ c ^ d) + 0xca62c1d6u;
}
}  // namespace detail

/// Takes in one block, given as 16 big-endian words, which it overwrites.
MILLRACE_DEVICE void sha1_block(Sha1& state, uint32_t (&w)[16]) {
    uint32_t a = state.h[0], b = state.h[1], c = state.h[2], d = state.h[3], e = state.h[4];
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
    state.h[0] += a, state.h[1] += b, state.h[2] += c, state.h[3] += d, state.h[4] += e;
}

namespace detail {
/// Word `i` of the padded last block of which `left` bytes are message: then 0x80, then zeros.
MILLRACE_DEVICE uint32_t sha1_last_word(const uint8_t* data, uint32_t left, uint32_t i) {
    uint32_t word = 0;
    for (unsigned j = 0; j < 4; ++j) {
        const uint32_t at = 4 * i + j;
        const uint32_t byte = at < left ? data[at] : at == left ? 0x80u : 0u;
        word |= byte << (24 - 8 * j);
    }
    return word;
}
/// The padded last block of which `left` bytes, fewer than it has, are message. A GPU reads whole words where they are, as each byte
/// by itself would take as long.
MILLRACE_DEVICE void sha1_last_words(const uint8_t* data, uint32_t left, uint32_t (&words)[16]) {
#if MILLRACE_GPU
    const uint32_t whole = left / 4;
    const uint32_t* const from = millrace::detail::word_at(data);
    const uint32_t shift = 8 * static_cast<uint32_t>(millrace::detail::address_of(data) & 3);
    uint32_t low = whole > 0 ? from[0] : 0;
#pragma unroll
    for (unsigned i = 0; i < 16; ++i) {
        words[i] = 0;
        if (i < whole) {
            const uint32_t high = shift != 0 || i + 1 < whole ? from[i + 1] : 0;
            words[i] = swap32(__funnelshift_r(low, high, shift));
            low = high;
        }
    }
    const uint32_t last = sha1_last_word(data, left, whole);
#pragma unroll
    for (unsigned i = 0; i < 16; ++i)
        if (i == whole) words[i] = last;
#else
    for (unsigned i = 0; i < 16; ++i) words[i] = sha1_last_word(data, left, i);
#endif
}
/// How many blocks the last `count` bytes of a message make, padded.
MILLRACE_DEVICE uint32_t sha1_blocks(uint32_t count) { return (count + 8) / kSha1BlockBytes + 1; }
/// Block `block` of those that the last `count` bytes of a message make, of which `before` bytes went in already.
MILLRACE_DEVICE void sha1_words(const uint8_t* data, uint32_t count, uint32_t before, uint32_t block, uint32_t (&w)[16]) {
    const uint32_t at = block * kSha1BlockBytes;
    if (at + kSha1BlockBytes <= count) {
        load_be32s(data + at, w);
        return;
    }
    if (at <= count) {
        sha1_last_words(data + at, count - at, w);
    } else {
        for (unsigned i = 0; i < 16; ++i) w[i] = 0;  // only the length did not fit before
    }
    if (block + 1 < sha1_blocks(count)) return;
    const uint64_t bits = 8 * (static_cast<uint64_t>(before) + count);
    w[14] = static_cast<uint32_t>(bits >> 32);
    w[15] = static_cast<uint32_t>(bits);
}
}  // namespace detail

/// Takes in the last `count` bytes of a message of which `before` bytes (a multiple of 64) went in
/// already; then `state` is the digest.
MILLRACE_DEVICE void sha1_finish(Sha1& state, const uint8_t* data, uint32_t count, uint32_t before) {
    // One loop over whole and padded blocks alike, so that the rounds are in the program once.
    const uint32_t blocks = detail::sha1_blocks(count);
    for (uint32_t block = 0; block < blocks; ++block) {
        uint32_t w[16];
        detail::sha1_words(data, count, before, block, w);
        sha1_block(state, w);
    }
}

/// HMAC-SHA1 of `count` bytes; the first 12 bytes of the result are HMAC-SHA1-96 (RFC 2404).
MILLRACE_DEVICE Sha1 hmac_sha1(const HmacSha1Key& key, const uint8_t* data, uint32_t count) {
    Sha1 state = key.inner;
    // The outer hash is one more block of the same loop.
    const uint32_t blocks = detail::sha1_blocks(count);
    for (uint32_t block = 0; block <= blocks; ++block) {
        uint32_t w[16];
        if (block < blocks) {
            detail::sha1_words(data, count, kSha1BlockBytes, block, w);
        } else {
            for (unsigned i = 0; i < 16; ++i) w[i] = i < 5 ? state.h[i] : 0;
            w[5] = 0x80000000u;
            w[15] = 8 * (kSha1BlockBytes + kSha1Bytes);
            state = key.outer;
        }
        sha1_block(state, w);
    }
    return state;
}

}  // namespace millrace::crypto
