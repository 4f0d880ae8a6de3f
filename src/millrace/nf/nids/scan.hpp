// Looking through the bytes of a payload, all lanes of the packet together.
#pragma once

#include "millrace/nf/nids/pattern/text.hpp"
#include "millrace/packet/lanes.hpp"

#if !MILLRACE_GPU
#include <emmintrin.h>
#endif

namespace millrace::nf::nids {

MILLRACE_DEVICE uint8_t to_lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? static_cast<uint8_t>(c + 32) : c; }

/// The first i in [begin, end) for which `holds(i)` does, `end` when there is none. It may be asked of any i of them.
template <class Lanes, class Holds>
MILLRACE_DEVICE uint32_t first_where(Lanes lanes, uint32_t begin, uint32_t end, Holds&& holds) {
    if constexpr (Lanes::count == 1) {
        while (begin < end && !holds(begin)) ++begin;
        return begin < end ? begin : end;
    } else {
        // Four loads of each lane are on their way at once.
        constexpr uint32_t kNone = 0xffffffffu, kAtOnce = Lanes::count * 4;
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (; begin < end; begin += kAtOnce) {
            const uint32_t found = lanes.minimum(smaller(kAtOnce, end - begin),
                                                 [&](uint32_t k) { return holds(begin + k) ? begin + k : kNone; });
            if (found != kNone) return found;
        }
        return end;
    }
}

/// The first i in [begin, end) for which `may(window)` and `is(i)` hold, `end` when there is none. The window is the
/// four bytes of data[0, bytes) from i on, the first in the lowest bits; behind the last byte it may be anything. A
/// lane looks at 16 places of neighbouring words.
template <class Lanes, class May, class Is>
MILLRACE_DEVICE uint32_t first_window(Lanes lanes, const uint8_t* data, uint32_t bytes, uint32_t begin, uint32_t end,
                                      May&& may, Is&& is) {
#if !MILLRACE_GPU
    if constexpr (Lanes::count == 1) {
        for (; begin < end; ++begin) {
            uint32_t window = 0;
            for (uint32_t k = 0; k < smaller(4u, bytes - begin); ++k) window |= uint32_t{data[begin + k]} << 8 * k;
            if (may(window) && is(begin)) return begin;
        }
        return end;
    }
#endif
    constexpr uint32_t kNone = 0xffffffffu, kWords = 4, kPlaces = 4 * kWords;
    const pattern::detail::Text text(data, bytes);
    const uint32_t first = text.first() + begin, behind = text.first() + end;
#if MILLRACE_GPU
#pragma unroll 1
#endif
    for (uint32_t at = first / 4 * 4; at < behind; at += kPlaces * Lanes::count) {
        const uint32_t found = lanes.minimum(Lanes::count, [&](uint32_t lane) {
            const uint32_t from = at + kPlaces * lane;
            if (from >= behind) return kNone;
            uint32_t low = text.half(from / 4), those = 0;
#if MILLRACE_GPU
#pragma unroll
#endif
            for (uint32_t k = 0; k < kWords; ++k) {
                const uint32_t high = text.half(from / 4 + k + 1);
#if MILLRACE_GPU
#pragma unroll
#endif
                for (uint32_t b = 0; b < 4; ++b)
                    if (may(pattern::detail::funnel_right(low, high, 8 * b))) those |= 1u << (4 * k + b);
                low = high;
            }
            if (from < first) those &= ~0u << (first - from);
            if (behind - from < kPlaces) those &= (1u << (behind - from)) - 1;
            for (; those != 0; those &= those - 1) {
                const uint32_t i = from + lowest_bit(those) - text.first();
                if (is(i)) return i;
            }
            return kNone;
        });
        if (found != kNone) return found;
    }
    return end;
}

namespace detail {
/// `literal` in lower case where case does not count.
MILLRACE_DEVICE bool equals(const uint8_t* data, const uint8_t* literal, uint32_t bytes, bool nocase) {
    for (uint32_t i = 0; i < bytes; ++i)
        if ((nocase ? to_lower(data[i]) : data[i]) != literal[i]) return false;
    return true;
}

#if !MILLRACE_GPU
/// first_literal by one lane of a CPU: 16 places at once by their first two bytes.
inline uint32_t first_literal(const uint8_t* data, uint32_t bytes, uint32_t begin, uint32_t end, const uint8_t* literal,
                              uint32_t literal_bytes, bool nocase) {
    uint32_t i = begin;
    if (literal_bytes > 1) {
        const __m128i any = _mm_set1_epi8(nocase ? 0x20 : 0);
        const __m128i first = _mm_or_si128(_mm_set1_epi8(static_cast<char>(literal[0])), any);
        const __m128i second = _mm_or_si128(_mm_set1_epi8(static_cast<char>(literal[1])), any);
        const auto has = [&](const uint8_t* at, __m128i wanted) {
            return _mm_cmpeq_epi8(_mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), any), wanted);
        };
        for (; i + 16 <= end && i + 17 <= bytes; i += 16) {
            const __m128i both = _mm_and_si128(has(data + i, first), has(data + i + 1, second));
            auto those = static_cast<uint32_t>(_mm_movemask_epi8(both));
            for (; those != 0; those &= those - 1) {
                const uint32_t at = i + lowest_bit(those);
                if (equals(data + at, literal, literal_bytes, nocase)) return at;
            }
        }
    }
    while (i < end && !equals(data + i, literal, literal_bytes, nocase)) ++i;
    return i;
}
#endif
}  // namespace detail

/// The first i in [begin, end) at which data[0, bytes) has a literal, `end` when there is none; all of them lie within
/// the data. A literal of which upper and lower case are the same is in lower case.
template <class Lanes>
MILLRACE_DEVICE_CALL uint32_t first_literal(Lanes lanes, const uint8_t* data, uint32_t bytes, uint32_t begin,
                                            uint32_t end, const uint8_t* literal, uint32_t literal_bytes, bool nocase) {
#if !MILLRACE_GPU
    if constexpr (Lanes::count == 1)
        return detail::first_literal(data, bytes, begin, end, literal, literal_bytes, nocase);
#endif
    uint32_t window = 0, any = nocase ? 0x20202020u : 0;  // bits that may be as they like
    for (uint32_t k = 0; k < 4; ++k) {
        if (k < literal_bytes) {
            window |= uint32_t{literal[k]} << 8 * k;
        } else {
            any |= 0xffu << 8 * k;
        }
    }
    window |= any;
    return first_window(
        lanes, data, bytes, begin, end, [&](uint32_t has) { return (has | any) == window; },
        [&](uint32_t i) { return detail::equals(data + i, literal, literal_bytes, nocase); });
}

}  // namespace millrace::nf::nids
