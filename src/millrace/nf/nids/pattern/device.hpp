// Many-pattern search of a payload, device half: by a filter where the set has one, and the payload not so much that
// looks like patterns that a walk through the automaton takes less; else by that walk. Either way the lanes of a packet
// share the work.
#pragma once

#include "millrace/nf/nids/pattern/filter.hpp"
#include "millrace/nf/nids/pattern/walk.hpp"

namespace millrace::nf::nids::pattern {
/// How a payload is searched: as is best, or by the walk alone, for which nothing need be staged, by less code.
enum class By { filter, walk };

/// Finds every pattern that occurs in data[0, bytes), upper and lower case of ASCII alike, and calls `f(found, most)`
/// in all lanes: `found.of(lane).take(tables, most)` gives what a lane has found, each id once; several lanes may have
/// the same. On a GPU `stage_filter` must have run in the block.
///
/// A payload is searched once unless one lane finds more than `LaneIds::kKept` rare ids; then it is searched again for
/// the ids behind those known to be complete, `most`, and `f` is called again.
template <By kBy = By::filter, class Lanes, class F>
MILLRACE_DEVICE void find_patterns(const uint8_t* data, uint32_t bytes, const PatternTables& tables, Lanes lanes,
                                   F&& f) {
    if (tables.output_ids.empty() || bytes == 0) return;
    const detail::Text text(data, bytes);
    PerLane<LaneIds, Lanes> found;
    uint32_t most = 0;
    for (uint32_t from = 0; from != kNoPattern; from = most == kNoPattern ? kNoPattern : most + 1) {
        lanes.for_each(Lanes::count, [&](uint32_t lane) { found.of(lane).clear(from); });
        if (kBy == By::walk || !detail::filters(tables, text) || !detail::filter_text(text, tables, lanes, found))
            detail::walk_text(text, tables, lanes, found);
        if (!lanes.any(Lanes::count, [&](uint32_t lane) { return found.of(lane).any(); })) return;
        most = lanes.minimum(Lanes::count, [&](uint32_t lane) { return found.of(lane).complete_to(); });
        f(found, most);
    }
}

/// Finds the patterns in data[0, bytes) that begin in [begin, behind), and perhaps some that begin up to seven bytes
/// before or behind that, by one lane and the walk, for which nothing need be staged: calls `f(found, most)` as
/// find_patterns does.
template <class F>
MILLRACE_DEVICE void find_beginning(const uint8_t* data, uint32_t bytes, uint32_t begin, uint32_t behind,
                                    const PatternTables& tables, F&& f) {
    if (tables.output_ids.empty() || begin >= behind) return;
    const detail::Text text(data, bytes);
    const detail::Share share = detail::share_of(text, begin, behind);
    LaneIds found;
    for (uint32_t from = 0, most = 0; from != kNoPattern; from = most == kNoPattern ? kNoPattern : most + 1) {
        found.clear(from);
        detail::walk_alone(text, share, tables, found);
        if (!found.any()) return;
        most = found.complete_to();
        f(found, most);
    }
}
/// Whether find_beginning finds any that begins in data[0, behind).
MILLRACE_DEVICE bool any_begins(const uint8_t* data, uint32_t bytes, uint32_t behind, const PatternTables& tables) {
    if (tables.output_ids.empty() || behind == 0) return false;
    const detail::Text text(data, bytes);
    LaneIds found;
    found.clear(0);
    detail::walk_alone(text, detail::share_of(text, 0, behind), tables, found);
    return found.any();
}

}  // namespace millrace::nf::nids::pattern
