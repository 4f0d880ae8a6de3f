#include "millrace/nf/nids/compile/flow_state.hpp"

#include <algorithm>
#include <tuple>

namespace millrace::nf::nids {
namespace {

/// Suricata's order of actions, then of what rules do with flowbits: so that of the rules which one packet meets those
/// that set bits come before those that ask for them.
std::tuple<int, int> order_of(const Rule& rule) {
    const int action = rule.action == Action::pass                                         ? 0
                       : rule.action == Action::drop || rule.action == Action::silent_drop ? 1
                       : rule.action == Action::reject                                     ? 2
                                                                                           : 3;
    const bool asks = std::any_of(rule.flow_bits.begin(), rule.flow_bits.end(),
                                  [](const FlowBits& bits) { return bits.asks(); });
    return {action, !asks ? 0 : rule.sets_bits() ? 1 : 2};
}

class StateCompiler {
public:
    explicit StateCompiler(NameNumbers before) {
        out_.names = std::move(before);
        for (const auto& [name, number] : out_.names) next_ = std::max(next_, number + 1);
    }
    void add(const Rule& rule, uint32_t number) {
        StateRule own{.rule = number, .first_op = static_cast<uint32_t>(out_.ops.size()), .ops = 0};
        for (const StreamSize& size : rule.stream_sizes) add(size);
        for (const bool asks : {true, false})
            for (const FlowBits& bits : rule.flow_bits)
                if (bits.asks() == asks) add(bits);
        own.ops = static_cast<uint32_t>(out_.ops.size()) - own.first_op;
        out_.rules.push_back(own);
    }
    CompiledState take() { return std::move(out_); }

private:
    void add(const FlowBits& bits) {
        out_.ops.push_back({.first = static_cast<uint32_t>(out_.numbers.size()),
                            .count = static_cast<uint16_t>(bits.names.size()),
                            .verb = bits.verb,
                            .how = bits.all});
        for (const std::string& name : bits.names) {
            const auto [at, added] = out_.names.emplace(name, next_);
            if (added) ++next_;
            out_.numbers.push_back(at->second);
        }
    }

    void add(const StreamSize& size) {
        out_.asks_numbers = true;
        out_.ops.push_back({.first = static_cast<uint32_t>(out_.numbers.size()),
                            .count = static_cast<uint16_t>(size.ends),
                            .verb = StateVerb::stream_size,
                            .how = static_cast<uint8_t>(size.comparison)});
        out_.numbers.push_back(size.bytes);
    }

    CompiledState out_;
    uint32_t next_ = 0;
};

}  // namespace

CompiledState compile_state(const std::vector<Rule>& rules, std::vector<CompiledRule>& compiled, NameNumbers before) {
    std::vector<uint32_t> in_order;
    for (uint32_t i = 0; i < rules.size(); ++i)
        if (rules[i].uses_state()) in_order.push_back(i);
    std::stable_sort(in_order.begin(), in_order.end(),
                     [&](uint32_t a, uint32_t b) { return order_of(rules[a]) < order_of(rules[b]); });
    StateCompiler compiler(std::move(before));
    for (size_t place = 0; place < in_order.size(); ++place) {
        compiler.add(rules[in_order[place]], in_order[place]);
        compiled[in_order[place]].state_rule = static_cast<uint16_t>(place + 1);
    }
    return compiler.take();
}

void CompiledState::attach(Image& image, StateTables& tables) const {
    image.attach_some(tables.rules, rules);
    image.attach_some(tables.ops, ops);
    image.attach_some(tables.numbers, numbers);
}

}  // namespace millrace::nf::nids
