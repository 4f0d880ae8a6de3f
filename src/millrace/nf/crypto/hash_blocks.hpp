// How SHA-1 and SHA-256 cut a message into padded blocks (FIPS 180-4, section 5.1.1), and HMAC from a key's two states.
#pragma once

#include "millrace/packet/bytes.hpp"

namespace millrace::crypto {

inline constexpr uint32_t kHashBlockBytes = 64;

/// A key of HMAC (RFC 2104): the hash's states behind its inner and its outer padded block.
template <class State>
struct HmacKey {
    State inner, outer;
};

namespace detail {
MILLRACE_DEVICE uint32_t rotate_left(uint32_t v, unsigned bits) { return (v << bits) | (v >> (32 - bits)); }

/// A block's share of a message as it is loaded: the aligned words that hold it, zeros behind those of the message's
/// end.
struct HashLoad {
    uint32_t words[17];
};
/// Loads the block at `at` of a message of `count` bytes; what lies behind its end in the last words may be loaded,
/// too. Nothing is asked of what comes back, so that a GPU can go on until the words are there.
MILLRACE_DEVICE HashLoad hash_load(const uint8_t* data, uint32_t count, uint32_t at) {
    HashLoad load;
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
MILLRACE_DEVICE uint32_t hash_blocks(uint32_t count) { return (count + 8) / kHashBlockBytes + 1; }
/// The block at `at` of those that the last `count` bytes of a message make, of which `before` bytes went in already,
/// out of what was loaded for it.
MILLRACE_DEVICE void hash_words(const HashLoad& load, const uint8_t* data, uint32_t count, uint32_t before, uint32_t at,
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
    if (at + kHashBlockBytes <= count) return;
    if (at <= count) {
        // What lies behind the message in its last words goes, 0x80 comes behind it.
        const uint32_t left = count - at, bits = 8 * (left % 4);
#if MILLRACE_GPU
#pragma unroll
#endif
        for (unsigned i = 0; i < 16; ++i)
            w[i] = i < left / 4 ? w[i] : i > left / 4 ? 0 : (w[i] & ~(0xffffffffu >> bits)) | 0x80000000u >> bits;
    }
    if (at / kHashBlockBytes + 1 < hash_blocks(count)) return;  // the length does not fit
    const uint64_t bits = 8 * (static_cast<uint64_t>(before) + count);
    w[14] = static_cast<uint32_t>(bits >> 32);
    w[15] = static_cast<uint32_t>(bits);
}
/// Takes in the last `count` bytes of a message of which `before` bytes (a multiple of 64) went in already; then,
/// unless `outer` is null, hashes the digest from that state on. One loop over whole, padded and outer blocks alike, so
/// that the rounds are in a GPU's program once; each block is loaded while the one before is hashed.
/// `State` has `kWords` words `h` and `take(uint32_t (&block)[16])`.
template <class State>
MILLRACE_DEVICE void hash_rest(State& state, const uint8_t* data, uint32_t count, uint32_t before, const State* outer) {
    const uint32_t blocks = hash_blocks(count), all = blocks + (outer != nullptr);
    HashLoad load = hash_load(data, count, 0);
    for (uint32_t block = 0; block < all; ++block) {
        uint32_t w[16];
        if (block < blocks) {
            hash_words(load, data, count, before, block * kHashBlockBytes, w);
            load = hash_load(data, count, (block + 1) * kHashBlockBytes);
        } else {
            for (unsigned i = 0; i < 16; ++i) w[i] = i < State::kWords ? state.h[i] : 0;
            w[State::kWords] = 0x80000000u;
            w[15] = 8 * (kHashBlockBytes + 4 * State::kWords);
            state = *outer;
        }
        state.take(w);
    }
}
}  // namespace detail

/// Takes in the last `count` bytes of a message of which `before` bytes (a multiple of 64) went in already; then
/// `state` is the digest.
template <class State>
MILLRACE_DEVICE void hash_finish(State& state, const uint8_t* data, uint32_t count, uint32_t before) {
    detail::hash_rest<State>(state, data, count, before, nullptr);
}

/// HMAC of `count` bytes.
template <class State>
MILLRACE_DEVICE State hmac(const HmacKey<State>& key, const uint8_t* data, uint32_t count) {
    State state = key.inner;
    detail::hash_rest(state, data, count, kHashBlockBytes, &key.outer);
    return state;
}

}  // namespace millrace::crypto
