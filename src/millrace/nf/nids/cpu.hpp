// The CPU half: a library finds the patterns of a whole vector, the device half's code confirms.
#pragma once

#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/pattern/cpu/matcher.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::nf::nids {

/// Whose `process` a CPU half stands for: that of Nids, FlowsHalf, and StreamsHalf without and with messages.
enum class Follows { nothing, flows, streams, messages };

/// `tables` must live as long as the half.
std::unique_ptr<CpuHalf> make_cpu_half(std::shared_ptr<const pattern::PatternSet> patterns, pattern::Engine engine,
                                       const NidsTables& tables, Follows follows);

}  // namespace millrace::nf::nids
