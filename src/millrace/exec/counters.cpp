#include "millrace/exec/counters.hpp"

#include "millrace/exec/cpu_engine.hpp"

namespace millrace::exec {

StageMeans means_of(const StageCycles& cycles, uint64_t batches, uint64_t packets) {
    StageMeans means;
    for (size_t i = 0; i < cycles.size() && batches > 0; ++i) {
        means.us[kBatchStageNames[i]] = static_cast<double>(to_nanoseconds(cycles[i])) * 1e-3 / static_cast<double>(batches);
        if (takes_cpu(static_cast<BatchStage>(i)) && packets > 0)
            means.cycles_per_packet[kBatchStageNames[i]] = static_cast<double>(cycles[i]) / static_cast<double>(packets);
    }
    return means;
}

NodeCounters::NodeCounters(const chain::Node& node)
    : name(node.name), kind(node.type->name), targets(node.targets), by_outcome(node.type->outcomes.size()) {
    for (const nf::Outcome& outcome : node.type->outcomes) outcomes.push_back(outcome.name);
}

ChainCounters::ChainCounters(const chain::Program& program) : chain(program.name) {
    for (const chain::Node& node : program.nodes) nodes.push_back(std::make_unique<NodeCounters>(node));
}

bool ChainCounters::fits(const chain::Program& program) const {
    if (program.name != chain || program.nodes.size() != nodes.size()) return false;
    for (size_t i = 0; i < nodes.size(); ++i) {
        const chain::Node& node = program.nodes[i];
        if (node.name != nodes[i]->name || node.type->name != nodes[i]->kind || node.targets != nodes[i]->targets) return false;
    }
    return true;
}

}  // namespace millrace::exec
