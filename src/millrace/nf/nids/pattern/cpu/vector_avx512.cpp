// Aho and Corasick's automaton for many payloads interleaved: each 32-bit element of a register holds the
// state of one payload, and one gather moves 16 of them on by a byte. A payload that ends makes room for
// the next, every 16 bytes; when there is no next, the rest close ranks in fewer registers. (Gathers over a
// deterministic automaton: Sitaridis, Polychroniou and Ross, "SIMD-accelerated regular expression
// matching", DaMoN 2016.)
#include "millrace/nf/nids/pattern/cpu/vector_avx512.hpp"

// GCC 12 warns of the undefined values that its own intrinsics begin with (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

namespace millrace::nf::nids::pattern::avx512 {
namespace {

constexpr unsigned kBlock = 16;  ///< bytes of each payload between two refills
/// With fewer payloads left than this, ordinary look-ups are faster than gathers.
constexpr unsigned kFewLanes = 4;
alignas(64) constexpr uint8_t kNoText[kBlock] = {};

/// The payloads under way: lanes [0, active). The others stand at kNoText with nothing left.
struct alignas(64) Lanes {
    uint32_t states[kLaneCount] = {};
    uint32_t left[kLaneCount] = {};
    const uint8_t* at[kLaneCount];
    size_t payload[kLaneCount];
    unsigned slot[kLaneCount];

    Lanes() {
        for (unsigned lane = 0; lane < kLaneCount; ++lane) {
            at[lane] = kNoText;
            slot[lane] = lane;
        }
    }
    void start(unsigned lane, const Payload* payloads, size_t which) {
        states[lane] = 0;
        left[lane] = payloads[which].bytes;
        at[lane] = payloads[which].data;
        payload[lane] = which;
    }
    /// Moves what lane `from` does to `to`, whose slot it takes in exchange.
    void move(unsigned from, unsigned to) {
        const unsigned freed = slot[to];
        states[to] = states[from];
        left[to] = left[from];
        at[to] = at[from];
        payload[to] = payload[from];
        slot[to] = slot[from];
        slot[from] = freed;
    }
    void idle(unsigned lane) {
        states[lane] = 0;
        left[lane] = 0;
        at[lane] = kNoText;
    }
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

template <bool Whole>
inline __m128i load_text(const Lanes& lanes, unsigned lane) {
    if constexpr (Whole) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes.at[lane]));
    const uint32_t bytes = lanes.left[lane] < kBlock ? lanes.left[lane] : kBlock;
    return _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << bytes) - 1u), lanes.at[lane]);
}

/// The next 16 bytes of 16 lanes, as classes: element i of columns[d] holds bytes 4d to 4d+3 of lane i.
/// `Whole`: each of the lanes has that many.
template <bool Whole>
inline void load_columns(const Lanes& lanes, unsigned first, const Classes& classes, __m512i* columns) {
    __m512i rows[4];  // rows[r], 128-bit part q: the bytes of lane 4q + r
    for (unsigned r = 0; r < 4; ++r) {
        rows[r] = _mm512_castsi128_si512(load_text<Whole>(lanes, first + r));
        rows[r] = _mm512_inserti32x4(rows[r], load_text<Whole>(lanes, first + 4 + r), 1);
        rows[r] = _mm512_inserti32x4(rows[r], load_text<Whole>(lanes, first + 8 + r), 2);
        rows[r] = _mm512_inserti32x4(rows[r], load_text<Whole>(lanes, first + 12 + r), 3);
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

inline void tell(const Table& table, unsigned slot, uint32_t state, const Sink& sink) {
    const uint32_t match = state - table.first_match;
    if ((sink.known[slot][match / 64] >> (match % 64) & 1) == 0) sink.match(sink.context, slot, state);
}

/// Tells the sink of all match states that 16 lanes went through, bytes behind a payload's end left out.
/// `passed` holds the states after each byte of the block. They are gathered into a list first, as
/// branching on each would be mispredicted half of the time where matches abound.
[[gnu::noinline]] void report(const Table& table, const Lanes& lanes, unsigned first, const __m512i* passed,
                              const Sink& sink) {
    const __m512i first_match = _mm512_set1_epi32(static_cast<int>(table.first_match));
    const __m512i left = _mm512_load_si512(lanes.left + first);
    const __m512i slots = _mm512_loadu_si512(lanes.slot + first);
    uint32_t listed_states[16 * kBlock + 16];
    uint32_t listed_slots[16 * kBlock + 16];
    unsigned count = 0;
    for (unsigned i = 0; i < kBlock; ++i) {
        const __mmask16 inside = _mm512_cmpgt_epu32_mask(left, _mm512_set1_epi32(static_cast<int>(i)));
        const __mmask16 which = _mm512_mask_cmpge_epu32_mask(inside, passed[i], first_match);
        _mm512_storeu_si512(listed_states + count, _mm512_maskz_compress_epi32(which, passed[i]));
        _mm512_storeu_si512(listed_slots + count, _mm512_maskz_compress_epi32(which, slots));
        count += static_cast<unsigned>(__builtin_popcount(which));
    }
    for (unsigned i = 0; i < count; ++i) tell(table, listed_slots[i], listed_states[i], sink);
}

/// Moves 16 lanes past the block; returns those whose payload ended in it.
inline __mmask16 pass_block(Lanes& lanes, unsigned first) {
    const __m512i block = _mm512_set1_epi32(kBlock);
    const __m512i left = _mm512_load_si512(lanes.left + first);
    const __mmask16 more = _mm512_cmpgt_epu32_mask(left, block);
    _mm512_store_si512(lanes.left + first, _mm512_maskz_sub_epi32(more, left, block));
    for (unsigned half = 0; half < 2; ++half) {
        const __m512i at = _mm512_load_si512(lanes.at + first + 8 * half);
        const __mmask8 advances = static_cast<__mmask8>(more >> (8 * half));
        const __m512i next = _mm512_mask_add_epi64(at, advances, at, _mm512_set1_epi64(kBlock));
        _mm512_store_si512(lanes.at + first + 8 * half, next);
    }
    return _mm512_test_epi32_mask(left, left) & static_cast<__mmask16>(~more);
}

/// Takes the first 16 * Groups lanes a block further. `ended[g]` gets the lanes of group g that are done.
template <bool Narrow, unsigned Groups>
[[gnu::noinline]] void advance(const Table& table, const Classes& classes, Lanes& lanes, const Sink& sink,
                               __mmask16* ended) {
    const __m512i stride = _mm512_set1_epi32(static_cast<int>(table.stride));
    const __m512i first_match = _mm512_set1_epi32(static_cast<int>(table.first_match));
    __m512i columns[Groups][4];
    __m512i state[Groups];
    __m512i largest[Groups];
    __m512i passed[Groups][kBlock];
    for (unsigned g = 0; g < Groups; ++g) {
        const __m512i left = _mm512_load_si512(lanes.left + 16 * g);
        if (_mm512_cmplt_epu32_mask(left, _mm512_set1_epi32(kBlock)) == 0) [[likely]] {
            load_columns<true>(lanes, 16 * g, classes, columns[g]);
        } else {
            load_columns<false>(lanes, 16 * g, classes, columns[g]);
        }
        state[g] = _mm512_load_si512(lanes.states + 16 * g);
        largest[g] = _mm512_setzero_si512();
    }
    for (unsigned d = 0; d < 4; ++d) {
        for (unsigned b = 0; b < 4; ++b) {
            for (unsigned g = 0; g < Groups; ++g) {
                const __m512i byte_classes = _mm512_and_si512(columns[g][d], _mm512_set1_epi32(0xff));
                columns[g][d] = _mm512_srli_epi32(columns[g][d], 8);
                state[g] = step<Narrow>(table, state[g], stride, byte_classes);
                largest[g] = _mm512_max_epu32(largest[g], state[g]);
                passed[g][4 * d + b] = state[g];
            }
        }
    }
    for (unsigned g = 0; g < Groups; ++g) {
        _mm512_store_si512(lanes.states + 16 * g, state[g]);
        if (_mm512_cmpge_epu32_mask(largest[g], first_match) != 0) [[unlikely]]
            report(table, lanes, 16 * g, passed[g], sink);
        ended[g] = pass_block(lanes, 16 * g);
    }
}

/// Walks what is left of one lane's payload with ordinary look-ups.
template <bool Narrow>
void finish_alone(const Table& table, const Lanes& lanes, unsigned lane, const Sink& sink) {
    uint32_t state = lanes.states[lane];
    for (uint32_t i = 0; i < lanes.left[lane]; ++i) {
        const size_t index = static_cast<size_t>(state) * table.stride + table.class_of[lanes.at[lane][i]];
        state = Narrow ? table.narrow[index] : table.wide[index];
        if (state >= table.first_match) tell(table, lanes.slot[lane], state, sink);
    }
    sink.finish(sink.context, lanes.slot[lane], lanes.payload[lane]);
}

template <bool Narrow>
void walk_all(const Table& table, const Payload* payloads, size_t count, const Sink& sink) {
    const Classes classes(table.class_of);
    Lanes lanes;
    size_t taken = 0;
    unsigned active = 0;
    const auto take = [&](unsigned lane) {
        while (taken < count && payloads[taken].bytes == 0) ++taken;
        if (taken == count) return false;
        lanes.start(lane, payloads, taken++);
        return true;
    };
    while (active < kLaneCount && take(active)) ++active;
    while (active >= kFewLanes) {
        __mmask16 ended[kLaneCount / 16] = {};
        if (active > 64) {
            advance<Narrow, 8>(table, classes, lanes, sink, ended);
        } else if (active > 32) {
            advance<Narrow, 4>(table, classes, lanes, sink, ended);
        } else if (active > 16) {
            advance<Narrow, 2>(table, classes, lanes, sink, ended);
        } else {
            advance<Narrow, 1>(table, classes, lanes, sink, ended);
        }
        // From the highest lane down: the last active lane, which fills a gap, is never one that has ended.
        for (unsigned g = kLaneCount / 16; g-- > 0;) {
            for (uint32_t which = ended[g]; which != 0;) {
                const unsigned bit = 31u - static_cast<unsigned>(__builtin_clz(which));
                which &= ~(1u << bit);
                const unsigned lane = 16 * g + bit;
                sink.finish(sink.context, lanes.slot[lane], lanes.payload[lane]);
                if (take(lane)) continue;
                --active;
                if (lane != active) lanes.move(active, lane);
                lanes.idle(active);
            }
        }
    }
    for (unsigned lane = 0; lane < active; ++lane) finish_alone<Narrow>(table, lanes, lane, sink);
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
