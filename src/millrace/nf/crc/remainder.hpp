// CRC-32 over a frame, shared out among lanes: the device half's own computation.
//
// A CRC is the remainder of the message, taken as a polynomial over GF(2), by a polynomial P of degree 32. Both
// polynomials that are used here are reflected: the first bit on the wire is the lowest of its byte, so the highest
// power of x is the lowest bit of the first word.
//
// Lane i of L takes words i, i + L, i + 2L … of 32 bits, so that neighbours read contiguous words. From one of
// its words to the next it multiplies what it has by x^(32 L), by four tables of a byte each ("slicing"). At the end
// its part is multiplied by x^(32 (L - i)), and all parts are added up. Words are counted from the frame's end; what
// lacks before its beginning is zero, which changes nothing.
#pragma once

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::crc {

/// Words of the tables that multiply by one power of x: for each byte of a word 256.
inline constexpr uint32_t kStepWords = 4 * 256;
/// The numbers of lanes that there are such tables for, in their order.
inline constexpr unsigned kStepLanes[] = {1, 8, 32};
inline constexpr uint32_t kSteps = 3;
inline constexpr uint32_t kMaxLanes = 32;

/// What device code needs of a polynomial. On a GPU `stage_steps` must have run in the block.
struct CrcTables {
    uint32_t polynomial = 0;  ///< without x^32; x^31 is the lowest bit
    View<uint32_t> steps;     ///< kSteps times kStepWords: byte v at place b of a word, times x^(32 L)
    View<uint32_t> powers;    ///< x^(32 i), for i from 0 to kMaxLanes
};

/// The product of two remainders.
MILLRACE_DEVICE uint32_t multiply(uint32_t a, uint32_t b, uint32_t polynomial) {
    uint32_t product = 0;
    for (uint32_t bit = 0; bit < 32; ++bit) {
        product ^= a & (0u - (b >> (31 - bit) & 1));  // from x^0 on
        a = a >> 1 ^ (polynomial & (0u - (a & 1)));
    }
    return product;
}

#if MILLRACE_GPU
/// Copies the steps to a block's memory, by all of its threads.
MILLRACE_DEVICE void stage_steps(const CrcTables& tables, uint32_t* block) {
    for (uint32_t i = threadIdx.x; i < kSteps * kStepWords; i += blockDim.x) block[i] = tables.steps[i];
}
#endif

namespace detail {

/// Which of the steps is that of so many lanes.
template <unsigned Count>
MILLRACE_DEVICE constexpr uint32_t step_of_lanes() {
    static_assert(Count == kStepLanes[0] || Count == kStepLanes[1] || Count == kStepLanes[2]);
    return Count == kStepLanes[0] ? 0 : Count == kStepLanes[1] ? 1 : 2;
}

MILLRACE_DEVICE const uint32_t* steps_at_hand([[maybe_unused]] const CrcTables& tables) {
#if MILLRACE_GPU
    return block_memory();
#else
    return tables.steps.data();
#endif
}

MILLRACE_DEVICE uint32_t advance(const uint32_t* step, uint32_t part) {
    return step[part & 255] ^ step[256 + (part >> 8 & 255)] ^ step[512 + (part >> 16 & 255)] ^ step[768 + (part >> 24)];
}

/// Word `k` of `words`, the last of which ends with the message. What lies before the message is zero, and its first
/// four bytes are inverted (the CRC's initial value). At least four bytes.
MILLRACE_DEVICE uint32_t word_of(const uint8_t* data, uint32_t bytes, uint32_t k, uint32_t words) {
    const uint32_t behind = 4 * (words - k);  // from its first byte to the end
    if (behind <= bytes) {
        const uint32_t at = bytes - behind;
        return load_raw<uint32_t>(data + at) ^ (at < 4 ? ~0u >> 8 * at : 0);
    }
    const uint32_t before = behind - bytes;
    return before < 4 ? ~load_raw<uint32_t>(data) << 8 * before : 0;
}

/// The sum of all lanes' parts, which over GF(2) is their exclusive or.
template <class Lanes>
MILLRACE_DEVICE uint32_t sum_of(PerLane<uint32_t, Lanes>& parts, [[maybe_unused]] Lanes lanes) {
    uint32_t sum = parts.of(0);
#if MILLRACE_GPU
    for (unsigned step = Lanes::count / 2; step > 0; step /= 2)
        sum ^= __shfl_xor_sync(lanes.mask(), sum, step, Lanes::count);
#else
    for (uint32_t lane = 1; lane < Lanes::count; ++lane) sum ^= parts.of(lane);
#endif
    return sum;
}

}  // namespace detail

/// The CRC of `bytes` bytes at `data`, as zlib's crc32 tells it: begun with ones, and inverted.
template <class Lanes>
MILLRACE_DEVICE uint32_t crc_of(const uint8_t* data, uint32_t bytes, const CrcTables& tables, Lanes lanes) {
    const uint32_t* const steps = detail::steps_at_hand(tables);
    if (bytes < 4) {
        uint32_t crc = ~0u;
        for (uint32_t i = 0; i < bytes; ++i) crc = crc >> 8 ^ steps[768 + ((crc ^ data[i]) & 255)];
        return ~crc;
    }
    constexpr uint32_t kCount = Lanes::count;
    const uint32_t* const step = steps + detail::step_of_lanes<kCount>() * kStepWords;
    const uint32_t rounds = (bytes + 4 * kCount - 1) / (4 * kCount);
    PerLane<uint32_t, Lanes> parts;
    lanes.for_each(kCount, [&](uint32_t lane) {
        uint32_t part = 0;
        for (uint32_t round = 0; round < rounds; ++round)
            part = detail::advance(step, part) ^ detail::word_of(data, bytes, round * kCount + lane, rounds * kCount);
        if constexpr (kCount == 1) part = detail::advance(step, part);
        else part = multiply(part, tables.powers[kCount - lane], tables.polynomial);
        parts.of(lane) = part;
    });
    return ~detail::sum_of(parts, lanes);
}

}  // namespace millrace::nf::crc
