// Galois/Counter Mode of AES (NIST SP 800-38D), in place on packet bytes.
//
// Products in GF(2^128) are made of 32-bit integer products: a word's every fourth bit multiplies another's, so that no
// sum of up to eight ones reaches the next bit that counts (T. Pornin, "Constant-Time Mul" and BearSSL's notes on
// GHASH). That takes no table of a key, no memory of a block, and the same time for all data.
#pragma once

#include "millrace/nf/crypto/aes.hpp"

namespace millrace::crypto {

inline constexpr uint32_t kGhashPowers = 32;  ///< as many as a packet has lanes

/// The powers 1, 2, … of the hash subkey H, as words in network order.
struct alignas(16) GhashKey {
    uint32_t powers[kGhashPowers][4];
};

namespace detail {
/// The product of two polynomials over GF(2).
MILLRACE_DEVICE uint64_t carryless(uint32_t x, uint32_t y) {
    constexpr uint32_t kHoles = 0x11111111u;
    uint64_t product = 0;
#if MILLRACE_GPU
#pragma unroll
#endif
    for (unsigned i = 0; i < 4; ++i) {
        uint64_t sum = 0;
#if MILLRACE_GPU
#pragma unroll
#endif
        for (unsigned j = 0; j < 4; ++j) sum ^= static_cast<uint64_t>(x & kHoles << j) * (y & kHoles << ((i - j) & 3));
        product |= sum & 0x1111111111111111u << i;
    }
    return product;
}

struct Wide {
    uint64_t low, high;
};
/// The same of twice the length (Karatsuba and Ofman, 1962); the low word first.
MILLRACE_DEVICE Wide carryless(uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1) {
    const uint64_t low = carryless(a0, b0), high = carryless(a1, b1);
    const uint64_t middle = carryless(a0 ^ a1, b0 ^ b1) ^ low ^ high;
    return {low ^ middle << 32, high ^ middle >> 32};
}
}  // namespace detail

/// The product in GF(2^128) as GCM has it: the first bit of a block is the coefficient of x^0 (SP 800-38D,
/// section 6.3).
MILLRACE_DEVICE AesBlock ghash_multiply(const AesBlock& x, const AesBlock& y) {
    const uint32_t *a = x.words, *b = y.words;
    const detail::Wide low = detail::carryless(a[3], a[2], b[3], b[2]);
    const detail::Wide high = detail::carryless(a[1], a[0], b[1], b[0]);
    const detail::Wide both = detail::carryless(a[3] ^ a[1], a[2] ^ a[0], b[3] ^ b[1], b[2] ^ b[0]);
    uint64_t r0 = low.low, r1 = low.high ^ both.low ^ low.low ^ high.low;
    uint64_t r2 = high.low ^ both.high ^ low.high ^ high.high, r3 = high.high;
    // The bits stand in reverse order: the product of 255 bits begins at the second.
    r3 = r3 << 1 | r2 >> 63;
    r2 = r2 << 1 | r1 >> 63;
    r1 = r1 << 1 | r0 >> 63;
    r0 <<= 1;
    // x^128 = x^7 + x^2 + x + 1: first of the coefficients whose multiples go beyond x^127 themselves.
    r1 ^= r0 << 63 ^ r0 << 62 ^ r0 << 57;
    r2 ^= r0 ^ (r0 >> 1 | r1 << 63) ^ (r0 >> 2 | r1 << 62) ^ (r0 >> 7 | r1 << 57);
    r3 ^= r1 ^ r1 >> 1 ^ r1 >> 2 ^ r1 >> 7;
    return {{static_cast<uint32_t>(r3 >> 32), static_cast<uint32_t>(r3), static_cast<uint32_t>(r2 >> 32),
             static_cast<uint32_t>(r2)}};
}

namespace detail {
/// A block of a text that ends `left` bytes behind `at`, with zeros behind its end.
MILLRACE_DEVICE AesBlock load_padded(const uint8_t* at, uint32_t left) {
    if (left >= kAesBlockBytes) return load_block(at);
    AesBlock block{};
#if MILLRACE_GPU
#pragma unroll
#endif
    for (uint32_t i = 0; i < kAesBlockBytes; ++i)
        if (i < left) block.words[i / 4] |= static_cast<uint32_t>(at[i]) << (24 - 8 * (i % 4));
    return block;
}

/// The sum in GF(2^128) of what all lanes have, in all of them.
template <class Lanes>
MILLRACE_DEVICE AesBlock sum_of_lanes(PerLane<AesBlock, Lanes>& parts, [[maybe_unused]] Lanes lanes) {
    AesBlock sum = parts.of(0);
#if MILLRACE_GPU
    for (unsigned step = Lanes::count / 2; step > 0; step /= 2)
        for (uint32_t& word : sum.words) word ^= __shfl_xor_sync(lanes.mask(), word, step, Lanes::count);
#else
    for (unsigned lane = 1; lane < Lanes::count; ++lane) sum = sum ^ parts.of(lane);
#endif
    return sum;
}
}  // namespace detail

/// GHASH (SP 800-38D, section 6.4) of what is authenticated only, at most one block of `aad_bytes`, and of `count`
/// bytes of ciphertext. Each lane takes every so many blocks, by Horner's rule; the power that its last block still
/// needs is at most the number of lanes.
template <class Lanes>
MILLRACE_DEVICE AesBlock ghash(const GhashKey& key, const AesBlock& aad, uint32_t aad_bytes, const uint8_t* data,
                               uint32_t count, Lanes lanes) {
    static_assert(Lanes::count <= kGhashPowers);
    PerLane<AesBlock, Lanes> parts;
    const uint32_t blocks = (count + kAesBlockBytes - 1) / kAesBlockBytes + 2;  // and that of the lengths
    lanes.for_each(blocks, [&](uint32_t i) {
        AesBlock block = aad;
        if (i == blocks - 1) block = {{0, 8 * aad_bytes, 0, 8 * count}};
        else if (i > 0) block = detail::load_padded(data + kAesBlockBytes * (i - 1), count - kAesBlockBytes * (i - 1));
        AesBlock& part = parts.of(i % Lanes::count);
        const uint32_t power = smaller<uint32_t>(blocks - i, Lanes::count);
        part = ghash_multiply(part ^ block, round_key(key.powers[0], power - 1));
    });
    return detail::sum_of_lanes(parts, lanes);
}

/// Encrypts or decrypts in place; `first` is the counter block J0, whose own block masks the tag and is returned.
template <class Lanes>
MILLRACE_DEVICE AesBlock gcm_crypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds,
                                   const AesBlock& first, uint8_t* data, uint32_t count, Lanes lanes) {
    return detail::aes_counter_mode<true>(tables, keys, rounds, first, data, count, lanes);
}

}  // namespace millrace::crypto
