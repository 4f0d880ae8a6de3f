// Tuple search and Bloom search (Srinivasan, Suri and Varghese, SIGCOMM 1999; Varvello et al., CoNEXT 2014,
// sections 4.2 and 4.3): the rules of one mask form a class, whose values lie in a cuckoo table of three
// subtables; Bloom search asks a filter of two hash functions before each table.
//
// The lanes of a packet take a class each. The lowest position of all classes is the answer; classes stand in
// the order of their first rule, so that the search ends at the first one that cannot hold better. With one lane
// a packet, which is best for many packets at once, the threads of a warp look at the same class at the same time:
// its mask is read once for all of them.
#pragma once

#include "millrace/nf/classify/ternary/hashing.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
struct TupleEngine {
    static constexpr unsigned kSubtables = 3;
    static constexpr uint32_t kTogether = 4;  ///< classes that a lane looks at before it waits for memory
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
        uint32_t position;  ///< kNoRule: the slot is free
    };
    struct Tables {
        View<Class> classes;  ///< by `best`
        View<Slot> slots;
        View<uint32_t> prints;   ///< of `slots`: the hash of each one's value, so that a miss costs four bytes
        View<uint32_t> filters;  ///< empty for tuple search
        View<uint32_t> alike;    ///< by position: the next rule that matches the same, or kNoRule; empty: no two do
        HashFunction<Words> function;
    };

    /// The lowest position that matches and is not among `gone`, or kNoRule. Of rules that match the same the first
    /// stands for all.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const TernaryKey<Words>& key, Lanes lanes,
                                         Positions gone = {}) {
        // Several lanes agree on a result now and then only, as it costs them as much as some classes.
        constexpr uint32_t kGroups = Lanes::count == 1 ? 1 : 2 * Lanes::count;
        const uint32_t count = static_cast<uint32_t>(tables.classes.size());
        uint32_t best = kNoRule;
        for (uint32_t base = 0; base < count && tables.classes[base].best < best; base += kGroups * kTogether) {
            const uint32_t groups = smaller(kGroups, (count - base + kTogether - 1) / kTogether);
            best = smaller(best, lanes.minimum(groups, [&](uint32_t i) {
                return find_in_group(tables, base + i * kTogether, count, key, gone);
            }));
        }
        return best;
    }

    /// The word of a class' filter that a hash leads to, and its two bits in that word: one access tells of both.
    MILLRACE_DEVICE static uint32_t filter_word(uint32_t hash, uint32_t words) { return spread(scatter(hash), words); }
    MILLRACE_DEVICE static uint32_t filter_bits(uint32_t hash) { return 1u << (hash & 31) | 1u << (hash >> 5 & 31); }
    /// What the slots of a class with that `seed` are derived from.
    MILLRACE_DEVICE static uint32_t slot_hash(uint32_t hash, uint32_t seed) { return hash ^ seed; }

private:
    /// The lowest position that matches in the classes [first, first + kTogether), or kNoRule. What all
    /// of them are asked first is asked before any answer is waited for.
    MILLRACE_DEVICE static uint32_t find_in_group(const Tables& tables, uint32_t first, uint32_t count,
                                                  const TernaryKey<Words>& key, Positions gone) {
        uint32_t hashes[kTogether], passed = 0;
        for (uint32_t i = 0; i < kTogether; ++i) {
            if (first + i >= count) continue;
            const Class& in = tables.classes[first + i];
            hashes[i] = tables.function.hash(key, in.mask);
            passed |= static_cast<uint32_t>(tables.filters.empty() || passes(tables, in, hashes[i])) << i;
        }
        uint32_t best = kNoRule;
        for (uint32_t i = 0; i < kTogether; ++i)
            if (passed >> i & 1)
                best = smaller(best, find_in_class(tables, tables.classes[first + i], key, hashes[i], gone));
        return best;
    }

    MILLRACE_DEVICE static bool passes(const Tables& tables, const Class& in, uint32_t hash) {
        const uint32_t bits = filter_bits(hash);
        return (tables.filters[in.first_filter + filter_word(hash, in.filter_words)] & bits) == bits;
    }

    MILLRACE_DEVICE static uint32_t find_in_class(const Tables& tables, const Class& in, const TernaryKey<Words>& key,
                                                  uint32_t hash, Positions gone) {
        uint32_t places[kSubtables], prints[kSubtables];
        for (unsigned i = 0; i < kSubtables; ++i) {
            places[i] = in.first_slot + i * in.subtable_slots +
                        spread(tables.function.derive(i, slot_hash(hash, in.seed)), in.subtable_slots);
            prints[i] = tables.prints[places[i]];
        }
        for (unsigned i = 0; i < kSubtables; ++i) {
            if (prints[i] != hash) continue;
            const Slot& slot = tables.slots[places[i]];
            uint32_t differs = 0;
            for (unsigned k = 0; k < Words; ++k) differs |= (key.words[k] & in.mask[k]) ^ slot.value[k];
            if (differs != 0 || slot.position == kNoRule) continue;
            uint32_t position = slot.position;
            while (position != kNoRule && has(gone, position))
                position = tables.alike.empty() ? kNoRule : tables.alike[position];
            return position;
        }
        return kNoRule;
    }
};

}  // namespace millrace::nf::classify
