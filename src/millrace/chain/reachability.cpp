#include "millrace/chain/reachability.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "millrace/nf/connections.hpp"

namespace millrace::chain {

std::vector<Diagnostic> unreached(const Configuration& configuration) {
    std::vector<Diagnostic> mistakes;
    std::set<uint16_t> reached_chains;
    for (const ClassificationRule& rule : configuration.classification.rules()) reached_chains.insert(rule.chain);
    for (const auto& program : configuration.chains) {
        std::vector<bool> reached(program->nodes.size(), false);
        if (!reached.empty()) reached[0] = true;
        for (size_t i = 0; i < program->nodes.size(); ++i) {
            const Node& node = program->nodes[i];
            if (!reached[i]) {
                mistakes.push_back(
                    {node.where, "no packet can reach '" + node.name + "'",
                     "every outcome of the network functions before it leads elsewhere; look at their 'on:'"});
                continue;
            }
            for (const Target& target : node.targets) {
                if (target.kind == Target::Kind::node) reached[target.value] = true;
                if (target.kind == Target::Kind::chain) reached_chains.insert(target.value);
            }
        }
    }
    for (const auto& program : configuration.chains)
        if (!reached_chains.contains(program->index))
            mistakes.push_back(
                {program->where, "no packet can reach the chain '" + program->name + "'",
                 "give it an 'input:', a line under 'classify:', or an outcome 'chain " + program->name + "'"});
    return mistakes;
}

std::vector<Diagnostic> untracked(const Configuration& configuration) {
    std::vector<Diagnostic> mistakes;
    for (const auto& program : configuration.chains) {
        std::vector<bool> tracked(program->nodes.size(), false);  // on some way that leads there
        for (size_t i = 0; i < program->nodes.size(); ++i) {
            const Node& node = program->nodes[i];
            const auto* const reads = dynamic_cast<const nf::ReadsConnections*>(node.nf.get());
            if (reads != nullptr && reads->reads_connections() && !tracked[i])
                mistakes.push_back({node.where,
                                    "'" + node.name +
                                        "' asks for the state of connections, and nothing before it in "
                                        "chain '" +
                                        program->name + "' tracks them",
                                    "put '- conntrack:' before it"});
            if (!tracked[i] && dynamic_cast<const nf::TracksConnections*>(node.nf.get()) == nullptr) continue;
            for (const Target& target : node.targets)
                if (target.kind == Target::Kind::node) tracked[target.value] = true;
        }
    }
    return mistakes;
}

namespace {

/// Whether what a chain punts has somewhere to go. Whose packets come from other chains, or by `classify:`, may be from
/// any port that a tap stands for.
bool has_punt_port(const Program& program) {
    if (program.punt_port != kNoPort || (program.taps != nullptr && program.inputs.empty())) return true;
    return program.taps != nullptr &&
           std::ranges::all_of(program.inputs, [&](uint16_t port) { return program.punt_port_of(port) != kNoPort; });
}

}  // namespace

std::vector<Diagnostic> lost_punts(const Configuration& configuration) {
    std::vector<Diagnostic> warnings;
    for (const auto& program : configuration.chains) {
        if (has_punt_port(*program)) continue;
        for (const Node& node : program->nodes) {
            std::string outcomes;
            for (uint32_t i = 0; i < node.targets.size(); ++i)
                if (node.targets[i].kind == Target::Kind::punt && node.nf->needs_punt_port(i))
                    outcomes += (outcomes.empty() ? "" : ", ") + node.type->outcomes[i].name;
            if (outcomes.empty()) continue;
            warnings.push_back(
                {node.where,
                 "chain '" + program->name + "' has no punt port, so packets that '" + node.name +
                     "' punts are dropped (" + outcomes + ")",
                 "add 'punt: PORT' to the chain or 'linux: NAME' to its ports, or say by 'on:' where they go, such "
                 "as drop"});
        }
    }
    return warnings;
}

std::vector<Diagnostic> circles(const Configuration& configuration, const TargetPlaces& places) {
    std::vector<Diagnostic> mistakes;
    enum { unseen, open, done };
    std::vector<int> state(configuration.chains.size(), unseen);
    struct Step {
        size_t chain, node, outcome;  ///< the next to look at
    };
    std::vector<Step> way;  // as deep as there are chains: too deep for the stack
    const auto enter = [&](size_t chain) {
        state[chain] = open;
        way.push_back({chain, 0, 0});
    };
    const auto look_on = [&] {
        Step& step = way.back();
        const Program& program = *configuration.chains[step.chain];
        if (step.node == program.nodes.size()) {
            state[step.chain] = done;
            way.pop_back();
            return;
        }
        const size_t node = step.node, outcome = step.outcome++;
        if (outcome == program.nodes[node].targets.size()) {
            step = {step.chain, node + 1, 0};
            return;
        }
        const Target& target = program.nodes[node].targets[outcome];
        if (target.kind != Target::Kind::chain) return;
        if (state[target.value] == open) {
            mistakes.push_back({places.at({program.index, node, outcome}),
                                "chain '" + program.name + "' leads back to chain '" +
                                    configuration.chains[target.value]->name + "': a packet could go round for ever",
                                "lead one of them to a port"});
        } else if (state[target.value] == unseen) {
            enter(target.value);
        }
    };
    for (size_t i = 0; i < state.size(); ++i) {
        if (state[i] == unseen) enter(i);
        while (!way.empty()) look_on();
    }
    return mistakes;
}

}  // namespace millrace::chain
