// Ternary rules from boxes, and what their builders share.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "millrace/nf/classify/ternary/hashing.hpp"
#include "millrace/nf/classify/rules/rule.hpp"
#include "millrace/nf/classify/ternary/ternary.hpp"
#include "millrace/nf/image.hpp"

namespace millrace::nf::classify {

/// Asks `rule` for ports in two ranges. What a range has of a prefix goes into value and mask.
template <unsigned Words>
void set_ports(TernaryRule<Words>& rule, PortRange src, PortRange dst);

/// The rules of one family (Words is 4 for IPv4, 10 for IPv6): of `order`, indexes into `rules.boxes` in
/// order of match, those that hold for it. Positions count from 0; `indexes` gets the rule's index by position.
template <unsigned Words>
std::vector<TernaryRule<Words>> ternary_rules(const RuleSet& rules, std::span<const uint32_t> order,
                                              std::vector<uint32_t>& indexes);

/// Appends to `to` rules without ranges that match together what `rule` matches: its ranges as prefixes.
template <unsigned Words>
void expand_ranges(const TernaryRule<Words>& rule, std::vector<TernaryRule<Words>>& to);

/// The hash function of that number: always the same one.
template <unsigned Words>
HashFunction<Words> make_hash_function(uint32_t number);

template <unsigned Words>
std::array<uint32_t, Words> mask_of(const TernaryRule<Words>& rule) {
    return std::to_array(rule.mask);
}

/// Has an image share an array that `owner` has in it; nothing where it has no elements.
template <class T, class Owner>
void attach_shared(Image& image, View<T>& view, const std::shared_ptr<Owner>& owner, const std::vector<T>& array) {
    if (!array.empty()) image.attach(view, std::shared_ptr<const std::vector<T>>(owner, &array));
}

}  // namespace millrace::nf::classify
