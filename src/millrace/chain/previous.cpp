#include "millrace/chain/previous.hpp"

#include <algorithm>

#include "millrace/nf/variant.hpp"

namespace millrace::chain {

void find_previous(const std::vector<std::shared_ptr<const Program>>& before, const std::string& chain,
                   const Node& node, nf::Environment& environment) {
    for (const auto& program : before)
        for (const Node& old : program->nodes) {
            if (program->whole != chain || old.name != node.name || nf::kind_of(*old.type).name != node.type->name)
                continue;
            if (&nf::kind_of(*old.type) == node.type) {
                environment.previous = old.nf.get();
                continue;
            }
            if (std::ranges::any_of(old.nf->image().arrays(), [](const auto& array) { return array.is_state(); }))
                environment.warn({node.where, "'" + node.name + "' has been built anew: its state begins afresh", "",
                                  Diagnostic::Severity::warning});
        }
}

}  // namespace millrace::chain
