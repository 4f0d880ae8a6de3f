#include "millrace/exec/offload/place_avx512.hpp"

#include <immintrin.h>

namespace millrace::exec::avx512 {

namespace {

constexpr uint32_t kAtOnce = 16, kAlign = 8, kDescriptorBytes = 12;

/// The words of sixteen descriptors, offset, lengths and port one behind the other: which of the first two they take,
/// and then which of these or the third (16 and up).
struct Weaving {
    uint32_t two[3][kAtOnce], three[3][kAtOnce];
};
constexpr Weaving weaving() {
    Weaving result{};
    for (uint32_t word = 0; word < 3 * kAtOnce; ++word) {
        const uint32_t part = word / kAtOnce, place = word % kAtOnce, frame = word / 3, of = word % 3;
        result.two[part][place] = frame + (of == 1 ? kAtOnce : 0);
        result.three[part][place] = of == 2 ? kAtOnce + frame : place;
    }
    return result;
}
constexpr Weaving kWeaving = weaving();

/// Each word's sum with those before it.
__m512i sums(__m512i words) {
    const __m512i zero = _mm512_setzero_si512();
    words = _mm512_add_epi32(words, _mm512_alignr_epi32(words, zero, 15));
    words = _mm512_add_epi32(words, _mm512_alignr_epi32(words, zero, 14));
    words = _mm512_add_epi32(words, _mm512_alignr_epi32(words, zero, 12));
    return _mm512_add_epi32(words, _mm512_alignr_epi32(words, zero, 8));
}

}  // namespace

uint32_t place(Placing& placing, uint8_t* descriptors) {
    const __m512i around = _mm512_set1_epi32(static_cast<int>(placing.around + kAlign - 1)),
                  aligned = _mm512_set1_epi32(-static_cast<int>(kAlign)), low = _mm512_set1_epi32(0xffff),
                  usual = _mm512_set1_epi32(static_cast<int>(placing.usual)),
                  pitch = _mm512_set1_epi64(static_cast<int64_t>(placing.pitch)), last_word = _mm512_set1_epi32(15);
    __m512i two[3], three[3];
    for (uint32_t part = 0; part < 3; ++part) {
        two[part] = _mm512_loadu_si512(kWeaving.two[part]);
        three[part] = _mm512_loadu_si512(kWeaving.three[part]);
    }
    __m512i bytes = _mm512_set1_epi32(static_cast<int>(placing.bytes)), crossing = _mm512_setzero_si512(),
            widest = crossing, differ = crossing;
    __m512i before = _mm512_set1_epi64(static_cast<int64_t>(placing.expected - placing.pitch));
    uint64_t breaks = 0;
    uint32_t n = 0;
    for (; n + kAtOnce <= placing.count; n += kAtOnce) {
        const __m512i shapes = _mm512_loadu_si512(placing.shapes + n), lengths = _mm512_and_si512(shapes, low),
                      rooms = _mm512_and_si512(_mm512_add_epi32(lengths, around), aligned),
                      ends = _mm512_add_epi32(bytes, sums(rooms)), behind = _mm512_permutexvar_epi32(last_word, ends);
        if (static_cast<uint32_t>(_mm512_cvtsi512_si32(behind)) > placing.most_bytes) break;
        const __m512i offsets = _mm512_sub_epi32(ends, rooms),
                      both = _mm512_or_si512(lengths, _mm512_slli_epi32(lengths, 16)),
                      ports = _mm512_srli_epi32(shapes, 16);
        for (uint32_t part = 0; part < 3; ++part)
            _mm512_storeu_si512(
                descriptors + n * kDescriptorBytes + part * 64,
                _mm512_permutex2var_epi32(_mm512_permutex2var_epi32(offsets, two[part], both), three[part], ports));
        const __m512i first = _mm512_loadu_si512(placing.addresses + n),
                      second = _mm512_loadu_si512(placing.addresses + n + 8);
        const __mmask8 broken_first = _mm512_cmpneq_epi64_mask(
                           _mm512_sub_epi64(first, _mm512_alignr_epi64(first, before, 7)), pitch),
                       broken_second = _mm512_cmpneq_epi64_mask(
                           _mm512_sub_epi64(second, _mm512_alignr_epi64(second, first, 7)), pitch);
        breaks += static_cast<uint64_t>(__builtin_popcount(broken_first | uint32_t{broken_second} << 8));
        before = second;
        bytes = behind;
        crossing = _mm512_add_epi32(crossing, lengths);
        widest = _mm512_max_epu32(widest, lengths);
        differ = _mm512_or_si512(differ, _mm512_xor_si512(rooms, usual));
    }
    placing.bytes = static_cast<uint32_t>(_mm512_cvtsi512_si32(bytes));
    placing.crossing += static_cast<uint32_t>(_mm512_reduce_add_epi32(crossing));
    const auto width = static_cast<uint32_t>(_mm512_reduce_max_epu32(widest));
    if (width > placing.widest) placing.widest = width;
    placing.differ |= static_cast<uint32_t>(_mm512_reduce_or_epi32(differ));
    placing.breaks += breaks;
    return n;
}

}  // namespace millrace::exec::avx512
