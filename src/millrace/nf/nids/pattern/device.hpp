// Many-pattern search of a payload, device half: by a filter where the set has one, and the payload not so much that
// looks like patterns that a walk through the automaton takes less; else by that walk. Either way the lanes of a packet
// share the work.
#pragma once

#include "millrace/nf/nids/pattern/filter.hpp"
#include "millrace/nf/nids/pattern/walk.hpp"

namespace millrace::nf::nids::pattern {
/// Finds every pattern that occurs in data[0, bytes), upper and lower case of ASCII alike, and calls `f(found, most)`
/// in all lanes: `found.of(lane).take(tables, most)` gives what a lane has found, each id once; several lanes may have
/// the same. On a GPU `stage_filter` must have run in the block.
///
/// A payload is searched once unless one lane finds more than `LaneIds::kKept` rare ids; then it is searched again for
/// the ids behind those known to be complete, `most`, and `f` is called again.
///
/// Without `kStaged` nothing has been staged, and the walk alone searches.
template <bool kStaged = true, class Lanes, class F>
MILLRACE_DEVICE void find_patterns(const uint8_t* data, uint32_t bytes, const PatternTables& tables, Lanes lanes,
                                   F&& f) {
    if (tables.output_ids.empty() || bytes == 0) return;
    const detail::Text text(data, bytes);
    PerLane<LaneIds, Lanes> found;
    uint32_t most = 0;
    for (uint32_t from = 0; from != kNoPattern; from = most == kNoPattern ? kNoPattern : most + 1) {
        lanes.for_each(Lanes::count, [&](uint32_t lane) { found.of(lane).clear(from); });
        bool filtered = false;
        if constexpr (kStaged)
            filtered = detail::filters(tables, text) && detail::filter_text(text, tables, lanes, found);
        if (!filtered) detail::walk_text(text, tables, lanes, found);
        if (!lanes.any(Lanes::count, [&](uint32_t lane) { return found.of(lane).any(); })) return;
        most = lanes.minimum(Lanes::count, [&](uint32_t lane) { return found.of(lane).complete_to(); });
        f(found, most);
    }
}

}  // namespace millrace::nf::nids::pattern
