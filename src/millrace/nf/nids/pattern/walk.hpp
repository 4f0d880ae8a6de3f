// The walk through the full deterministic automaton of Aho and Corasick ("Efficient string matching", CACM 1975,
// section 6), by the lanes of a packet concurrently.
//
// Each lane walks its share of the payload's words from the root state. Behind the end of its share it goes on
// only while the state's depth still reaches back into the share: the state is the longest pattern
// prefix that ends here, so once it begins behind the share's end, no occurrence that begins in the share
// is left. Every occurrence is thus seen by the lane in whose share it begins, however long it is.
#pragma once

#include "millrace/nf/nids/pattern/lane_ids.hpp"
#include "millrace/nf/nids/pattern/text.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::nf::nids::pattern::detail {

/// Finds what begins in a share of the text; reads on behind it where that is needed.
template <class Entry>
MILLRACE_DEVICE void walk_share(const Text& text, const Share& share, const PatternTables& tables, const Entry* next,
                                LaneIds& found) {
    const uint8_t* class_of = tables.class_of.data();
    const uint32_t stride = tables.stride;
    const uint32_t first_match = tables.first_match;
    const auto step = [&](uint32_t from, uint64_t word, uint32_t k) -> uint32_t {
        return next[from * stride + class_of[word >> (8 * k) & 0xff]];
    };
    const uint32_t words = text.words(), begin = share.begin, end = share.end;
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

MILLRACE_DEVICE void walk_share(const Text& text, const Share& share, const PatternTables& tables, LaneIds& found) {
    if (tables.wide.empty()) {
        walk_share(text, share, tables, tables.narrow.data(), found);
    } else {
        walk_share(text, share, tables, tables.wide.data(), found);
    }
}

/// The same for who looks at little, or seldom: less code.
MILLRACE_DEVICE_CALL void walk_alone(const Text& text, const Share& share, const PatternTables& tables,
                                     LaneIds& found) {
    walk_share(text, share, tables, found);
}

/// Finds what begins in a text.
template <class Lanes>
MILLRACE_DEVICE void walk_text(const Text& text, const PatternTables& tables, Lanes lanes,
                               PerLane<LaneIds, Lanes>& found) {
    lanes.for_each(Lanes::count,
                   [&](uint32_t lane) { walk_share(text, Share(text, lane, Lanes::count), tables, found.of(lane)); });
}

/// The words of a text that have data[begin, behind).
MILLRACE_DEVICE Share share_of(const Text& text, uint32_t begin, uint32_t behind) {
    Share share(text, 0, 1);
    share.begin = (text.first() + begin) / 8;
    share.end = smaller((text.first() + behind + 7) / 8, text.words());
    return share;
}

}  // namespace millrace::nf::nids::pattern::detail
