#include "millrace/exec/counters.hpp"

namespace millrace::exec {

ChainCounters::ChainCounters(const chain::Program& program) : chain(program.name) {
    for (const chain::Node& node : program.nodes) {
        node_names.push_back(node.name);
        nodes.push_back(std::make_unique<NodeCounters>(node.type->outcomes.size()));
    }
}

bool ChainCounters::fits(const chain::Program& program) const {
    if (program.name != chain || program.nodes.size() != nodes.size()) return false;
    for (size_t i = 0; i < nodes.size(); ++i) {
        const chain::Node& node = program.nodes[i];
        if (node.name != node_names[i] || node.type->outcomes.size() != nodes[i]->by_outcome.size()) return false;
    }
    return true;
}

}  // namespace millrace::exec
