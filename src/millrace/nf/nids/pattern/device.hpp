// Many-pattern search of a payload, device half: the full deterministic automaton of Aho and Corasick
// ("Efficient string matching", CACM 1975, section 6), walked by the lanes of a packet side by side.
//
// Each lane walks an equal chunk of the payload from the root state. Behind the end of its chunk it goes on
// only while the state's depth still reaches back into the chunk: the state is the longest pattern
// prefix that ends here, so once it begins behind the chunk's end, no occurrence that begins in the chunk
// is left. Every occurrence is thus seen by the lane in whose chunk it begins, however long it is.
#pragma once

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::nids::pattern {

inline constexpr uint32_t kNoPattern = 0xffffffffu;
/// As many ids as bits of `Match::common`.
inline constexpr uint32_t kCommonIds = 64;

/// What a state in which patterns end stands for. The shortest patterns of a set are found all the time
/// in ordinary traffic: their ids, up to kCommonIds, are its common ones, and a lane notes them as bits.
struct Match {
    uint64_t common;     ///< bit i: common_ids[i] ends here, as the state's own or as a suffix
    uint32_t rare;       ///< the match, this or a suffix of it, that has the next rare ids; or kNoPattern
    uint32_t rare_link;  ///< the same for its proper suffixes alone
};

/// The automaton of a `PatternSet` as device code sees it. States from `first_match` on are those in
/// which at least one pattern ends; "match" below means such a state's number less `first_match`.
struct PatternTables {
    View<uint8_t> class_of;       ///< by byte: its equivalence class, upper and lower case alike
    View<uint16_t> narrow;        ///< [state * stride + class] -> state; empty when states need 32 bits
    View<uint32_t> wide;          ///< the same with 32 bits; empty when 16 do
    View<uint32_t> depth;         ///< by state: length of the pattern prefix that it stands for
    View<Match> matches;          ///< by match
    View<uint32_t> output_begin;  ///< by match, and one more: where its own patterns begin in output_ids
    View<uint32_t> output_ids;
    View<uint32_t> common_ids;    ///< ascending; none is in the outputs of a match that `rare` names
    uint32_t stride = 0;
    uint32_t first_match = 0;
};

/// The distinct ids, at least `from`, that one lane has found so far: all common ones, and the smallest
/// rare ones.
class LaneIds {
public:
    /// Enough that hardly any packet needs a second pass, few enough for registers.
    static constexpr uint32_t kKept = 8;

    MILLRACE_DEVICE void clear(uint32_t from) {
        for (uint32_t k = 0; k < kKept; ++k) rare_[k] = kNoPattern;
        common_ = 0;
        from_ = from;
        last_match_ = kNoPattern;
        overflowed_ = false;
    }
    /// Notes the patterns of a match.
    MILLRACE_DEVICE void note(const PatternTables& tables, uint32_t match) {
        const uint64_t common = tables.matches[match].common;
        uint32_t rare = tables.matches[match].rare;
        common_ |= common;
        if (rare == kNoPattern || rare == last_match_) return;
        last_match_ = rare;
        for (; rare != kNoPattern; rare = tables.matches[rare].rare_link)
            for (uint32_t i = tables.output_begin[rare]; i < tables.output_begin[rare + 1]; ++i)
                insert(tables.output_ids[i]);
    }
    /// The smallest noted id that is at least `from`, or kNoPattern. Calls must not go back.
    MILLRACE_DEVICE uint32_t at_least(const PatternTables& tables, uint32_t from) {
        uint32_t best = kNoPattern;
        while (common_ != 0 && best == kNoPattern) {
            const uint32_t id = tables.common_ids[lowest_bit(common_)];
            if (id >= from) {
                best = id;
            } else {
                common_ &= common_ - 1;
            }
        }
        for (uint32_t k = 0; k < kKept; ++k)
            if (rare_[k] >= from) best = smaller(best, rare_[k]);
        return best;
    }
    /// No id up to this one was dropped for want of room.
    MILLRACE_DEVICE uint32_t complete_to() const { return overflowed_ ? rare_[kKept - 1] : kNoPattern; }

private:
    MILLRACE_DEVICE static uint32_t lowest_bit(uint64_t bits) {
#if MILLRACE_GPU
        return static_cast<uint32_t>(__ffsll(static_cast<long long>(bits))) - 1;
#else
        return static_cast<uint32_t>(__builtin_ctzll(bits));
#endif
    }
    MILLRACE_DEVICE void insert(uint32_t id) {
        if (id < from_) return;
        for (uint32_t k = 0; k < kKept; ++k) {
            const uint32_t kept = rare_[k];
            if (id == kept) return;
            if (id < kept) {
                rare_[k] = id;
                id = kept;
            }
        }
        overflowed_ = overflowed_ || id != kNoPattern;
    }

    uint32_t rare_[kKept];
    uint64_t common_;
    uint32_t from_;
    uint32_t last_match_;
    bool overflowed_;
};

namespace detail {

/// Eight bytes at an address that is a multiple of eight, the first in the lowest bits.
MILLRACE_DEVICE uint64_t load_word(const uint8_t* p) {
#if MILLRACE_GPU
    return *reinterpret_cast<const uint64_t*>(p);
#else
    uint64_t word;
    __builtin_memcpy(&word, p, sizeof word);
    return word;
#endif
}

/// Finds what begins in data[begin, end); reads on up to data[bytes) where that is needed.
template <class Entry>
MILLRACE_DEVICE void scan_chunk(const uint8_t* data, uint32_t begin, uint32_t end, uint32_t bytes,
                                const PatternTables& tables, const Entry* next, LaneIds& found) {
    const uint8_t* class_of = tables.class_of.data();
    const uint32_t stride = tables.stride;
    const uint32_t first_match = tables.first_match;
    uint32_t state = 0;
    uint32_t at = begin;
    const auto step = [&](uint32_t from, uint32_t byte) -> uint32_t { return next[from * stride + class_of[byte]]; };
    const auto step_one = [&] {
        state = step(state, data[at++]);
        if (state >= first_match) found.note(tables, state - first_match);
    };
    while (at < end && (reinterpret_cast<uintptr_t>(data + at) & 7) != 0) step_one();
    for (; end - at >= 8; at += 8) {
        const uint64_t word = load_word(data + at);
        for (uint32_t half = 0; half < 2; ++half) {
            const uint32_t text = static_cast<uint32_t>(word >> (32 * half));
            const uint32_t first = step(state, text & 0xff);
            const uint32_t second = step(first, (text >> 8) & 0xff);
            const uint32_t third = step(second, (text >> 16) & 0xff);
            state = step(third, text >> 24);
            if (larger(larger(first, second), larger(third, state)) < first_match) continue;
            for (uint32_t k = 0; k < 4; ++k) {
                const uint32_t passed = k == 0 ? first : k == 1 ? second : k == 2 ? third : state;
                if (passed >= first_match) found.note(tables, passed - first_match);
            }
        }
    }
    while (at < end) step_one();
    while (at < bytes && tables.depth[state] > at - end) step_one();
}

}  // namespace detail

/// Calls `f(pattern_id)` for every distinct pattern that occurs in data[0, bytes), upper and lower case
/// of ASCII alike, in ascending order and once each; `f` runs in all lanes with the same id. When `f`
/// returns false the search ends.
///
/// A payload is walked once unless one lane finds more than `LaneIds::kKept` rare ids; then it is
/// walked again for the ids behind those known to be complete.
template <class Lanes, class F>
MILLRACE_DEVICE void for_each_pattern(const uint8_t* data, uint32_t bytes, const PatternTables& tables, Lanes lanes,
                                      F&& f) {
    if (tables.output_ids.empty() || bytes == 0) return;
    const uint32_t chunk = (bytes + Lanes::count - 1) / Lanes::count;
    PerLane<LaneIds, Lanes> found;
    uint32_t from = 0;
    while (true) {
        lanes.for_each(Lanes::count, [&](uint32_t lane) {
            LaneIds& mine = found.of(lane);
            mine.clear(from);
            const uint32_t begin = smaller(lane * chunk, bytes);
            const uint32_t end = smaller(begin + chunk, bytes);
            if (begin == end) return;
            if (tables.wide.empty()) {
                detail::scan_chunk(data, begin, end, bytes, tables, tables.narrow.data(), mine);
            } else {
                detail::scan_chunk(data, begin, end, bytes, tables, tables.wide.data(), mine);
            }
        });
        const uint32_t complete_to =
            lanes.minimum(Lanes::count, [&](uint32_t lane) { return found.of(lane).complete_to(); });
        while (true) {
            const uint32_t id =
                lanes.minimum(Lanes::count, [&](uint32_t lane) { return found.of(lane).at_least(tables, from); });
            if (id == kNoPattern || id > complete_to) break;
            if (!f(id)) return;
            from = id + 1;
        }
        if (complete_to == kNoPattern) return;
        from = complete_to + 1;
    }
}

}  // namespace millrace::nf::nids::pattern
