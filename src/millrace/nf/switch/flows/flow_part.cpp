#include "millrace/nf/switch/flows/flow_part.hpp"

#include <algorithm>
#include <set>

#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::nf::flow_switch {
namespace {

using classify::Engine;
using classify::EngineChoice;

/// Up to so many changes are searched one after the other, and some more where hardly two have the same mask.
constexpr size_t kLinear = 48, kLinearMasks = 512, kRulesOfClass = 8;

/// A flow as a rule for keys of that many words; false where no packet with such a key can match.
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

template <unsigned Words>
Engine engine_for_changes(const std::vector<classify::TernaryRule<Words>>& rules) {
    if (rules.size() <= kLinear) return Engine::linear;
    std::set<std::array<uint32_t, Words>> masks;
    for (const auto& rule : rules)
        if (masks.insert(std::to_array(rule.mask)).second && masks.size() * kRulesOfClass > rules.size())
            return rules.size() <= kLinearMasks ? Engine::linear : Engine::merged;
    return Engine::tuple;
}

/// Comes before those of higher orders.
uint64_t order_of(const NumberedFlow& flow) {
    return static_cast<uint64_t>(0xffffu - flow.flow->priority) << 32 | flow.number;
}

}  // namespace

FlowPart::FlowPart(std::vector<NumberedFlow> flows, Named named, const SearchOptions& options, Purpose purpose,
                   const FlowPart* like, bool wide)
    : flows_(std::move(flows)), order_(flows_.size()), positions_(flows_.size()), wide_(wide) {
    std::vector<std::pair<uint64_t, uint32_t>> sorted;
    sorted.reserve(flows_.size());
    for (uint32_t i = 0; i < flows_.size(); ++i) sorted.emplace_back(order_of(flows_[i]), i);
    std::sort(sorted.begin(), sorted.end());
    std::vector<Switch::Flow> entries;
    std::vector<Action> actions;
    std::vector<uint64_t> orders;
    entries.reserve(flows_.size());
    orders.reserve(flows_.size());
    for (uint32_t position = 0; position < sorted.size(); ++position) {
        const auto [order, index] = sorted[position];
        order_[position] = index;
        positions_[index] = position;
        const Flow& flow = *flows_[index].flow;
        entries.push_back({named.groups->append(actions, flow.actions, named.meters),
                           static_cast<uint32_t>(flow.actions.size()), flows_[index].number, flow.life.counter});
        orders.push_back(order);
    }
    entries_ = std::make_shared<const std::vector<Switch::Flow>>(std::move(entries));
    actions_ = std::make_shared<const std::vector<Action>>(std::move(actions));
    orders_ = std::make_shared<const std::vector<uint64_t>>(std::move(orders));
    if (like != nullptr && like->wide_ != wide_) like = nullptr;
    const EngineChoice* const choice = like == nullptr ? nullptr : &like->choice_;
    if (wide_) {
        wide_search_ = build<classify::kWideWords>(options, purpose, choice, choice_);
    } else {
        search_ = build<9>(options, purpose, choice, choice_);
        ipv6_search_ = build<15>(options, purpose, like == nullptr ? nullptr : &like->ipv6_choice_, ipv6_choice_);
    }
}

template <unsigned Words>
std::optional<classify::SearchBuilder<Words>> FlowPart::build(const SearchOptions& options, Purpose purpose,
                                                              const EngineChoice* like, EngineChoice& choice) {
    std::vector<classify::TernaryRule<Words>> rules;
    rules.reserve(order_.size());
    for (uint32_t position = 0; position < order_.size(); ++position) {
        classify::TernaryRule<Words> rule;
        if (make_rule<Words>(at(position).match, options.pipeline, position, rule)) rules.push_back(rule);
    }
    using Builder = classify::SearchBuilder<Words>;
    std::optional<Builder> builder;
    // Counting takes longer than all else, and a linear search is the fastest of a few only.
    if (purpose == Purpose::changes) choice.engine = engine_for_changes<Words>(rules);
    else if (options.engine) choice.engine = *options.engine;
    else if (like != nullptr && like->engine == Engine::linear && rules.size() > kLinear)
        choice.engine = Engine::merged;
    else if (like != nullptr) choice = *like;
    else builder.emplace(Builder::chosen(rules, options.max_bytes, options.searcher, choice));
    try {
        if (!builder) builder.emplace(rules, choice.engine, options.max_bytes);
    } catch (const classify::TablesTooLarge&) {
        // Tuples take the least, and changes are searched by them: flows that fitted shall go on to.
        if (options.engine || choice.engine == Engine::tuple) throw;
        choice = {};
        choice.engine = Engine::tuple;
        builder.emplace(rules, choice.engine, options.max_bytes);
    }
    bytes_ += builder->bytes();
    return builder;
}

std::optional<uint32_t> FlowPart::position_of(uint32_t number) const {
    const auto found = std::lower_bound(flows_.begin(), flows_.end(), number,
                                        [](const NumberedFlow& flow, uint32_t wanted) { return flow.number < wanted; });
    if (found == flows_.end() || found->number != number) return std::nullopt;
    return positions_[static_cast<size_t>(found - flows_.begin())];
}

void FlowPart::attach(Image& image, Switch::Part& part, bool ordered) const {
    if (search_) search_->attach(image, part.flows);
    if (ipv6_search_) ipv6_search_->attach(image, part.ipv6_flows);
    if (wide_search_) wide_search_->attach(image, part.wide_flows);
    if (!entries_->empty()) image.attach(part.entries, entries_);
    if (!actions_->empty()) image.attach(part.actions, actions_);
    if (ordered && !orders_->empty()) image.attach(part.orders, orders_);
}

}  // namespace millrace::nf::flow_switch
