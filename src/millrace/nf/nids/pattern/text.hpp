// A payload as the lanes of a device read it.
#pragma once

#include "millrace/packet/bits.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::nf::nids::pattern::detail {

/// The lower half of high:low shifted to the right by `shift` modulo 32.
MILLRACE_DEVICE uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift) {
#if MILLRACE_GPU
    return __funnelshift_r(low, high, shift);
#else
    return static_cast<uint32_t>(((static_cast<uint64_t>(high) << 32) | low) >> (shift & 31));
#endif
}

/// A payload as words of eight bytes from the last multiple of eight at or before its first byte on: places are counted
/// from there.
class Text {
public:
    MILLRACE_DEVICE Text(const uint8_t* data, uint32_t bytes)
        : first_(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data) & 7)), behind_(first_ + bytes),
          start_(data - first_) {}
    MILLRACE_DEVICE uint32_t words() const { return (behind_ + 7) / 8; }
    /// The payload's first place, and the one behind its last.
    MILLRACE_DEVICE uint32_t first() const { return first_; }
    MILLRACE_DEVICE uint32_t behind() const { return behind_; }
    MILLRACE_DEVICE bool has(uint32_t place) const { return place >= first_ && place < behind_; }
    /// Word `w`, its first byte in the lowest bits. Bytes around the payload may be anything: a GPU reads them with the
    /// others.
    MILLRACE_DEVICE uint64_t word(uint32_t w) const {
#if MILLRACE_GPU
        return reinterpret_cast<const uint64_t*>(start_)[w];
#else
        if (8 * w >= first_ && 8 * w + 8 <= behind_) return load_raw<uint64_t>(start_ + 8 * w);
        uint64_t word = 0;
        for (uint32_t k = 0; k < 8; ++k)
            word |= static_cast<uint64_t>(has(8 * w + k) ? start_[8 * w + k] : 'a') << (8 * k);
        return word;
#endif
    }

    /// The twelve bytes from `place` on, which the payload has, as words whose first byte is in the lowest bits.
    MILLRACE_DEVICE void twelve(uint32_t place, uint32_t (&words)[3]) const {
        const uint32_t at = place / 4, shift = 8 * (place % 4);
        uint32_t low = half(at);
#if MILLRACE_GPU
#pragma unroll
#endif
        for (uint32_t k = 0; k < 3; ++k) {
            const uint32_t high = half(at + k + 1);
            words[k] = funnel_right(low, high, shift);
            low = high;
        }
    }

    /// Half of a word, its first byte in the lowest bits; 0 behind the last one.
    MILLRACE_DEVICE uint32_t half(uint32_t h) const {
        if (h >= 2 * words()) return 0;
#if MILLRACE_GPU
        return reinterpret_cast<const uint32_t*>(start_)[h];
#else
        return static_cast<uint32_t>(word(h / 2) >> (32 * (h % 2)));
#endif
    }

private:
    uint32_t first_, behind_;
    const uint8_t* start_;
};

/// The words that are a lane's: equal shares of the text, but for the last ones.
struct Share {
    MILLRACE_DEVICE Share(const Text& text, uint32_t lane, uint32_t lanes) {
        const uint32_t each = words(text, lanes);
        begin = smaller(lane * each, text.words());
        end = smaller(begin + each, text.words());
    }
    /// Of each lane but the last ones.
    MILLRACE_DEVICE static uint32_t words(const Text& text, uint32_t lanes) {
        return (text.words() + lanes - 1) / lanes;
    }
    uint32_t begin, end;
};

}  // namespace millrace::nf::nids::pattern::detail
