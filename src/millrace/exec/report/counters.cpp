#include "millrace/exec/report/counters.hpp"

#include <algorithm>
#include <utility>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/nf/variant.hpp"

namespace millrace::exec {

StageMeans means_of(const StageCycles& cycles, uint64_t batches, uint64_t packets) {
    StageMeans means;
    if (std::all_of(cycles.begin(), cycles.end(), [](uint64_t stage) { return stage == 0; })) return means;
    for (size_t i = 0; i < cycles.size() && batches > 0; ++i) {
        means.us[kBatchStageNames[i]] = static_cast<double>(to_nanoseconds(cycles[i])) * 1e-3 /
                                        static_cast<double>(batches);
        if (takes_cpu(static_cast<BatchStage>(i)) && packets > 0)
            means.cycles_per_packet[kBatchStageNames[i]] = static_cast<double>(cycles[i]) /
                                                           static_cast<double>(packets);
    }
    return means;
}

NodeCounters::NodeCounters(const chain::Node& node)
    : name(node.name), kind(nf::kind_of(*node.type).name), by_outcome(node.type->outcomes.size() + 1) {
    for (uint32_t outcome = 0; outcome <= node.type->outcomes.size(); ++outcome) {
        outcomes.emplace_back(node.outcome_name(outcome));
        targets.push_back(node.target(outcome));
    }
}

ChainCounters::ChainCounters(const chain::Program& program) : chain(program.name) {
    for (const chain::Node& node : program.nodes) nodes.push_back(std::make_shared<NodeCounters>(node));
}

ChainCounters::ChainCounters(const chain::Program& program, std::vector<ChainCounters*> of_parts)
    : chain(program.name), parts(std::move(of_parts)) {
    for (size_t node = 0; node < program.nodes.size(); ++node) {
        const uint16_t number = program.chain_of_node[node];
        nodes.push_back(parts[number]->nodes[program.parts[number].node_of_chain(static_cast<uint16_t>(node))]);
        by_node.push_back(parts[number]);
    }
}

bool ChainCounters::fits(const chain::Program& program) const {
    if (program.name != chain || program.nodes.size() != nodes.size()) return false;
    for (size_t i = 0; i < nodes.size(); ++i) {
        const NodeCounters next(program.nodes[i]), &now = *nodes[i];
        if (next.name != now.name || next.kind != now.kind || next.targets != now.targets ||
            next.outcomes != now.outcomes)
            return false;
    }
    return true;
}

}  // namespace millrace::exec
