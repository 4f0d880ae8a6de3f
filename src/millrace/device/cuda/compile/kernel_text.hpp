// The text of a chain's kernels, which call what stands in device/kernel/ and the functions of the NFs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/device/cuda/compile/chain_source.hpp"

namespace millrace::device::cuda {

/// How many lanes a node gets.
using LaneChoice = std::function<unsigned(const chain::Node&)>;

/// The node that a stage's others are like.
inline const chain::Node& first_node(const chain::Program& program, size_t stage) {
    return program.nodes[program.stage(stage).first];
}

/// Defines where a stage's outcomes lead.
std::string targets(const chain::Program& program, size_t stage);

/// One step as a kernel.
std::string step_kernel(const chain::Program& program, const TableLayout& layout, const Step& step,
                        const Kernel& kernel, const LaneChoice& lanes);

/// A step through windows as a kernel. Its functions are isolation::function_name(first) and those behind it.
std::string confined_kernel(const chain::Program& program, const Step& step, const Kernel& kernel, unsigned first);

/// Numbering wants as many.
inline constexpr unsigned kResidentThreads = kMaxBlockThreads;
/// All steps as one kernel that stays. A share of the packets is one block's from the first step to the last, so that
/// blocks meet only around what has an order.
std::string resident_kernel(const chain::Program& program, const TableLayout& layout, const std::vector<Step>& steps,
                            const Kernel& kernel, const LaneChoice& lanes);

}  // namespace millrace::device::cuda
