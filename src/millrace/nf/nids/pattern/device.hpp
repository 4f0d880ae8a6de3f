// Many-pattern search of a payload, device half: the full deterministic automaton of Aho and Corasick
// ("Efficient string matching", CACM 1975, section 6), walked by the lanes of a packet side by side.
//
// Each lane walks an equal share of the payload's words from the root state. Behind the end of its share it goes on
// only while the state's depth still reaches back into the share: the state is the longest pattern
// prefix that ends here, so once it begins behind the share's end, no occurrence that begins in the share
// is left. Every occurrence is thus seen by the lane in whose share it begins, however long it is.
//
// A warp waits for whichever of its lanes waits for memory. So what can wait does: a lane remembers the matches that it
// passes, and looks up what they stand for when its walk is over.
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
    uint64_t common = 0;               ///< bit i: common_ids[i] ends here, as the state's own or as a suffix
    uint32_t rare = kNoPattern;        ///< the match, this or a suffix of it, that has the next rare ids; or kNoPattern
    uint32_t rare_link = kNoPattern;   ///< the same for its proper suffixes alone
    uint32_t only_rare = kNoPattern;   ///< the rare id, where there is one and no more
    uint32_t reserved = 0;
};
static_assert(sizeof(Match) == 24);

/// The lowest states that stand for prefixes of at least so many bytes: of those in which no pattern ends, and of the others.
struct Level {
    uint32_t plain, match;
};

/// The automaton of a `PatternSet` as device code sees it. States from `first_match` on are those in
/// which at least one pattern ends; "match" below means such a state's number less `first_match`.
struct PatternTables {
    View<uint8_t> class_of;       ///< by byte: its equivalence class, upper and lower case alike
    View<uint16_t> narrow;        ///< [state * stride + class] -> state; empty when states need 32 bits
    View<uint32_t> wide;          ///< the same with 32 bits; empty when 16 do
    View<Level> levels;           ///< by bytes of a prefix, from 0 to one more than any state stands for
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
        for (uint32_t k = 0; k < kPassed; ++k) passed_[k] = kNoPattern;
        common_ = 0;
        from_ = from;
        overflowed_ = false;
    }
    /// Remembers a match.
    MILLRACE_DEVICE void pass(const PatternTables& tables, uint32_t match) {
        for (uint32_t k = 0; k < kPassed; ++k)
            if (match == passed_[k]) return;
        if (passed_[kPassed - 1] != kNoPattern) note(tables, passed_[kPassed - 1]);
        for (uint32_t k = kPassed - 1; k > 0; --k) passed_[k] = passed_[k - 1];
        passed_[0] = match;
    }
    /// Notes the patterns of all matches that were passed.
    MILLRACE_DEVICE void settle(const PatternTables& tables) {
        while (passed_[0] != kNoPattern) {
            note(tables, passed_[0]);
            for (uint32_t k = 0; k + 1 < kPassed; ++k) passed_[k] = passed_[k + 1];
            passed_[kPassed - 1] = kNoPattern;
        }
    }
    MILLRACE_DEVICE bool any() const { return common_ != 0 || rare_[0] != kNoPattern; }
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
    /// So many that hardly any walk has to stop for looking one up.
    static constexpr uint32_t kPassed = 4;

    MILLRACE_DEVICE void note(const PatternTables& tables, uint32_t match) {
        const Match found = tables.matches[match];
        common_ |= found.common;
        if (found.rare == kNoPattern) return;
        if (found.only_rare != kNoPattern) {
            insert(found.only_rare);
            return;
        }
        for (uint32_t rare = found.rare; rare != kNoPattern; rare = tables.matches[rare].rare_link)
            for (uint32_t i = tables.output_begin[rare]; i < tables.output_begin[rare + 1]; ++i)
                insert(tables.output_ids[i]);
    }
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

    uint32_t rare_[kKept];      // ascending
    uint32_t passed_[kPassed];  // the latest first
    uint64_t common_;
    uint32_t from_;
    bool overflowed_;
};

namespace detail {

/// A payload as words of eight bytes from the last multiple of eight at or before its first byte on: places are counted from there.
class Text {
public:
    MILLRACE_DEVICE Text(const uint8_t* data, uint32_t bytes)
        : first_(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data) & 7)), behind_(first_ + bytes), start_(data - first_) {}
    MILLRACE_DEVICE uint32_t words() const { return (behind_ + 7) / 8; }
    MILLRACE_DEVICE bool has(uint32_t place) const { return place >= first_ && place < behind_; }
    /// Word `w`, its first byte in the lowest bits. Bytes around the payload may be anything: a GPU reads them with the others.
    MILLRACE_DEVICE uint64_t word(uint32_t w) const {
#if MILLRACE_GPU
        return reinterpret_cast<const uint64_t*>(start_)[w];
#else
        uint64_t word = 0;
        for (uint32_t k = 0; k < 8; ++k) word |= static_cast<uint64_t>(has(8 * w + k) ? start_[8 * w + k] : 'a') << (8 * k);
        return word;
#endif
    }

private:
    uint32_t first_, behind_;
    const uint8_t* start_;
};

/// Finds what begins in share `lane` of `lanes` of the text; reads on behind it where that is needed.
template <class Entry>
MILLRACE_DEVICE void scan_share(const Text& text, uint32_t lane, uint32_t lanes, const PatternTables& tables, const Entry* next, LaneIds& found) {
    const uint8_t* class_of = tables.class_of.data();
    const uint32_t stride = tables.stride;
    const uint32_t first_match = tables.first_match;
    const auto step = [&](uint32_t from, uint64_t word, uint32_t k) -> uint32_t { return next[from * stride + class_of[word >> (8 * k) & 0xff]]; };
    const uint32_t words = text.words(), share = (words + lanes - 1) / lanes;
    const uint32_t begin = smaller(lane * share, words), end = smaller(begin + share, words);
    if (begin == end) return;
    uint32_t state = 0;
    uint64_t ahead = text.word(begin);
    const auto take_word = [&](uint32_t w) {
        const uint64_t word = ahead;
        if (w + 1 < words) ahead = text.word(w + 1);
        return word;
    };
    for (uint32_t w = begin; w < end; ++w) {
        const uint64_t word = take_word(w);
        const uint32_t before = state;
        uint32_t highest = 0;
#if MILLRACE_GPU
#pragma unroll
#endif
        for (uint32_t k = 0; k < 8; ++k) {
            const uint32_t after = step(state, word, k);
            if (text.has(8 * w + k)) state = after;
            highest = larger(highest, state);
        }
        if (highest < first_match) continue;
        // Once more, to see which: that is rare, and its rows have just been read.
        uint32_t passed = before;
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (uint32_t k = 0; k < 8; ++k) {
            if (!text.has(8 * w + k)) continue;
            passed = step(passed, word, k);
            if (passed >= first_match) found.pass(tables, passed - first_match);
        }
    }
    bool reaches_back = true;
    for (uint32_t w = end; reaches_back && w < words; ++w) {
        const uint64_t word = take_word(w);
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (uint32_t k = 0; k < 8; ++k) {
            const uint32_t deep = 8 * (w - end) + k + 1;
            reaches_back = text.has(8 * w + k) && deep < tables.levels.size() &&
                           state >= (state < first_match ? tables.levels[deep].plain : tables.levels[deep].match);
            if (!reaches_back) break;
            state = step(state, word, k);
            if (state >= first_match) found.pass(tables, state - first_match);
        }
    }
    found.settle(tables);
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
    const detail::Text text(data, bytes);
    PerLane<LaneIds, Lanes> found;
    uint32_t from = 0;
    while (true) {
        lanes.for_each(Lanes::count, [&](uint32_t lane) {
            LaneIds& mine = found.of(lane);
            mine.clear(from);
            if (tables.wide.empty()) {
                detail::scan_share(text, lane, Lanes::count, tables, tables.narrow.data(), mine);
            } else {
                detail::scan_share(text, lane, Lanes::count, tables, tables.wide.data(), mine);
            }
        });
        if (!lanes.any(Lanes::count, [&](uint32_t lane) { return found.of(lane).any(); })) return;
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
