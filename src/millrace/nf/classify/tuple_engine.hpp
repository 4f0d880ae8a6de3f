// Tuple search and Bloom search (Srinivasan, Suri and Varghese, SIGCOMM 1999; Varvello et al., CoNEXT 2014,
// sections 4.2 and 4.3): the rules of one mask form a class, whose values lie in a cuckoo table of three
// subtables; Bloom search asks a filter of two hash functions before each table.
//
// The lanes of a packet take a class each. The lowest position of all classes is the answer.
#pragma once

#include "millrace/nf/classify/hashing.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
struct TupleEngine {
    static constexpr unsigned kSubtables = 3;
    static constexpr unsigned kFilterHashes = 2;
    static_assert(kSubtables + kFilterHashes <= HashFunction<Words>::kDerived);

    struct Class {
        uint32_t mask[Words];
        uint32_t function;        ///< in `functions`: another one after each failure to fill the table
        uint32_t first_slot;      ///< in `slots`
        uint32_t subtable_slots;  ///< of each of the kSubtables
        uint32_t first_filter;    ///< in `filters`
        uint32_t filter_shift;    ///< 32 less the filter's number of bits as a power of two
    };
    struct Slot {
        uint32_t value[Words];
        uint32_t position;        ///< kNoRule: the slot is free
    };
    struct Tables {
        View<Class> classes;
        View<Slot> slots;
        View<uint32_t> filters;   ///< bits; empty for tuple search
        View<HashFunction<Words>> functions;
    };

    /// The lowest position that matches, or kNoRule.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const TernaryKey<Words>& key, Lanes lanes) {
        return lanes.minimum(static_cast<uint32_t>(tables.classes.size()),
                             [&](uint32_t i) { return find_in_class(tables, tables.classes[i], key); });
    }

private:
    MILLRACE_DEVICE static uint32_t find_in_class(const Tables& tables, const Class& in, const TernaryKey<Words>& key) {
        const HashFunction<Words>& function = tables.functions[in.function];
        const uint32_t hash = function.hash(key, in.mask);
        if (!tables.filters.empty()) {
            for (unsigned i = 0; i < kFilterHashes; ++i) {
                const uint32_t bit = function.derive(kSubtables + i, hash) >> in.filter_shift;
                if (!(tables.filters[in.first_filter + bit / 32] >> (bit % 32) & 1)) return kNoRule;
            }
        }
        for (unsigned i = 0; i < kSubtables; ++i) {
            const Slot& slot = tables.slots[in.first_slot + i * in.subtable_slots + spread(function.derive(i, hash), in.subtable_slots)];
            uint32_t differs = 0;
            for (unsigned k = 0; k < Words; ++k) differs |= (key.words[k] & in.mask[k]) ^ slot.value[k];
            if (differs == 0 && slot.position != kNoRule) return slot.position;
        }
        return kNoRule;
    }
};

}  // namespace millrace::nf::classify
