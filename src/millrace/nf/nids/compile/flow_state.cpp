#include "millrace/nf/nids/compile/flow_state.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace millrace::nf::nids {
namespace {

/// Where a rule stands among those that use the same kind of state: who sets some comes before who asks for some, and
/// who does neither comes last.
template <class Options>
int order_in(const Options& options) {
    if (options.empty()) return 3;
    const auto asks = [](const auto& option) { return option.asks(); };
    if (std::none_of(options.begin(), options.end(), asks)) return 0;
    return std::all_of(options.begin(), options.end(), asks) ? 2 : 1;
}

/// Suricata's order: of actions, then of what rules do with flowbits, then with flowint, then with xbits.
std::tuple<int, int, int, int> order_of(const Rule& rule) {
    const int action = rule.action == Action::pass                                         ? 0
                       : rule.action == Action::drop || rule.action == Action::silent_drop ? 1
                       : rule.action == Action::reject                                     ? 2
                                                                                           : 3;
    return {action, order_in(rule.flow_bits), order_in(rule.flow_ints), order_in(rule.host_bits)};
}

/// The names of flowints that matter: those that rules ask for, and all that these come from.
std::set<std::string> asked_ints(const std::vector<Rule>& rules) {
    std::set<std::string> asked;
    for (size_t before = 1; before != asked.size();) {
        before = asked.size();
        for (const Rule& rule : rules)
            for (const FlowInt& number : rule.flow_ints) {
                if (!number.asks() && !asked.contains(number.name)) continue;
                asked.insert(number.name);
                if (!number.other.empty()) asked.insert(number.other);
            }
    }
    return asked;
}

/// Numbers for those names: the ones that they had before, if there is room for all.
NameNumbers number_ints(const std::vector<Rule>& rules, const std::set<std::string>& asked, NameNumbers before) {
    const auto is_new = [&](const std::string& name) { return !before.contains(name); };
    const auto fresh = static_cast<size_t>(std::count_if(asked.begin(), asked.end(), is_new));
    if (before.size() + fresh > kMaxFlowInts) before.clear();
    auto next = static_cast<uint32_t>(before.size());
    for (const Rule& rule : rules)
        for (const FlowInt& number : rule.flow_ints)
            for (const std::string* name : {&number.name, &number.other}) {
                if (!asked.contains(*name) || !before.emplace(*name, next).second) continue;
                if (++next <= kMaxFlowInts) continue;
                throw ConfigError({rule.where,
                                   "flowint names more than " + std::to_string(kMaxFlowInts) + " numbers: '" + *name +
                                       "' has no room",
                                   "leave rules out by 'disable:', or put them into a NIDS of their own"});
            }
    return before;
}

class StateCompiler {
public:
    explicit StateCompiler(FlowNames names) {
        out_.names = std::move(names);
        for (const auto& [name, number] : out_.names.bits) next_ = std::max(next_, number + 1);
    }
    /// False where none of it matters.
    bool add(const Rule& rule, uint32_t number) {
        StateRule own{.rule = number, .first_op = static_cast<uint32_t>(out_.ops.size()), .ops = 0};
        for (const StreamSize& size : rule.stream_sizes) add(size);
        for (const bool asks : {true, false}) {
            for (const FlowBits& bits : rule.flow_bits)
                if (bits.asks() == asks) add(bits);
            for (const FlowInt& number : rule.flow_ints)
                if (number.asks() == asks) add(number);
        }
        own.ops = static_cast<uint32_t>(out_.ops.size()) - own.first_op;
        if (own.ops == 0 && rule.host_bits.empty()) return false;
        out_.rules.push_back(own);
        return true;
    }
    CompiledState take() { return std::move(out_); }

private:
    void add(const FlowBits& bits) {
        add(bits.verb, bits.names.size(), bits.all);
        for (const std::string& name : bits.names) {
            const auto [at, added] = out_.names.bits.emplace(name, next_);
            if (added) ++next_;
            out_.numbers.push_back(at->second);
        }
    }
    void add(const StreamSize& size) {
        out_.asks_numbers = true;
        add(StateVerb::stream_size, static_cast<size_t>(size.ends), size.comparison);
        out_.numbers.push_back(size.bytes);
    }
    void add(const FlowInt& number) {
        const auto& ints = out_.names.ints;
        const auto own = ints.find(number.name), other = ints.find(number.other);
        if (own == ints.end()) return;
        out_.asks_numbers = true;
        add(number.verb, number.other.empty() ? 0 : 1, number.comparison);
        out_.numbers.push_back(own->second);
        out_.numbers.push_back(number.other.empty() ? number.value : other->second);
    }
    template <class How>
    void add(StateVerb verb, size_t count, How how) {
        out_.ops.push_back({.first = static_cast<uint32_t>(out_.numbers.size()),
                            .count = static_cast<uint16_t>(count),
                            .verb = verb,
                            .how = static_cast<uint8_t>(how)});
    }

    CompiledState out_;
    uint32_t next_ = 0;
};

}  // namespace

CompiledState compile_state(const std::vector<Rule>& rules, std::vector<CompiledRule>& compiled, FlowNames before) {
    std::vector<uint32_t> in_order;
    for (uint32_t i = 0; i < rules.size(); ++i)
        if (rules[i].uses_state()) in_order.push_back(i);
    std::stable_sort(in_order.begin(), in_order.end(),
                     [&](uint32_t a, uint32_t b) { return order_of(rules[a]) < order_of(rules[b]); });
    before.ints = number_ints(rules, asked_ints(rules), std::move(before.ints));
    StateCompiler compiler(std::move(before));
    uint16_t place = 0;
    for (const uint32_t rule : in_order)
        if (compiler.add(rules[rule], rule)) compiled[rule].state_rule = ++place;
    return compiler.take();
}

void CompiledState::attach(Image& image, StateTables& tables) const {
    image.attach_some(tables.rules, rules);
    image.attach_some(tables.ops, ops);
    image.attach_some(tables.numbers, numbers);
}

}  // namespace millrace::nf::nids
