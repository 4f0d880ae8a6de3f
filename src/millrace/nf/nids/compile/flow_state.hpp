// What rules ask of flows, and leave with them, as tables.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

/// Which bit of a flow a name is.
using NameNumbers = std::map<std::string, uint32_t>;

struct CompiledState {
    std::vector<StateRule> rules;
    std::vector<StateOp> ops;
    std::vector<uint32_t> numbers;
    NameNumbers names;          ///< of these rules, and those that were there before
    bool asks_numbers = false;  ///< whether any rule is_of_numbers

    void attach(Image& image, StateTables& tables) const;
};

/// Of rules that ask for state of flows; `compiled` gets their places. `before`: names of bits keep these numbers,
/// others get new ones.
CompiledState compile_state(const std::vector<Rule>& rules, std::vector<CompiledRule>& compiled, NameNumbers before);

}  // namespace millrace::nf::nids
