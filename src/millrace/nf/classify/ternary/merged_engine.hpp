// Merged tuples: tuple search in few tables.
//
// A table serves every rule whose mask contains the table's mask, so that the classes of tuple search share
// tables (the idea of TupleMerge: Daly et al., IEEE/ACM ToN 2019). A slot holds the 32-bit hash of a masked
// value as its fingerprint and leads to the few rules with that hash, which are compared in full, the first in
// order of match first. Most slots that are looked at end the search of their table without a second access.
// Tables stand in the order of their first rule: the search ends at the first table that cannot hold better.
#pragma once

#include "millrace/nf/classify/ternary/hashing.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
struct MergedEngine {
    static constexpr uint32_t kChunkWords = 4;

    /// A rule as it is compared: each word's value and mask together, so that the first chunk of 16 bytes tells
    /// most rules apart that share a slot.
    struct alignas(kTableAlignment) Rule {
        uint32_t pairs[2 * Words + (2 * Words % kChunkWords)];  ///< value, mask; at the end of an odd number of words a
                                                                ///< pair that all match
        uint32_t ports_low, ports_high, position;

        MILLRACE_DEVICE bool matches(const TernaryKey<Words>& key) const {
            for (unsigned i = 0; i < Words; i += kChunkWords / 2) {
                uint32_t differs = (key.words[i] & pairs[2 * i + 1]) ^ pairs[2 * i];
                if (i + 1 < Words) differs |= (key.words[i + 1] & pairs[2 * i + 3]) ^ pairs[2 * i + 2];
                if (differs != 0) return false;
            }
            return ports_match<Words>(key, ports_low, ports_high);
        }
    };
    /// The rules whose masked values share a hash: `count` of them from `first`, by position; none in a free slot.
    struct alignas(kTableAlignment) Slot {
        uint32_t fingerprint;
        uint32_t first;
        uint32_t count;
        uint32_t best;  ///< the position of the first of them
    };
    struct alignas(kTableAlignment) Table {
        uint32_t mask[Words];
        uint32_t best;  ///< the lowest position of its rules
        uint32_t first_slot;
        uint32_t slots;  ///< at most half of them in use, so that a search ends
    };
    struct Tables {
        View<Table> tables;  ///< by `best`
        View<Slot> slots;
        View<Rule> rules;
        HashFunction<Words> function;
    };

    /// The lowest position that matches and is not among `gone`, or kNoRule.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const TernaryKey<Words>& key, Lanes lanes,
                                         Positions gone = {}) {
        const uint32_t count = static_cast<uint32_t>(tables.tables.size());
        uint32_t best = kNoRule;
        for (uint32_t base = 0; base < count; base += Lanes::count) {
            if (tables.tables[base].best > best) break;
            const uint32_t found = lanes.minimum(smaller<uint32_t>(Lanes::count, count - base), [&](uint32_t i) {
                return find_in_table(tables, tables.tables[base + i], key, gone, best);
            });
            best = smaller(best, found);
        }
        return best;
    }

private:
    /// The lowest position of those below `bound` that matches, or kNoRule.
    MILLRACE_DEVICE static uint32_t find_in_table(const Tables& tables, const Table& in, const TernaryKey<Words>& key,
                                                  Positions gone, uint32_t bound) {
        const uint32_t hash = tables.function.hash(key, in.mask);
        for (uint32_t at = spread(scatter(hash), in.slots);; at = at + 1 == in.slots ? 0 : at + 1) {
            const Slot slot = tables.slots[in.first_slot + at];
            if (slot.count == 0) return kNoRule;
            if (slot.fingerprint != hash) continue;
            if (slot.best >= bound) return kNoRule;
            for (uint32_t i = 0; i < slot.count; ++i) {
                const Rule& rule = tables.rules[slot.first + i];
                if (rule.position >= bound) return kNoRule;
                if (rule.matches(key) && !has(gone, rule.position)) return rule.position;
            }
            return kNoRule;
        }
    }
};

}  // namespace millrace::nf::classify
