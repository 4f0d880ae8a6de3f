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
/// A block's share of a message as it is loaded: the aligned words that hold it, zeros behind those of the message's
/// end.
struct Sha1Load {
    uint32_t words[17];
};
/// Loads the block at `at` of a message of `count` bytes; what lies behind its end in the last words may be loaded,
/// too. Nothing is asked of what comes back, so that a GPU can go on until the words are there.
MILLRACE_DEVICE Sha1Load sha1_load(const uint8_t* data, uint32_t count, uint32_t at) {
    Sha1Load load;
    const uint32_t left = at < count ? count - at : 0;
#if MILLRACE_GPU
    const uint8_t* const from = data + at;
    const uint32_t end = left == 0 ? 0 : left + static_cast<uint32_t>(millrace::detail::address_of(from) & 3);
    if ((millrace::detail::address_of(from) & 7) == 0) {
#pragma unroll
        for (unsigned i = 0; i < 16; i += 2) {
            const uint2 two = 4 * i < end ? reinterpret_cast<const uint2*>(from)[i / 2] : make_uint2(0, 0);
            load.words[i] = two.x;
            load.words[i + 1] = two.y;
        }
        load.words[16] = 0;
        return load;
    }
    const uint32_t* const words = millrace::detail::word_at(from);
#pragma unroll
    for (unsigned i = 0; i < 17; ++i) load.words[i] = 4 * i < end ? words[i] : 0;
#else
    for (unsigned i = 0; i < 17; ++i) {
        load.words[i] = 0;
        if (i < 16 && 4 * i < left) __builtin_memcpy(&load.words[i], data + at + 4 * i, smaller(left - 4 * i, 4u));
    }
#endif
    return load;
}
/// How many blocks the last `count` bytes of a message make, padded.
MILLRACE_DEVICE uint32_t sha1_blocks(uint32_t count) { return (count + 8) / kSha1BlockBytes + 1; }
/// The block at `at` of those that the last `count` bytes of a message make, of which `before` bytes went in already,
/// out of what was loaded for it.
MILLRACE_DEVICE void sha1_words(const Sha1Load& load, const uint8_t* data, uint32_t count, uint32_t before, uint32_t at,
                                uint32_t (&w)[16]) {
#if MILLRACE_GPU
    // Shifted and swapped at once.
    const uint32_t bytes = 0x0123 + 0x1111 * static_cast<uint32_t>(millrace::detail::address_of(data + at) & 3);
#pragma unroll
    for (unsigned i = 0; i < 16; ++i) w[i] = __byte_perm(load.words[i], load.words[i + 1], bytes);
#else
    static_cast<void>(data);
    for (unsigned i = 0; i < 16; ++i) w[i] = swap32(load.words[i]);
#endif
    if (at + kSha1BlockBytes <= count) return;
    if (at <= count) {
        // What lies behind the message in its last words goes, 0x80 comes behind it.
        const uint32_t left = count - at, bits = 8 * (left % 4);
#if MILLRACE_GPU
#pragma unroll
#endif
        for (unsigned i = 0; i < 16; ++i)
            w[i] = i < left / 4 ? w[i] : i > left / 4 ? 0 : (w[i] & ~(0xffffffffu >> bits)) | 0x80000000u >> bits;
    }
    if (at / kSha1BlockBytes + 1 < sha1_blocks(count)) return;  // the length does not fit
    const uint64_t bits = 8 * (static_cast<uint64_t>(before) + count);
    w[14] = static_cast<uint32_t>(bits >> 32);
    w[15] = static_cast<uint32_t>(bits);
}
/// Takes in the last `count` bytes of a message of which `before` bytes (a multiple of 64) went in already; then,
/// unless `outer` is null, hashes the digest from that state on. One loop over whole, padded and outer blocks alike, so
/// that the rounds are in a GPU's program once; each block is loaded while the one before is hashed.
MILLRACE_DEVICE void sha1_rest(Sha1& state, const uint8_t* data, uint32_t count, uint32_t before, const Sha1* outer) {
    const uint32_t blocks = sha1_blocks(count), all = blocks + (outer != nullptr);
    Sha1Load load = sha1_load(data, count, 0);
    for (uint32_t block = 0; block < all; ++block) {
        uint32_t w[16];
        if (block < blocks) {
            sha1_words(load, data, count, before, block * kSha1BlockBytes, w);
            load = sha1_load(data, count, (block + 1) * kSha1BlockBytes);
        } else {
            for (unsigned i = 0; i < 16; ++i) w[i] = i < 5 ? state.h[i] : 0;
            w[5] = 0x80000000u;
            w[15] = 8 * (kSha1BlockBytes + kSha1Bytes);
            state = *outer;
        }
        sha1_block(state, w);
    }
}
}  // namespace detail

/// Takes in the last `count` bytes of a message of which `before` bytes (a multiple of 64) went in
/// already; then `state` is the digest.
MILLRACE_DEVICE void sha1_finish(Sha1& state, const uint8_t* data, uint32_t count, uint32_t before) {
    detail::sha1_rest(state, data, count, before, nullptr);
}

/// HMAC-SHA1 of `count` bytes; the first 12 bytes of the result are HMAC-SHA1-96 (RFC 2404).
MILLRACE_DEVICE Sha1 hmac_sha1(const HmacSha1Key& key, const uint8_t* data, uint32_t count) {
    Sha1 state = key.inner;
    detail::sha1_rest(state, data, count, kSha1BlockBytes, &key.outer);
    return state;
}

}  // namespace millrace::crypto
