// Reading and writing integers in packet bytes, which have no alignment.
//
// `load_be*`/`store_be*` use network byte order (RFC 1700); `load_raw*`/`store_raw*` keep the bytes
// as they lie in memory. None of them checks a length: the caller has done so.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

MILLRACE_DEVICE uint16_t swap16(uint16_t v) { return static_cast<uint16_t>((v << 8) | (v >> 8)); }
MILLRACE_DEVICE uint32_t swap32(uint32_t v) {
#if MILLRACE_GPU
    return __byte_perm(v, 0, 0x0123);
#else
    return __builtin_bswap32(v);
#endif
}
MILLRACE_DEVICE uint64_t swap64(uint64_t v) {
#if MILLRACE_GPU
    return (static_cast<uint64_t>(swap32(static_cast<uint32_t>(v))) << 32) | swap32(static_cast<uint32_t>(v >> 32));
#else
    return __builtin_bswap64(v);
#endif
}

#if MILLRACE_GPU
// A GPU faults on a misaligned wide access. Aligned words that hold at least one of the bytes asked for are
// always there to be read, as memory is handed out in whole words.
namespace detail {
MILLRACE_DEVICE uintptr_t address_of(const uint8_t* p) { return reinterpret_cast<uintptr_t>(p); }
MILLRACE_DEVICE const uint32_t* word_at(const uint8_t* p) {
    return reinterpret_cast<const uint32_t*>(address_of(p) & ~uintptr_t{3});
}

MILLRACE_DEVICE uint32_t load32(const uint8_t* p) {
    const uint32_t* word = word_at(p);
    const uint32_t shift = 8 * static_cast<uint32_t>(address_of(p) & 3);
    return shift == 0 ? word[0] : __funnelshift_r(word[0], word[1], shift);
}
MILLRACE_DEVICE void store16(uint8_t* p, uint16_t v) {
    if ((address_of(p) & 1) == 0) {
        *reinterpret_cast<uint16_t*>(p) = v;
    } else {
        p[0] = static_cast<uint8_t>(v);
        p[1] = static_cast<uint8_t>(v >> 8);
    }
}
MILLRACE_DEVICE void store32(uint8_t* p, uint32_t v) {
    if ((address_of(p) & 3) == 0) {
        *reinterpret_cast<uint32_t*>(p) = v;
    } else {
        store16(p, static_cast<uint16_t>(v));
        store16(p + 2, static_cast<uint16_t>(v >> 16));
    }
}
}  // namespace detail
#endif

/// An integer exactly as it lies in memory.
template <class T>
MILLRACE_DEVICE T load_raw(const uint8_t* p) {
#if MILLRACE_GPU
    if constexpr (sizeof(T) == 8) return detail::load32(p) | static_cast<T>(detail::load32(p + 4)) << 32;
    if constexpr (sizeof(T) == 4) return static_cast<T>(detail::load32(p));
    if constexpr (sizeof(T) == 2) {
        if ((detail::address_of(p) & 1) == 0) return *reinterpret_cast<const T*>(p);
        return static_cast<T>(p[0] | p[1] << 8);
    }
    return static_cast<T>(p[0]);
#else
    T v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
#endif
}
template <class T>
MILLRACE_DEVICE void store_raw(uint8_t* p, T v) {
#if MILLRACE_GPU
    if constexpr (sizeof(T) == 8) {
        detail::store32(p, static_cast<uint32_t>(v));
        detail::store32(p + 4, static_cast<uint32_t>(v >> 32));
    } else if constexpr (sizeof(T) == 4) {
        detail::store32(p, static_cast<uint32_t>(v));
    } else if constexpr (sizeof(T) == 2) {
        detail::store16(p, static_cast<uint16_t>(v));
    } else {
        p[0] = static_cast<uint8_t>(v);
    }
#else
    __builtin_memcpy(p, &v, sizeof v);
#endif
}

MILLRACE_DEVICE uint16_t load_be16(const uint8_t* p) { return swap16(load_raw<uint16_t>(p)); }
MILLRACE_DEVICE uint32_t load_be32(const uint8_t* p) { return swap32(load_raw<uint32_t>(p)); }
MILLRACE_DEVICE uint64_t load_be64(const uint8_t* p) { return swap64(load_raw<uint64_t>(p)); }
/// `Count` words of four bytes, one after the other, as they lie in memory. On a GPU two at a time where `p` is a
/// multiple of 8.
template <unsigned Count>
MILLRACE_DEVICE void load_raw32s(const uint8_t* p, uint32_t (&words)[Count]) {
#if MILLRACE_GPU
    if (Count % 2 == 0 && (detail::address_of(p) & 7) == 0) {
#pragma unroll
        for (unsigned i = 0; i < Count; i += 2) {
            const uint2 two = reinterpret_cast<const uint2*>(p)[i / 2];
            words[i] = two.x;
            words[i + 1] = two.y;
        }
        return;
    }
    const uint32_t* from = detail::word_at(p);
    const uint32_t shift = 8 * static_cast<uint32_t>(detail::address_of(p) & 3);
    uint32_t low = from[0];
#pragma unroll
    for (unsigned i = 0; i < Count; ++i) {
        const uint32_t high = shift == 0 && i + 1 == Count ? 0 : from[i + 1];
        words[i] = __funnelshift_r(low, high, shift);
        low = high;
    }
#else
    for (unsigned i = 0; i < Count; ++i) words[i] = load_raw<uint32_t>(p + 4 * i);
#endif
}
/// The same in network byte order.
template <unsigned Count>
MILLRACE_DEVICE void load_be32s(const uint8_t* p, uint32_t (&words)[Count]) {
    load_raw32s(p, words);
    for (uint32_t& word : words) word = swap32(word);
}
MILLRACE_DEVICE void store_be16(uint8_t* p, uint16_t v) { store_raw<uint16_t>(p, swap16(v)); }
MILLRACE_DEVICE void store_be32(uint8_t* p, uint32_t v) { store_raw<uint32_t>(p, swap32(v)); }
MILLRACE_DEVICE void store_be64(uint8_t* p, uint64_t v) { store_raw<uint64_t>(p, swap64(v)); }

/// `Count` words of four bytes, one after the other, as they shall lie in memory. On a GPU two at a time where `p` is a
/// multiple of 8.
template <unsigned Count>
MILLRACE_DEVICE void store_raw32s(uint8_t* p, const uint32_t (&words)[Count]) {
#if MILLRACE_GPU
    if (Count % 2 == 0 && (detail::address_of(p) & 7) == 0) {
#pragma unroll
        for (unsigned i = 0; i < Count; i += 2) reinterpret_cast<uint2*>(p)[i / 2] = make_uint2(words[i], words[i + 1]);
        return;
    }
    const uint32_t before = static_cast<uint32_t>(detail::address_of(p) & 3);  // bytes of the first aligned word that
                                                                               // are not ours
    if (before == 0) {
#pragma unroll
        for (unsigned i = 0; i < Count; ++i) reinterpret_cast<uint32_t*>(p)[i] = words[i];
        return;
    }
    // Whole aligned words, each of the end of one and the beginning of the next; what is left at both ends by itself.
    auto* const aligned = reinterpret_cast<uint32_t*>(p - before);
    const auto store_some = [](uint8_t* to, uint32_t word, uint32_t from, uint32_t count) {
        if (count >= 2 && from % 2 == 0) {
            *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(word);
            if (count == 3) to[2] = static_cast<uint8_t>(word >> 16);
            return;
        }
        to[0] = static_cast<uint8_t>(word);
        if (count == 3) *reinterpret_cast<uint16_t*>(to + 1) = static_cast<uint16_t>(word >> 8);
    };
    store_some(p, words[0], before, 4 - before);
#pragma unroll
    for (unsigned i = 1; i < Count; ++i) aligned[i] = __funnelshift_r(words[i - 1], words[i], 32 - 8 * before);
    store_some(p + 4 * Count - before, words[Count - 1] >> (32 - 8 * before), 0, before);
#else
    for (unsigned i = 0; i < Count; ++i) store_raw<uint32_t>(p + 4 * i, words[i]);
#endif
}
/// The same in network byte order.
template <unsigned Count>
MILLRACE_DEVICE void store_be32s(uint8_t* p, const uint32_t (&words)[Count]) {
    uint32_t raw[Count];
    for (unsigned i = 0; i < Count; ++i) raw[i] = swap32(words[i]);
    store_raw32s(p, raw);
}

MILLRACE_DEVICE void copy_bytes(uint8_t* to, const uint8_t* from, uint32_t count) {
#if MILLRACE_GPU
    for (uint32_t i = 0; i < count; ++i) to[i] = from[i];
#else
    __builtin_memcpy(to, from, count);
#endif
}

/// Copies `count` bytes to lower addresses; the two places may overlap.
MILLRACE_DEVICE void move_bytes_down(uint8_t* to, const uint8_t* from, uint32_t count) {
#if MILLRACE_GPU
    uint32_t i = 0;
    // Words where both have them: each byte would wait for the one before.
    if (((detail::address_of(to) | detail::address_of(from)) & 3) == 0 && from - to >= 4)
        for (; i + 4 <= count; i += 4) *reinterpret_cast<uint32_t*>(to + i) = *detail::word_at(from + i);
    for (; i < count; ++i) to[i] = from[i];
#else
    __builtin_memmove(to, from, count);
#endif
}

}  // namespace millrace
