// Policies that no packet can reach, found as they are read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "millrace/nf/ipsec/model.hpp"

namespace millrace::nf::ipsec {

/// Knows the selectors of all policies so far and finds the one that hides the next. Selectors with the same masks lie
/// by their prefixes, so that a table of policies takes time that grows with its length, not with its square.
class ReachablePolicies {
public:
    /// Adds the selectors of the next policy. The number of the first policy before it that takes every packet of it,
    /// counted from 0; none where packets get to it. A policy that needs several others to be hidden is not found.
    std::optional<size_t> add(const std::vector<Selector>& selectors);

private:
    /// Masks of source and destination, and the family in the last word.
    using Masks = std::array<uint32_t, 9>;
    /// The addresses of source and destination.
    using Prefixes = std::array<uint32_t, 8>;

    std::vector<std::vector<Selector>> policies_;
    std::map<Masks, std::map<Prefixes, std::vector<size_t>>> by_masks_;  ///< numbers of policies, ascending
};

}  // namespace millrace::nf::ipsec
