// Many-pattern search of a payload, device half: by a filter where the set has one, and the payload not so much that
// looks like patterns that a walk through the automaton takes less; else by that walk. Either way the lanes of a packet
// share the work.
#pragma once

#include "millrace/nf/nids/pattern/filter.hpp"
#include "millrace/nf/nids/pattern/walk.hpp"

namespace millrace::nf::nids::pattern {
/// Calls `f(pattern_id)` for every distinct pattern that occurs in data[0, bytes), upper and lower case
/// of ASCII alike, in ascending order and once each; `f` runs in all lanes with the same id. When `f`
/// returns false the search ends. On a GPU `stage_filter` must have run in the block.
///
/// A payload is searched once unless one lane finds more than `LaneIds::kKept` rare ids; then it is
/// searched again for the ids behind those known to be complete.
template <class Lanes, class F>
MILLRACE_DEVICE void for_each_pattern(const uint8_t* data, uint32_t bytes, const PatternTables& tables, Lanes lanes,
                                      F&& f) {
    if (tables.output_ids.empty() || bytes == 0) return;
    const detail::Text text(data, bytes);
    PerLane<LaneIds, Lanes> found;
    uint32_t from = 0;
    while (true) {
        lanes.for_each(Lanes::count, [&](uint32_t lane) { found.of(lane).clear(from); });
        if (!detail::filters(tables, text) || !detail::filter_text(text, tables, lanes, found))
            detail::walk_text(text, tables, lanes, found);
        if (!lanes.any(Lanes::count, [&](uint32_t lane) { return found.of(lane).any(); })) return;
        const uint32_t complete_to = lanes.minimum(Lanes::count,
                                                   [&](uint32_t lane) { return found.of(lane).complete_to(); });
        while (true) {
            const uint32_t id = lanes.minimum(Lanes::count,
                                              [&](uint32_t lane) { return found.of(lane).at_least(tables, from); });
            if (id == kNoPattern || id > complete_to) break;
            if (!f(id)) return;
            from = id + 1;
        }
        if (complete_to == kNoPattern) return;
        from = complete_to + 1;
    }
}

}  // namespace millrace::nf::nids::pattern
