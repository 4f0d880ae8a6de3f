// Where devices look for the rules that no pattern leads to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/nids/evaluate.hpp"
#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

/// What lists have of the rule, or group, with that number. `header`: the RuleHeader's number; `flags`: its own.
inline Listed listed(uint32_t number, uint32_t header, uint16_t flags, bool asks_addresses) {
    const uint32_t others = flags & ~uint32_t{RuleHeader::kEndpoints};
    return {number, static_cast<uint16_t>(others | (asks_addresses ? RuleHeader::kEndpoints : 0)),
            static_cast<uint16_t>(std::min(header, kMaxClassedHeaders))};
}

/// Lists of numbers by ranges of a value, as RangeIndex has them.
class RangeIndexBuilder {
public:
    /// Values have so many bits, 1 to 32.
    explicit RangeIndexBuilder(unsigned value_bits) : value_bits_(value_bits) {}
    void add(uint32_t low, uint32_t high, uint32_t number) { entries_.push_back({low, high, number}); }
    /// Makes the lists of what was added.
    void build();
    /// `listed`: what the lists have of each number.
    void attach(nf::Image& image, RangeIndex& view, const std::vector<Listed>& listed) const;

private:
    struct Entry {
        uint32_t low, high, number;
    };
    void make_tops();

    unsigned value_bits_;
    std::vector<Entry> entries_;
    std::vector<uint32_t> starts_, tops_, begin_, numbers_;
    uint32_t shift_ = 0;
};

/// The rules that no pattern leads to, grouped by their headers, and the groups found by an address or a port.
class HeaderIndex {
public:
    /// Adds the rule with that number.
    void add(const Rule& rule, uint32_t number, const CompiledRule& compiled);
    void build();
    void attach(nf::Image& image, NidsTables& tables) const;
    size_t rules() const { return rules_; }

private:
    void place(const Rule& rule, uint32_t group);
    void place_by_ports(const Rule& rule, uint32_t group);

    RangeIndexBuilder by_source_{32}, by_destination_{32}, by_source_port_{18}, by_destination_port_{18};
    std::vector<uint32_t> only_ipv6_;
    std::map<uint32_t, uint32_t> group_of_header_;
    std::vector<std::vector<uint32_t>> members_;  ///< by group
    std::vector<RuleGroup> groups_;
    std::vector<Listed> listed_;  ///< of each group
    std::vector<uint32_t> grouped_rules_;
    size_t rules_ = 0;
};

/// How many addresses or ports a list of ranges has.
template <class T>
uint64_t size_of(const RangeList<T>& ranges) {
    uint64_t count = 0;
    for (const auto& range : ranges.ranges()) count += uint64_t{range.high} - range.low + 1;
    return count;
}

}  // namespace millrace::nf::nids
