// A set of byte strings to be found all at once in payloads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/nids/pattern/automaton.hpp"
#include "millrace/nf/nids/pattern/filter_builder.hpp"

namespace millrace::nf::nids::pattern {

/// The patterns, their automaton and their filter; constant once made, and safe to share between threads.
class PatternSet {
public:
    /// `patterns` are raw bytes of any length but 0, found whatever the case of their ASCII letters. A
    /// pattern's id is its index; equal patterns keep their own ids. The empty set is found nowhere.
    /// Throws std::invalid_argument for an empty pattern and std::length_error for too large a set.
    explicit PatternSet(std::vector<std::string> patterns);

    /// Attaches the arrays of automaton and filter, shared and not copied, to `image`; `tables` is a member of the
    /// image's Tables.
    void attach(nf::Image& image, PatternTables& tables) const;

    const std::vector<std::string>& patterns() const { return patterns_; }
    const Automaton& automaton() const { return automaton_; }
    const Filter& filter() const { return filter_; }
    size_t size() const { return patterns_.size(); }
    size_t state_count() const { return automaton_.state_count; }
    /// Memory of the arrays that devices copy.
    uint64_t table_bytes() const { return automaton_.bytes() + filter_.bytes(); }
    /// Such as "2,925 patterns, 45,120 states of 230 classes, 19.8 MiB".
    std::string summary() const;

private:
    std::vector<std::string> patterns_;
    Automaton automaton_;
    Filter filter_;
};

}  // namespace millrace::nf::nids::pattern
