// The kernel around a fenced function: calls it once for each packet of a batch. It is ours, and nothing fences it.
#pragma once

#include <string>

#include "millrace/isolation/ptx/module.hpp"

namespace millrace::isolation {

/// The rewriter's own names are nobody else's.
inline constexpr const char* kKernelName = "fence_kernel";

/// Empty where a module has a function of that name that others may call as (packet, tables) with a decision of eight
/// bytes as result: the process function of a network function. Else what is wrong.
std::string why_not_process(const ptx::Module& module, const std::string& function);

/// The text of a fenced module with the kernel behind it. Its parameters: the address of the first packet's handle, the
/// distance from one to the next, the address of the tables, that of the first of the decisions, each 64 bits, and the
/// number of packets, 32 bits. `function` is one that why_not_process has nothing against.
std::string write_with_kernel(const ptx::Module& fenced, const std::string& function);

}  // namespace millrace::isolation
