// Aho and Corasick's automaton for many payloads side by side: each 32-bit element of a register holds the
// state of one payload, and one gather moves 16 of them on by a byte. A payload that ends makes room for
// the next, every 16 bytes. (Gathers over a deterministic automaton: Sitaridis, Polychroniou and Ross,
// "SIMD-accelerated regular expression matching", DaMoN 2016.)
#include "millrace/nf/nids/pattern/vector_avx512.hpp"

// GCC 12 warns of the undefined values that its own intrinsics begin with (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace millrace::nf::nids::pattern::avx512 {
namespace {

constexpr unsigned kBlock = 16;  ///< bytes of each payload between two refills

/// The payloads under way. A lane without one has `left` 0.
struct alignas(64) LaneState {
    uint32_t states[kLaneCount];
    const uint8_t* at[kLaneCount];
    uint32_t left[kLaneCount];
    size_t payload[kLaneCount];
};

/// Byte to class for 64 bytes at once; the 256 entries lie in four registers.
struct Classes {
    __m512i quarter[4];
    explicit Classes(const uint8_t* class_of) {
        for (int i = 0; i < 4; ++i) quarter[i] = _mm512_loadu_si512(class_of + 64 * i);
    }
    __m512i operator()(__m512i bytes) const {
        const __m512i low = _mm512_permutex2var_epi8(quarter[0], bytes, quarter[1]);
        const __m512i high = _mm512_permutex2var_epi8(quarter[2], bytes, quarter[3]);
        return _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high);
    }
};

inline __m128i load_text(const LaneState& lanes, unsigned lane) {
    const uint32_t left = lanes.left[lane];
    if (left >= kBlock) [[likely]]
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes.at[lane]));
    return _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << left) - 1u), lanes.at[lane]);
}

/// The next 16 bytes of 16 payloads, as classes: element i of columns[d] holds bytes 4d to 4d+3 of lane i.
inline void load_columns(const LaneState& lanes, unsigned first, const Classes& classes, __m512i columns[4]) {
    __m512i rows[4];  // rows[r], 128-bit part q: the bytes of lane 4q + r
    for (unsigned r = 0; r < 4; ++r) {
        rows[r] = _mm512_castsi128_si512(load_text(lanes, first + r));
        rows[r] = _mm512_inserti32x4(rows[r], load_text(lanes, first + 4 + r), 1);
        rows[r] = _mm512_inserti32x4(rows[r], load_text(lanes, first + 8 + r), 2);
        rows[r] = _mm512_inserti32x4(rows[r], load_text(lanes, first + 12 + r), 3);
        rows[r] = classes(rows[r]);
    }
    const __m512i low01 = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const __m512i high01 = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const __m512i high23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
    columns[0] = _mm512_unpacklo_epi64(low01, low23);
    columns[1] = _mm512_unpackhi_epi64(low01, low23);
    columns[2] = _mm512_unpacklo_epi64(high01, high23);
    columns[3] = _mm512_unpackhi_epi64(high01, high23);
}

template <bool Narrow>
inline __m512i step(const Table& table, __m512i state, __m512i stride, __m512i classes) {
    const __m512i index = _mm512_add_epi32(_mm512_mullo_epi32(state, stride), classes);
    if constexpr (Narrow) {
        return _mm512_and_si512(_mm512_i32gather_epi32(index, table.narrow, 2), _mm512_set1_epi32(0xffff));
    } else {
        return _mm512_i32gather_epi32(index, table.wide, 4);
    }
}

/// Tells the sink of all match states that the lanes in `which` went through, bytes behind a payload's
/// end left out.
[[gnu::noinline]] void report(const Table& table, const LaneState& lanes, unsigned first, uint32_t which,
                              const __m512i* passed, const Sink& sink) {
    for (; which != 0; which &= which - 1) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(which));
        const uint32_t bytes = lanes.left[first + lane] < kBlock ? lanes.left[first + lane] : kBlock;
        for (uint32_t i = 0; i < bytes; ++i) {
            const uint32_t state = reinterpret_cast<const uint32_t*>(passed + i)[lane];
            if (state >= table.first_match) sink.match(sink.context, first + lane, state);
        }
    }
}

template <bool Narrow>
void advance_block(const Table& table, const Classes& classes, LaneState& lanes, const Sink& sink) {
    const __m512i stride = _mm512_set1_epi32(static_cast<int>(table.stride));
    __m512i columns[kGroups][4];
    __m512i state[kGroups];
    __m512i largest[kGroups];
    __m512i passed[kGroups][kBlock];
    for (unsigned g = 0; g < kGroups; ++g) {
        load_columns(lanes, 16 * g, classes, columns[g]);
        state[g] = _mm512_load_si512(lanes.states + 16 * g);
        largest[g] = _mm512_setzero_si512();
    }
    for (unsigned d = 0; d < 4; ++d) {
        for (unsigned b = 0; b < 4; ++b) {
            for (unsigned g = 0; g < kGroups; ++g) {
                const __m512i byte_classes = _mm512_and_si512(columns[g][d], _mm512_set1_epi32(0xff));
                columns[g][d] = _mm512_srli_epi32(columns[g][d], 8);
                state[g] = step<Narrow>(table, state[g], stride, byte_classes);
                largest[g] = _mm512_max_epu32(largest[g], state[g]);
                passed[g][4 * d + b] = state[g];
            }
        }
    }
    for (unsigned g = 0; g < kGroups; ++g) {
        _mm512_store_si512(lanes.states + 16 * g, state[g]);
        const uint32_t hit = _mm512_cmpge_epu32_mask(largest[g], _mm512_set1_epi32(static_cast<int>(table.first_match)));
        if (hit != 0) [[unlikely]] report(table, lanes, 16 * g, hit, passed[g], sink);
    }
}

template <bool Narrow>
void walk_all(const Table& table, const Payload* payloads, size_t count, const Sink& sink) {
    const Classes classes(table.class_of);
    LaneState lanes{};
    size_t taken = 0;
    unsigned active = 0;
    const auto refill = [&](unsigned lane) {
        while (taken < count && payloads[taken].bytes == 0) ++taken;
        lanes.states[lane] = 0;
        lanes.left[lane] = 0;
        if (taken == count) return false;
        lanes.at[lane] = payloads[taken].data;
        lanes.left[lane] = payloads[taken].bytes;
        lanes.payload[lane] = taken++;
        return true;
    };
    for (unsigned lane = 0; lane < kLaneCount; ++lane) active += refill(lane);
    while (active > 0) {
        advance_block<Narrow>(table, classes, lanes, sink);
        for (unsigned lane = 0; lane < kLaneCount; ++lane) {
            if (lanes.left[lane] > kBlock) [[likely]] {
                lanes.left[lane] -= kBlock;
                lanes.at[lane] += kBlock;
            } else if (lanes.left[lane] != 0) {
                sink.finish(sink.context, lane, lanes.payload[lane]);
                active -= !refill(lane);
            } else {
                lanes.states[lane] = 0;
            }
        }
    }
}

}  // namespace

void walk(const Table& table, const Payload* payloads, size_t count, const Sink& sink) {
    if (table.narrow != nullptr) {
        walk_all<true>(table, payloads, count, sink);
    } else {
        walk_all<false>(table, payloads, count, sink);
    }
}

}  // namespace millrace::nf::nids::pattern::avx512
