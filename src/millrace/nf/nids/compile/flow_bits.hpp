// Flowbits of rules as tables.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

/// Which bit of a flow a name is.
using BitNumbers = std::map<std::string, uint32_t>;

struct CompiledBits {
    std::vector<BitRule> rules;
    std::vector<BitOp> ops;
    std::vector<uint32_t> numbers;
    BitNumbers names;  ///< of these rules, and those that were there before

    void attach(Image& image, BitTables& tables) const;
};

/// The flowbits of rules, those without any left out; `compiled` gets their places. `before`: names keep these numbers,
/// others get new ones.
CompiledBits compile_bits(const std::vector<Rule>& rules, std::vector<CompiledRule>& compiled, BitNumbers before);

}  // namespace millrace::nf::nids
