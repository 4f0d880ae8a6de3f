// One network function over a vector of packets, on the CPU.
#pragma once

#include <span>

#include "millrace/chain/program.hpp"

namespace millrace::exec {

/// Decides on `packets` (at most nf::kCpuVector, in order of arrival) and changes their bytes: by `half`, or by the
/// device half where that is null. Any number of threads may run a node at the same time; packets that have an order
/// get their tickets and commits here.
void run_function(const chain::Node& node, nf::CpuHalf* half, std::span<Packet* const> packets, Decision* decisions);

}  // namespace millrace::exec
