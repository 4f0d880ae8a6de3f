#include "millrace/nf/switch/flows/flow_index.hpp"

#include <algorithm>
#include <bit>

namespace millrace::nf::flow_switch {
namespace {

using Words = classify::TernaryKey<MatchKeys::kWords>;

uint64_t hash_of(const Words& value) {
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(value.words), sizeof value.words});
}

bool equal(const Words& a, const Words& b) { return std::ranges::equal(a.words, b.words); }

template <class Mask>
bool contains(const Mask& mask, const Words& part) {
    for (unsigned i = 0; i < MatchKeys::kWords; ++i)
        if ((part.words[i] & ~mask[i]) != 0) return false;
    return true;
}

template <class Mask>
bool lies_in(const Mask& mask, const Words& whole) {
    for (unsigned i = 0; i < MatchKeys::kWords; ++i)
        if ((mask[i] & ~whole.words[i]) != 0) return false;
    return true;
}

/// The value of a match for any table, in one of them; `in_a_table` is the match with the table's bits in its mask.
Words value_in(uint32_t table, const MatchKeys& any, const MatchKeys& in_a_table) {
    Words value = any.value;
    for (unsigned i = 0; i < MatchKeys::kWords; ++i)
        if (const uint32_t bits = in_a_table.mask.words[i] & ~any.mask.words[i]; bits != 0)
            value.words[i] |= table << std::countr_zero(bits);
    return value;
}

uint64_t with_priority(uint64_t hash, uint16_t priority) {
    return (hash ^ (priority + uint64_t{1}) * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
}

}  // namespace

void FlowIndex::put(Lists& lists, std::vector<Link>& links, uint64_t hash, uint32_t number) {
    const auto [first, fresh] = lists.try_emplace(hash, number);
    links[number] = {fresh ? kNone : first->second, kNone};
    if (fresh) return;
    links[first->second].before = number;
    first->second = number;
}

void FlowIndex::take(Lists& lists, std::vector<Link>& links, uint64_t hash, uint32_t number) {
    const auto [next, before] = links[number];
    if (next != kNone) links[next].before = before;
    if (before != kNone) links[before].next = next;
    else if (next != kNone) lists[hash] = next;
    else lists.erase(hash);
}

template <class F>
void FlowIndex::for_each(const Lists& lists, const std::vector<Link>& links, uint64_t hash, F&& f) {
    const auto found = lists.find(hash);
    if (found == lists.end()) return;
    for (uint32_t number = found->second; number != kNone; number = links[number].next) f(number);
}

void FlowIndex::clear() {
    classes_.clear();
    value_links_.clear();
    priority_links_.clear();
}

void FlowIndex::add(const Flow& flow, uint32_t number) {
    if (number >= value_links_.size()) {
        value_links_.resize(number + size_t{1});
        priority_links_.resize(number + size_t{1});
    }
    const MatchKeys keys(flow.match);
    Class& in = classes_[std::to_array(keys.mask.words)];
    const uint64_t hash = hash_of(keys.value);
    put(in.by_value, value_links_, hash, number);
    put(in.by_priority, priority_links_, with_priority(hash, flow.priority), number);
}

void FlowIndex::remove(const Flow& flow, uint32_t number) {
    const MatchKeys keys(flow.match);
    const auto found = classes_.find(std::to_array(keys.mask.words));
    const uint64_t hash = hash_of(keys.value);
    take(found->second.by_value, value_links_, hash, number);
    take(found->second.by_priority, priority_links_, with_priority(hash, flow.priority), number);
    if (found->second.by_value.empty()) classes_.erase(found);
}

std::vector<uint32_t> FlowIndex::same(const Flows& flows, const FlowMatch& match, uint16_t priority) const {
    std::vector<uint32_t> numbers;
    const MatchKeys keys(match);
    const auto found = classes_.find(std::to_array(keys.mask.words));
    if (found == classes_.end()) return numbers;
    for_each(found->second.by_priority, priority_links_, with_priority(hash_of(keys.value), priority),
             [&](uint32_t number) {
                 ++looks_;
                 if (flows[number]->priority == priority && equal(MatchKeys(flows[number]->match).value, keys.value))
                     numbers.push_back(number);
             });
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

std::vector<uint32_t> FlowIndex::within(const Flows& flows, const FlowMatch& match) const {
    std::vector<uint32_t> numbers;
    const MatchKeys outer(match);
    FlowMatch of_a_table = match;
    of_a_table.mask.table = 0xff;
    const MatchKeys in_a_table(of_a_table);
    const auto look = [&](uint32_t number) {
        ++looks_;
        if (MatchKeys(flows[number]->match).within(outer)) numbers.push_back(number);
    };
    for (const auto& [mask, in] : classes_) {
        if (!contains(mask, outer.mask)) continue;
        if (lies_in(mask, outer.mask)) {
            for_each(in.by_value, value_links_, hash_of(outer.value), look);
            continue;
        }
        // Controllers that say nothing of tables mean all of them.
        if (match.mask.table == 0 && lies_in(mask, in_a_table.mask)) {
            for (uint32_t table = 0; table < Flow::kTables; ++table)
                for_each(in.by_value, value_links_, hash_of(value_in(table, outer, in_a_table)), look);
            continue;
        }
        for (const auto& [hash, first] : in.by_value) for_each(in.by_value, value_links_, hash, look);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

bool FlowIndex::overlaps(const Flows& flows, const FlowMatch& match, uint16_t priority) const {
    const MatchKeys keys(match);
    bool found = false;
    const auto look = [&](uint32_t number) {
        ++looks_;
        found = found || (flows[number]->priority == priority && MatchKeys(flows[number]->match).overlap(keys));
    };
    for (const auto& [mask, in] : classes_) {
        if (lies_in(mask, keys.mask)) {
            Words value = keys.value;
            for (unsigned i = 0; i < MatchKeys::kWords; ++i) value.words[i] &= mask[i];
            for_each(in.by_priority, priority_links_, with_priority(hash_of(value), priority), look);
        } else {
            for (const auto& [hash, first] : in.by_value) for_each(in.by_value, value_links_, hash, look);
        }
        if (found) return true;
    }
    return false;
}

}  // namespace millrace::nf::flow_switch
