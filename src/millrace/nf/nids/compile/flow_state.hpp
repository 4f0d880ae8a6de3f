// What rules ask of flows, and leave with them, as tables.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

using NameNumbers = std::map<std::string, uint32_t>;
/// Which bit of a flow, or which of its numbers, a name is.
struct FlowNames {
    NameNumbers bits, ints;
};

struct CompiledState {
    std::vector<StateRule> rules;
    std::vector<StateOp> ops;
    std::vector<uint32_t> numbers;
    FlowNames names;            ///< of these rules, and those that were there before
    bool asks_numbers = false;  ///< whether any rule is_of_numbers

    void attach(Image& image, StateTables& tables) const;
};

/// Of rules that ask for state of flows; `compiled` gets their places. `before`: names keep these numbers, others get
/// new ones. Flowints that no rule asks for are left out. Throws ConfigError where there are more than kMaxFlowInts.
CompiledState compile_state(const std::vector<Rule>& rules, std::vector<CompiledRule>& compiled, FlowNames before);

}  // namespace millrace::nf::nids
