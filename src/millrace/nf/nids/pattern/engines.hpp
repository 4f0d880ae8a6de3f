// The engines behind make_matcher, and what those that walk the automaton have in common.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "millrace/nf/nids/pattern/matcher.hpp"

namespace millrace::nf::nids::pattern {

std::unique_ptr<Matcher> make_hyperscan_matcher(std::shared_ptr<const PatternSet> set);
std::unique_ptr<Matcher> make_vector_matcher(std::shared_ptr<const PatternSet> set);
std::unique_ptr<Matcher> make_scalar_matcher(std::shared_ptr<const PatternSet> set);
bool has_avx512();

/// The distinct ids of the payload that one lane is working on. A bit for each pattern keeps a payload
/// that repeats a pattern from piling up ids; sorting is left to the end, as most have none.
class FoundIds {
public:
    explicit FoundIds(size_t patterns) : seen_((patterns + 63) / 64) { ids_.reserve(patterns); }

    void add(uint32_t id) {
        uint64_t& word = seen_[id / 64];
        const uint64_t bit = uint64_t{1} << (id % 64);
        if ((word & bit) != 0) return;
        word |= bit;
        ids_.push_back(id);
    }
    /// Adds every pattern that ends in match state `state`.
    void add_state(const Automaton& automaton, uint32_t state) {
        for (uint32_t match = state - automaton.first_match; match != kNoPattern; match = (*automaton.output_link)[match])
            for (uint32_t i = (*automaton.output_begin)[match]; i < (*automaton.output_begin)[match + 1]; ++i)
                add((*automaton.output_ids)[i]);
    }
    /// Hands the ids to `hits` and begins anew.
    void finish(size_t payload, PatternHits& hits) {
        if (ids_.empty()) return;
        std::sort(ids_.begin(), ids_.end());
        hits.set(payload, ids_);
        for (const uint32_t id : ids_) seen_[id / 64] = 0;
        ids_.clear();
    }

private:
    std::vector<uint64_t> seen_;
    std::vector<uint32_t> ids_;
};

}  // namespace millrace::nf::nids::pattern
