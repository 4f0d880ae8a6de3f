// Linear search (Varvello et al., CoNEXT 2014, section 4.1): the key against every rule.
//
// The paper copies a subset of the rules to shared memory and lets every thread of a block go through it.
// Here the lanes of a packet take the rules of a tile concurrently, and all packets of a block go through
// the tiles in the same order, so that a tile lies in the L1 cache, which is the same memory. Rules stand in
// order of match: the first tile with a match has the answer, where the paper needs an atomic maximum.
#pragma once

#include "millrace/nf/classify/ternary/ternary.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
struct LinearEngine {
    /// Rules of a tile for each lane: few cost time to agree on a result, many are searched in vain behind a match.
    static constexpr uint32_t kTilePerLane = 8;

    struct Tables {
        View<TernaryRule<Words>> rules;  ///< by position
    };

    /// The lowest position that matches and is not among `gone`, or kNoRule.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const TernaryKey<Words>& key, Lanes lanes,
                                         Positions gone = {}) {
        const uint32_t count = static_cast<uint32_t>(tables.rules.size());
        constexpr uint32_t kTile = kTilePerLane * Lanes::count;
        for (uint32_t base = 0; base < count; base += kTile) {
            const uint32_t best = lanes.minimum(smaller(kTile, count - base), [&](uint32_t i) {
                const TernaryRule<Words>& rule = tables.rules[base + i];
                return rule.matches(key) && !has(gone, rule.position) ? rule.position : kNoRule;
            });
            if (best != kNoRule) return best;
        }
        return kNoRule;
    }
};

}  // namespace millrace::nf::classify
