#include "millrace/nf/nids/compile/rule_index.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace millrace::nf::nids {
namespace {

/// A rule is found by its address when that narrows down what it concerns at least this much.
constexpr uint64_t kFewAddresses = uint64_t{1} << 27;
/// Entries of `tops` for each start, and at most so many altogether: then few starts are left to search.
constexpr size_t kTopsPerStart = 4;
constexpr unsigned kMaxTopBits = 16;

std::vector<Listed> listed_by(const std::vector<uint32_t>& numbers, const std::vector<Listed>& listed) {
    std::vector<Listed> list;
    for (const uint32_t number : numbers) list.push_back(listed[number]);
    return list;
}

bool is_few(const RangeList<uint32_t>& ranges) { return size_of(ranges) <= kFewAddresses; }

}  // namespace

void RangeIndexBuilder::build() {
    std::set<uint32_t> starts{0};
    for (const Entry& entry : entries_) {
        starts.insert(entry.low);
        if (entry.high != 0xffffffff) starts.insert(entry.high + 1);
    }
    starts_.assign(starts.begin(), starts.end());
    std::vector<std::vector<uint32_t>> lists(starts_.size());
    for (const Entry& entry : entries_) {
        const auto first = std::lower_bound(starts_.begin(), starts_.end(), entry.low);
        for (auto at = first; at != starts_.end() && *at <= entry.high; ++at)
            lists[static_cast<size_t>(at - starts_.begin())].push_back(entry.number);
    }
    for (const auto& list : lists) {
        begin_.push_back(static_cast<uint32_t>(numbers_.size()));
        numbers_.insert(numbers_.end(), list.begin(), list.end());
    }
    begin_.push_back(static_cast<uint32_t>(numbers_.size()));
    make_tops();
}

void RangeIndexBuilder::make_tops() {
    const auto wanted = static_cast<unsigned>(std::bit_width(kTopsPerStart * starts_.size()));
    const unsigned top_bits = std::min({value_bits_, wanted, kMaxTopBits});
    shift_ = value_bits_ - top_bits;
    for (uint64_t top = 0; top <= uint64_t{1} << top_bits; ++top) {
        const auto behind = std::upper_bound(starts_.begin(), starts_.end(), top << shift_);
        tops_.push_back(static_cast<uint32_t>(behind - starts_.begin()) - 1);
    }
}

void RangeIndexBuilder::attach(nf::Image& image, RangeIndex& view, const std::vector<Listed>& listed) const {
    image.attach(view.starts, starts_);
    image.attach(view.tops, tops_);
    image.attach(view.begin, begin_);
    image.attach_some(view.groups, listed_by(numbers_, listed));
    view.shift = shift_;
}

void HeaderIndex::add(const Rule& rule, uint32_t number, const CompiledRule& compiled) {
    ++rules_;
    const auto [at, added] = group_of_header_.emplace(compiled.header, static_cast<uint32_t>(members_.size()));
    if (added) {
        members_.emplace_back();
        groups_.push_back({.header = compiled.header, .flags = compiled.flags});
        listed_.push_back(
            listed(at->second, compiled.header, compiled.flags, !rule.src.is_any() || !rule.dst.is_any()));
        place(rule, at->second);
    }
    members_[at->second].push_back(number);
}

/// All that this looks at is part of the rule's header, which all of the group have.
void HeaderIndex::place(const Rule& rule, uint32_t group) {
    if (rule.both_ways || (!is_few(rule.src.v4) && !is_few(rule.dst.v4))) return place_by_ports(rule, group);
    const bool source = is_few(rule.src.v4);
    const AddressRanges& addresses = source ? rule.src : rule.dst;
    for (const auto& range : addresses.v4.ranges())
        (source ? by_source_ : by_destination_).add(range.low, range.high, group);
    if (!addresses.v6.empty()) only_ipv6_.push_back(group);
}

/// By the side that has fewer ports.
void HeaderIndex::place_by_ports(const Rule& rule, uint32_t group) {
    static constexpr std::pair<uint16_t, PortKey> kKeys[] = {{RuleHeader::kTcp, PortKey::tcp},
                                                             {RuleHeader::kUdp, PortKey::udp},
                                                             {RuleHeader::kIcmp, PortKey::icmp},
                                                             {RuleHeader::kOther, PortKey::other}};
    const bool source = !rule.both_ways && size_of(rule.src_ports) < size_of(rule.dst_ports);
    const PortRanges ports = rule.both_ways ? PortRanges::all() : source ? rule.src_ports : rule.dst_ports;
    RangeIndexBuilder& index = source ? by_source_port_ : by_destination_port_;
    for (const auto& [protocol, key] : kKeys) {
        if (!(rule.header & protocol)) continue;
        const uint32_t high_bits = static_cast<uint32_t>(key) << 16;
        for (const auto& range : ports.ranges()) index.add(high_bits | range.low, high_bits | range.high, group);
    }
}

void HeaderIndex::build() {
    for (size_t i = 0; i < members_.size(); ++i) {
        groups_[i].first = static_cast<uint32_t>(grouped_rules_.size());
        groups_[i].count = static_cast<uint32_t>(members_[i].size());
        grouped_rules_.insert(grouped_rules_.end(), members_[i].begin(), members_[i].end());
    }
    for (RangeIndexBuilder* index : {&by_source_, &by_destination_, &by_source_port_, &by_destination_port_})
        index->build();
}

void HeaderIndex::attach(nf::Image& image, NidsTables& tables) const {
    by_source_.attach(image, tables.by_source, listed_);
    by_destination_.attach(image, tables.by_destination, listed_);
    by_source_port_.attach(image, tables.by_source_port, listed_);
    by_destination_port_.attach(image, tables.by_destination_port, listed_);
    image.attach_some(tables.only_ipv6, listed_by(only_ipv6_, listed_));
    image.attach_some(tables.groups, groups_);
    image.attach_some(tables.grouped_rules, grouped_rules_);
    tables.without_pattern = rules_ > 0;
}

}  // namespace millrace::nf::nids
