// The filter that device code puts before the patterns, on the host.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/nf/nids/pattern/automaton.hpp"
#include "millrace/nf/nids/pattern/filter.hpp"

namespace millrace::nf::nids::pattern {

/// The arrays and numbers that `FilterTables` describes; null where a set has no filter.
struct Filter {
    std::shared_ptr<const std::vector<uint32_t>> bits;
    std::shared_ptr<const std::vector<Branch>> branches;
    uint32_t shift = 0;
    uint32_t sizes = 0;
    std::array<uint32_t, 8> short_begins = {};
    bool skips_runs = false;

    bool empty() const { return bits == nullptr; }
    /// Memory of the arrays that devices copy.
    uint64_t bytes() const { return empty() ? 0 : sizeof(uint32_t) * bits->size() + sizeof(Branch) * branches->size(); }
};

/// Most bits of a filter that may be set, three in ten: 9 % of the places of a random text pass it for nothing.
inline constexpr uint32_t kMaxFilterBits = 32 * kFilterWords * 3 / 10;

/// The filter of the patterns of an automaton. There is none for a set with patterns of one or two bytes, or with more
/// prefixes than kMaxFilterBits: most of a text would pass.
Filter build_filter(const std::vector<std::string>& patterns, const Automaton& automaton);

}  // namespace millrace::nf::nids::pattern
