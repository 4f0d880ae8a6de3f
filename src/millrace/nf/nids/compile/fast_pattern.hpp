// Which bytes of a rule a payload is searched for before the rule itself is looked at.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "millrace/nf/nids/compile/rare_window.hpp"
#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

/// Chooses each rule's fast pattern, knowing all rules: a content that many rules have, such as `User-Agent:`, is one
/// that ordinary traffic has, and would lead to all of them time and again.
class FastPatterns {
public:
    /// Bytes that a pattern should have at least, so that a filter finds the places where it may begin.
    static constexpr size_t kFilterable = RareWindows::kBytes;

    /// Looks at the rules that are supported.
    explicit FastPatterns(const std::vector<Rule>& rules);
    /// Bytes that every packet has in which the rule can match, lower case: of the content marked fast_pattern, unless
    /// many rules have it and do not mark it; else of that which fewest have, and of those the longest; each from its
    /// rarest bytes on. Contents that are shorter than
    /// kFilterable count only where there is no other, and then only if a search for them costs less than a look at
    /// the rule for each packet with its header: one pattern without a filter leaves all payloads to the automaton,
    /// byte by byte. Empty when no content tells.
    std::string of(const Rule& rule) const;

private:
    std::string best_of(const Rule& rule) const;
    /// The best, or where that is too short for a filter, another that the filter has.
    std::string filterable_of(const Rule& rule) const;

    struct Uses {
        uint32_t rules = 0;   ///< that have a content with these bytes
        uint32_t marked = 0;  ///< of them, those that have marked it fast_pattern
    };
    std::unordered_map<std::string, Uses> uses_;
    RareWindows windows_;
    bool short_ones_by_header_ = false;
    std::set<std::string> of_three_bytes_;  ///< of these patterns, those that a filter is to have
};

}  // namespace millrace::nf::nids
