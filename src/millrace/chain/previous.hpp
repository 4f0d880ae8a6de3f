// Which function of the generation before a new one takes its state over from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/chain/program.hpp"

namespace millrace::chain {

/// Sets Environment::previous to the node of that chain, name and kind among the chains `before`. One that was built
/// anew may keep its state in another form: then it warns, where there is state.
void find_previous(const std::vector<std::shared_ptr<const Program>>& before, const std::string& chain,
                   const Node& node, nf::Environment& environment);

}  // namespace millrace::chain
