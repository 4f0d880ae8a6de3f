// Tuple search and Bloom search (Srinivasan, Suri and Varghese, SIGCOMM 1999; Varvello et al., CoNEXT 2014,
// sections 4.2 and 4.3): the rules of one mask form a class, whose values lie in a cuckoo table of three
// subtables; Bloom search asks a filter of two hash functions before each table.
//
// The lanes of a packet take a class each. The lowest position of all classes is the answer; classes stand in
// the order of their first rule, so that the search ends at the first one that cannot hold better. With one lane
// a packet, which is best for many packets at once, the threads of a warp look at the same class at the same time:
// its mask is read once for all of them.
#pragma once

#include "millrace/nf/classify/hashing.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
struct TupleEngine {
    static constexpr unsigned kSubtables = 3;
    static constexpr unsigned kFilterHashes = 2;
    static_assert(kSubtables <= HashFunction<Words>::kDerived);

    struct alignas(kTableAlignment) Class {
        uint32_t mask[Words];
        uint32_t best;            ///< the lowest position of its rules
        uint32_t seed;            ///< of its hash functions: another one after each failure to fill the table
        uint32_t first_slot;      ///< in `slots`
        uint32_t subtable_slots;  ///< of each of the kSubtables
        uint32_t first_filter;    ///< in `filters`
        uint32_t filter_words;
    };
    struct alignas(Words < 8 ? 32 : kTableAlignment) Slot {
        uint32_t value[Words];
        uint32_t position;        ///< kNoRule: the slot is free
    };
    struct Tables {
        View<Class> classes;      ///< by `best`
        View<Slot> slots;
        View<uint32_t> filters;   ///< empty for tuple search
        HashFunction<Words> function;
    };

    /// The lowest position that matches, or kNoRule.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const TernaryKey<Words>& key, Lanes lanes) {
        // Several lanes agree on a result now and then only, as it costs them as much as a class.
        constexpr uint32_t kGroup = Lanes::count == 1 ? 1 : 8 * Lanes::count;
        const uint32_t count = static_cast<uint32_t>(tables.classes.size());
        uint32_t best = kNoRule;
        for (uint32_t base = 0; base < count && tables.classes[base].best < best; base += kGroup) {
            best = smaller(best, lanes.minimum(smaller(kGroup, count - base), [&](uint32_t i) {
                return find_in_class(tables, tables.classes[base + i], key);
            }));
        }
        return best;
    }

    /// The word of a class' filter that a hash leads to, and its two bits in that word: one access tells of both.
    MILLRACE_DEVICE static uint32_t filter_word(uint32_t hash, uint32_t words) { return spread(hash, words); }
    MILLRACE_DEVICE static uint32_t filter_bits(uint32_t hash) { return 1u << (hash & 31) | 1u << (hash >> 5 & 31); }
    /// What the slots of a class with that `seed` are derived from.
    MILLRACE_DEVICE static uint32_t slot_hash(uint32_t hash, uint32_t seed) { return hash ^ seed; }

private:
    MILLRACE_DEVICE static uint32_t find_in_class(const Tables& tables, const Class& in, const TernaryKey<Words>& key) {
        const uint32_t hash = tables.function.hash(key, in.mask);
        if (!tables.filters.empty()) {
            const uint32_t bits = filter_bits(hash);
            if ((tables.filters[in.first_filter + filter_word(hash, in.filter_words)] & bits) != bits) return kNoRule;
        }
        for (unsigned i = 0; i < kSubtables; ++i) {
            const uint32_t at = spread(tables.function.derive(i, slot_hash(hash, in.seed)), in.subtable_slots);
            const Slot& slot = tables.slots[in.first_slot + i * in.subtable_slots + at];
            uint32_t differs = 0;
            for (unsigned k = 0; k < Words; ++k) differs |= (key.words[k] & in.mask[k]) ^ slot.value[k];
            if (differs == 0 && slot.position != kNoRule) return slot.position;
        }
        return kNoRule;
    }
};

}  // namespace millrace::nf::classify
