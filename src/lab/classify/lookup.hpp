// Classification alone, as GSwitch does it (Varvello et al., CoNEXT 2014, section 5): tuples come to the device,
// indexes of rules go back, and no packet does. A task for `millrace bench rules`.
#pragma once

#include "millrace/nf/classify/classifier.hpp"

namespace millrace::nf::classify {

/// The rules of `Words` words by one engine, one of whose kernels this becomes.
template <unsigned Words, Engine Which>
struct Lookup {
    using Tables = Classifier::Family<Words>;

    /// Finds the rule of key `i` of `count`. The first words of all keys are contiguous, then the second ones, and so
    /// on, so that threads of a warp read neighbours.
    template <class Lanes>
    MILLRACE_DEVICE static void run(const void* tables, const uint32_t* keys, uint32_t* rules, uint32_t count,
                                    uint32_t i, Lanes lanes) {
        const Tables& family = *static_cast<const Tables*>(tables);
        TernaryKey<Words> key;
        for (unsigned k = 0; k < Words; ++k) key.words[k] = keys[static_cast<uint64_t>(k) * count + i];
        const uint32_t rule = find(family, key, lanes);
        lanes.once([&] { rules[i] = rule; });
    }

private:
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& family, const TernaryKey<Words>& key, Lanes lanes) {
        if constexpr (Which == Engine::bit_vectors) {
            return BitVectorEngine::find(family.vectors, header_key(key), lanes);
        } else {
            const uint32_t position = find_position(family.search, key, lanes);
            return position == kNoRule || family.rules.empty() ? position : family.rules[position];
        }
    }
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find_position(const typename Search<Words>::Tables& tables,
                                                  const TernaryKey<Words>& key, Lanes lanes) {
        if constexpr (Which == Engine::linear) return LinearEngine<Words>::find(tables.linear, key, lanes);
        else if constexpr (Which == Engine::merged) return MergedEngine<Words>::find(tables.merged, key, lanes);
        else return TupleEngine<Words>::find(tables.tuple, key, lanes);
    }
};

}  // namespace millrace::nf::classify
