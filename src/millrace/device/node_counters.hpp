// How many packets met which outcome, as a batch counts them.
#pragma once

#include <algorithm>

#include "millrace/chain/program.hpp"
#include "millrace/device/kernel/windows.hpp"

namespace millrace::device {

/// Counters of each node in BatchView::outcome_counts: one for each outcome of the node that has the most, then, where
/// functions are tenants', those of ConfinedCount, last one for outcomes that were not declared. They cross the bus
/// with each batch, both ways, and a worker adds them up: a thousand chains have some thousand nodes.
inline size_t counters_of_node(const chain::Program& program) {
    size_t outcomes = 0;
    bool is_tenants = false;
    for (const chain::Node& node : program.nodes) {
        outcomes = std::max(outcomes, node.targets.size());
        is_tenants |= node.type->is_tenants;
    }
    return outcomes + (is_tenants ? kConfinedCounts : 0) + 1;
}

/// Of all nodes.
inline size_t counters_of(const chain::Program& program) { return program.nodes.size() * counters_of_node(program); }

}  // namespace millrace::device
