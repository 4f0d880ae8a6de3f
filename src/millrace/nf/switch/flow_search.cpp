#include "millrace/nf/switch/flow_search.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::nf::flow_switch {
namespace {

using classify::Engine;
using classify::EngineChoice;

/// Up to so many changes are searched one after the other, as are more of them where hardly two have the same mask.
constexpr size_t kLinear = 48, kRulesOfClass = 8;

/// A flow as a rule for keys of that many words; nothing where no packet with such a key can match.
template <unsigned Words>
bool make_rule(const FlowMatch& match, bool pipeline, uint32_t position, classify::TernaryRule<Words>& rule) {
    auto [value, mask] = match;
    if (!pipeline) value.table = mask.table = 0;
    if (Words != classify::kWideWords && mask.eth_type == 0xffff && (value.eth_type == eth::kTypeIpv6) != (Words == 15))
        return false;
    std::copy_n(classify::ternary_key<Words>(value).words, Words, rule.value);
    std::copy_n(classify::ternary_key<Words>(mask).words, Words, rule.mask);
    rule.position = position;
    return true;
}

/// The engine for changes, which is made again for each of them.
template <unsigned Words>
Engine engine_for_changes(const std::vector<classify::TernaryRule<Words>>& rules) {
    if (rules.size() <= kLinear) return Engine::linear;
    std::set<std::array<uint32_t, Words>> masks;
    for (const auto& rule : rules) masks.insert(std::to_array(rule.mask));
    return masks.size() * kRulesOfClass > rules.size() ? Engine::linear : Engine::tuple;
}

}  // namespace

FlowBase::FlowBase(std::vector<Flow> flows, const GroupTables& groups, const MeterTables* meters,
                   const SearchOptions& options, const FlowBase* like)
    : flows_(std::move(flows)), order_(flows_.size()), positions_(flows_.size()) {
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return flows_[a].priority > flows_[b].priority; });
    for (uint32_t position = 0; position < order_.size(); ++position) positions_[order_[position]] = position;
    link_alike();
    auto& tables = image_.start<Switch::Tables>();
    Switch::Part& part = tables.parts[0];
    wide_ = options.pipeline &&
            std::any_of(flows_.begin(), flows_.end(), [](const Flow& flow) { return flow.match.mask.wide(); });
    tables.wide = wide_ ? 1 : 0;
    if (like != nullptr && like->wide_ != wide_) like = nullptr;
    if (wide_) {
        choice_ = build<classify::kWideWords>(options, like == nullptr ? nullptr : &like->choice_, part.wide_flows);
    } else {
        choice_ = build<9>(options, like == nullptr ? nullptr : &like->choice_, part.flows);
        ipv6_choice_ = build<15>(options, like == nullptr ? nullptr : &like->ipv6_choice_, part.ipv6_flows);
    }
    std::vector<Switch::Flow> entries;
    std::vector<Action> actions;
    for (const uint32_t number : order_) {
        const Flow& flow = flows_[number];
        entries.push_back({groups.append(actions, flow.actions, meters), static_cast<uint32_t>(flow.actions.size()),
                           number, flow.life.counter});
    }
    image_.attach_some(part.entries, std::move(entries));
    image_.attach_some(part.actions, std::move(actions));
}

template <unsigned Words>
EngineChoice FlowBase::build(const SearchOptions& options, const EngineChoice* like,
                             typename classify::Search<Words>::Tables& tables) {
    std::vector<classify::TernaryRule<Words>> rules;
    for (uint32_t position = 0; position < order_.size(); ++position) {
        classify::TernaryRule<Words> rule;
        if (make_rule<Words>(flows_[order_[position]].match, options.pipeline, position, rule)) rules.push_back(rule);
    }
    EngineChoice choice;
    // Counting takes longer than all else, and a linear search is the fastest of a few only.
    if (options.engine) choice.engine = *options.engine;
    else if (like != nullptr && like->engine == Engine::linear && rules.size() > kLinear)
        choice.engine = Engine::merged;
    else if (like != nullptr) choice = *like;
    const bool choose = !options.engine && like == nullptr;
    using Builder = classify::SearchBuilder<Words>;
    Builder builder = choose ? Builder::chosen(rules, options.max_bytes, options.searcher, choice)
                             : Builder(std::move(rules), choice.engine, options.max_bytes);
    bytes_ += builder.bytes();
    builder.attach(image_, tables);
    return choice;
}

std::string FlowBase::choice_text() const {
    return wide_ ? choice_.text() : choice_.text() + "; IPv6 by " + ipv6_choice_.text();
}

/// Links the flows with the same match in order.
void FlowBase::link_alike() {
    const auto hash_of = [](const FlowMatch& match) {
        const MatchKeys keys(match);
        return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&keys), sizeof keys});
    };
    std::vector<std::pair<uint64_t, uint32_t>> by_hash;
    by_hash.reserve(order_.size());
    for (uint32_t position = 0; position < order_.size(); ++position)
        by_hash.emplace_back(hash_of(flows_[order_[position]].match), position);
    std::sort(by_hash.begin(), by_hash.end());
    next_alike_.assign(flows_.size(), kNone);
    // Two matches with one hash are taken for the same: the one behind is looked up among the changes then, which is
    // right, too.
    for (size_t i = 0; i + 1 < by_hash.size(); ++i)
        if (by_hash[i].first == by_hash[i + 1].first)
            next_alike_[order_[by_hash[i].second]] = order_[by_hash[i + 1].second];
}

uint32_t FlowBase::rank(uint16_t priority, uint32_t number) const {
    const auto before = [&](uint32_t other, int) {
        return flows_[other].priority > priority || (flows_[other].priority == priority && other < number);
    };
    return static_cast<uint32_t>(std::lower_bound(order_.begin(), order_.end(), 0, before) - order_.begin());
}

FlowLayer::FlowLayer(const FlowBase& base, std::vector<NumberedChange> changes, const GroupTables& groups,
                     const MeterTables* meters, const SearchOptions& options)
    : changes_(std::move(changes)) {
    std::sort(changes_.begin(), changes_.end(),
              [](const NumberedChange& a, const NumberedChange& b) { return a.number < b.number; });
    if (changes_.empty()) return;
    const std::vector<Item> all = items(base);
    for (const Item& item : all) {
        const Flow& flow = *item.flow;
        ranks_.push_back(base.rank(flow.priority, item.number));
        entries_.push_back({groups.append(actions_, flow.actions, meters), static_cast<uint32_t>(flow.actions.size()),
                            item.number, flow.life.counter});
    }
    if (base.wide()) {
        build<classify::kWideWords>(all, options, wide_search_);
    } else if (options.pipeline &&
               std::any_of(all.begin(), all.end(), [](const Item& item) { return item.flow->match.mask.wide(); })) {
        throw classify::TablesTooLarge("some flow looks at a field that no other has looked at");
    } else {
        build<9>(all, options, search_);
        build<15>(all, options, ipv6_search_);
    }
    if (base.bytes() + bytes_ > options.max_bytes)
        throw classify::TablesTooLarge("the flows with their changes take " + std::to_string(base.bytes() + bytes_) +
                                       " bytes");
}

/// The flows that have come or are others than in the base, in order of match; marks those of the base.
std::vector<FlowLayer::Item> FlowLayer::items(const FlowBase& base) {
    std::vector<Item> all;
    const size_t count = base.flows().size();
    const auto is_gone = [&](uint32_t number) {
        return (gone_[base.position_of(number) / 32] >> base.position_of(number) % 32 & 1) != 0;
    };
    const auto mark = [&](uint32_t number) {
        gone_[base.position_of(number) / 32] |= 1u << base.position_of(number) % 32;
    };
    if (changes_.front().number < count) gone_.resize((count + 31) / 32);
    for (const NumberedChange& change : changes_) {
        if (change.number < count) mark(change.number);
        if (change.flow != nullptr) all.push_back({change.number, change.flow.get()});
    }
    for (const NumberedChange& change : changes_) {
        if (change.number >= count) break;
        uint32_t next = base.next_alike(change.number);
        while (next != FlowBase::kNone && is_gone(next)) next = base.next_alike(next);
        if (next == FlowBase::kNone) continue;
        mark(next);
        all.push_back({next, &base.flows()[next]});
    }
    std::sort(all.begin(), all.end(), [](const Item& a, const Item& b) {
        return a.flow->priority != b.flow->priority ? a.flow->priority > b.flow->priority : a.number < b.number;
    });
    return all;
}

template <unsigned Words>
void FlowLayer::build(const std::vector<Item>& items, const SearchOptions& options,
                      std::optional<classify::SearchBuilder<Words>>& builder) {
    std::vector<classify::TernaryRule<Words>> rules;
    for (uint32_t position = 0; position < items.size(); ++position) {
        classify::TernaryRule<Words> rule;
        if (make_rule<Words>(items[position].flow->match, options.pipeline, position, rule)) rules.push_back(rule);
    }
    const Engine engine = engine_for_changes<Words>(rules);
    builder.emplace(std::move(rules), engine, options.max_bytes);
    bytes_ += builder->bytes();
}

const NumberedChange* FlowLayer::find(uint32_t number) const {
    const auto found = std::lower_bound(
        changes_.begin(), changes_.end(), number,
        [](const NumberedChange& change, uint32_t wanted) { return change.number < wanted; });
    return found == changes_.end() || found->number != number ? nullptr : &*found;
}

void FlowLayer::attach(Image& image, Switch::Tables& tables) {
    image.attach_some(tables.gone, std::move(gone_));
    if (entries_.empty()) return;
    Switch::Part& part = tables.parts[1];
    if (wide_search_) {
        wide_search_->attach(image, part.wide_flows);
    } else {
        search_->attach(image, part.flows);
        ipv6_search_->attach(image, part.ipv6_flows);
    }
    image.attach_some(part.entries, std::move(entries_));
    image.attach_some(part.actions, std::move(actions_));
    image.attach_some(tables.ranks, std::move(ranks_));
}

}  // namespace millrace::nf::flow_switch
