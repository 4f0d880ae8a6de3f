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
    return (static_cast<uint64_t>(swap32(static_cast<uint32_t>(v))) << 32) | swap32(static_cast<uint32_t>(v >> 32));
}

/// An integer exactly as it lies in memory.
template <class T>
MILLRACE_DEVICE T load_raw(const uint8_t* p) {
#if MILLRACE_GPU
    // A GPU faults on a misaligned wide access, so it is put together from bytes.
    T v = 0;
    for (unsigned i = 0; i < sizeof(T); ++i) v |= static_cast<T>(static_cast<T>(p[i]) << (8 * i));
    return v;
#else
    T v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
#endif
}
template <class T>
MILLRACE_DEVICE void store_raw(uint8_t* p, T v) {
#if MILLRACE_GPU
    for (unsigned i = 0; i < sizeof(T); ++i) p[i] = static_cast<uint8_t>(v >> (8 * i));
#else
    __builtin_memcpy(p, &v, sizeof v);
#endif
}

MILLRACE_DEVICE uint16_t load_be16(const uint8_t* p) { return swap16(load_raw<uint16_t>(p)); }
MILLRACE_DEVICE uint32_t load_be32(const uint8_t* p) { return swap32(load_raw<uint32_t>(p)); }
MILLRACE_DEVICE uint64_t load_be64(const uint8_t* p) { return swap64(load_raw<uint64_t>(p)); }
MILLRACE_DEVICE void store_be16(uint8_t* p, uint16_t v) { store_raw<uint16_t>(p, swap16(v)); }
MILLRACE_DEVICE void store_be32(uint8_t* p, uint32_t v) { store_raw<uint32_t>(p, swap32(v)); }
MILLRACE_DEVICE void store_be64(uint8_t* p, uint64_t v) { store_raw<uint64_t>(p, swap64(v)); }

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
    for (uint32_t i = 0; i < count; ++i) to[i] = from[i];
#else
    __builtin_memmove(to, from, count);
#endif
}

}  // namespace millrace
