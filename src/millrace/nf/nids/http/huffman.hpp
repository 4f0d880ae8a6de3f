// Huffman codes of deflate (RFC 1951, section 3.2): built of their lengths, decoded bit by bit behind a table of the
// short ones; and what its symbols stand for.
#pragma once

#include "millrace/packet/bytes.hpp"

namespace millrace::nf::nids::http {

inline constexpr uint32_t kCodeLengths = 19, kFixedLengths = 288, kFixedDistances = 32, kMaxLengths = 320,
                          kMaxBits = 15;

/// A symbol that bits begin with. Without one `bits` is 0: no code begins so (`value` is kNone), or more are needed.
struct Symbol {
    static constexpr uint16_t kNone = 0xffff;
    uint16_t value = 0;
    uint16_t bits = 0;
    MILLRACE_DEVICE bool is_none() const { return value == kNone; }
};

/// A canonical code of up to `Most` symbols.
template <uint32_t Most>
struct Code {
    static constexpr uint32_t kShort = 8;  ///< bits that the table looks at
    uint16_t counts[kMaxBits + 1];         ///< codes by length
    uint16_t symbols[Most];                ///< in the order of their codes
    uint16_t table[1u << kShort];          ///< by the next bits: symbol << 4 | length; 0: it is longer

    /// False where lengths make no code: too many short ones, or too few. One code alone of one bit may stand for
    /// itself unless all are `wanted`.
    MILLRACE_DEVICE_CALL bool build(const uint8_t* lengths, uint32_t n, bool wanted = false) {
        uint16_t next[kMaxBits + 1];
        for (uint32_t i = 0; i <= kMaxBits; ++i) counts[i] = 0;
        for (uint32_t i = 0; i < n; ++i) ++counts[lengths[i]];
        for (uint16_t& entry : table) entry = 0;
        int32_t left = 1;
        const uint32_t used = n - counts[0];
        counts[0] = 0;
        for (uint32_t i = 1; i <= kMaxBits; ++i) {
            left = left * 2 - counts[i];
            if (left < 0) return false;
        }
        if (left > 0 && used > 0 && (wanted || used > 1 || counts[1] == 0)) return false;
        next[1] = 0;
        for (uint32_t i = 1; i < kMaxBits; ++i) next[i + 1] = static_cast<uint16_t>(next[i] + counts[i]);
        for (uint32_t i = 0; i < n; ++i)
            if (lengths[i] != 0) symbols[next[lengths[i]]++] = static_cast<uint16_t>(i);
        uint32_t code = 0, index = 0;
        for (uint32_t length = 1; length <= kShort; ++length, code <<= 1)
            for (uint32_t i = 0; i < counts[length]; ++i, ++code, ++index) enter(code, length, symbols[index]);
        return true;
    }

    MILLRACE_DEVICE Symbol decode(uint64_t bits, uint32_t count) const {
        const uint16_t entry = table[bits & ((1u << kShort) - 1)];
        if (entry != 0) {
            const uint16_t length = entry & 15;
            return length <= count ? Symbol{static_cast<uint16_t>(entry >> 4), length} : Symbol{};
        }
        uint32_t code = 0, first = 0, index = 0;
        for (uint32_t length = 1; length <= kMaxBits; ++length) {
            if (length > count) return {};
            code |= static_cast<uint32_t>(bits >> (length - 1)) & 1;
            const uint32_t has = counts[length];
            if (code - first < has) return {symbols[index + code - first], static_cast<uint16_t>(length)};
            index += has;
            first = (first + has) << 1;
            code <<= 1;
        }
        return {Symbol::kNone, 0};
    }

private:
    /// Codes come with their highest bit first, all else with its lowest.
    MILLRACE_DEVICE void enter(uint32_t code, uint32_t length, uint32_t symbol) {
        uint32_t turned = 0;
        for (uint32_t i = 0; i < length; ++i) turned |= (code >> i & 1) << (length - 1 - i);
        for (uint32_t at = turned; at < (1u << kShort); at += 1u << length)
            table[at] = static_cast<uint16_t>(symbol << 4 | length);
    }
};

struct Codes {
    Code<kFixedLengths> literals;
    Code<kFixedDistances> distances;
};

MILLRACE_DEVICE uint8_t fixed_length(uint32_t symbol) {
    return symbol < 144 ? uint8_t{8} : symbol < 256 ? uint8_t{9} : symbol < 280 ? uint8_t{7} : uint8_t{8};
}
/// Whose length is the i-th that comes.
MILLRACE_DEVICE uint32_t code_length_order(uint32_t i) {
    constexpr uint8_t kOrder[kCodeLengths] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    return kOrder[i];
}
// Symbols 257 to 285 are lengths from 3 on: eight without more bits, then four of each number of them; 285 is 258.
MILLRACE_DEVICE uint32_t extra_of_length(uint32_t symbol) {
    return symbol < 265 || symbol == 285 ? 0 : (symbol - 261) / 4;
}
MILLRACE_DEVICE uint32_t base_of_length(uint32_t symbol) {
    if (symbol == 285) return 258;
    if (symbol < 265) return symbol - 254;
    return ((4 + (symbol - 261) % 4) << ((symbol - 261) / 4)) + 3;
}
// Distances: four without more bits, then two of each number.
MILLRACE_DEVICE uint32_t extra_of_distance(uint32_t symbol) { return symbol < 4 ? 0 : symbol / 2 - 1; }
MILLRACE_DEVICE uint32_t base_of_distance(uint32_t symbol) {
    return symbol < 4 ? symbol + 1 : ((2 + symbol % 2) << (symbol / 2 - 1)) + 1;
}

}  // namespace millrace::nf::nids::http
