#include "millrace/nf/nids/compile/flow_bits.hpp"

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

class BitCompiler {
public:
    explicit BitCompiler(BitNumbers before) {
        out_.names = std::move(before);
        for (const auto& [name, number] : out_.names) next_ = std::max(next_, number + 1);
    }
    void add(const Rule& rule, uint32_t number) {
        BitRule own{.rule = number, .first_op = static_cast<uint32_t>(out_.ops.size()), .ops = 0};
        for (const bool asks : {true, false})
            for (const FlowBits& bits : rule.flow_bits)
                if (bits.asks() == asks) add(bits);
        own.ops = static_cast<uint32_t>(out_.ops.size()) - own.first_op;
        out_.rules.push_back(own);
    }
    CompiledBits take() { return std::move(out_); }

private:
    void add(const FlowBits& bits) {
        out_.ops.push_back({.first = static_cast<uint32_t>(out_.numbers.size()),
                            .count = static_cast<uint16_t>(bits.names.size()),
                            .verb = bits.verb,
                            .all = bits.all});
        for (const std::string& name : bits.names) {
            const auto [at, added] = out_.names.emplace(name, next_);
            if (added) ++next_;
            out_.numbers.push_back(at->second);
        }
    }

    CompiledBits out_;
    uint32_t next_ = 0;
};

}  // namespace

CompiledBits compile_bits(const std::vector<Rule>& rules, std::vector<CompiledRule>& compiled, BitNumbers before) {
    std::vector<uint32_t> in_order;
    for (uint32_t i = 0; i < rules.size(); ++i)
        if (!rules[i].flow_bits.empty()) in_order.push_back(i);
    std::stable_sort(in_order.begin(), in_order.end(),
                     [&](uint32_t a, uint32_t b) { return order_of(rules[a]) < order_of(rules[b]); });
    BitCompiler compiler(std::move(before));
    for (size_t place = 0; place < in_order.size(); ++place) {
        compiler.add(rules[in_order[place]], in_order[place]);
        compiled[in_order[place]].bits = static_cast<uint16_t>(place + 1);
    }
    return compiler.take();
}

void CompiledBits::attach(Image& image, BitTables& tables) const {
    image.attach_some(tables.rules, rules);
    image.attach_some(tables.ops, ops);
    image.attach_some(tables.numbers, numbers);
}

}  // namespace millrace::nf::nids
