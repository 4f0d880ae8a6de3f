// The search for ternary rules by whichever engine holds them.
#pragma once

#include "millrace/nf/classify/ternary/linear_engine.hpp"
#include "millrace/nf/classify/ternary/merged_engine.hpp"
#include "millrace/nf/classify/ternary/tuple_engine.hpp"

namespace millrace::nf::classify {

/// Bit vectors work on 5-tuples only (classifier.hpp).
enum class Engine : uint32_t { linear, tuple, bloom, bit_vectors, merged };

template <unsigned Words>
struct Search {
    struct Tables {
        Engine engine = Engine::linear;
        typename LinearEngine<Words>::Tables linear;
        typename TupleEngine<Words>::Tables tuple;
        typename MergedEngine<Words>::Tables merged;
    };

    /// The lowest position that matches and is not among `gone`, or kNoRule.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const TernaryKey<Words>& key, Lanes lanes,
                                         Positions gone = {}) {
        switch (tables.engine) {
            case Engine::linear: return LinearEngine<Words>::find(tables.linear, key, lanes, gone);
            case Engine::merged: return MergedEngine<Words>::find(tables.merged, key, lanes, gone);
            default: return TupleEngine<Words>::find(tables.tuple, key, lanes, gone);
        }
    }
};

}  // namespace millrace::nf::classify
