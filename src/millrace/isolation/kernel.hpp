// How others come to call a fenced function: a kernel around it, which calls it once for each packet of a batch, or a
// name by which other kernels call it. Both are ours, and nothing fences them.
#pragma once

#include <string>

#include "millrace/isolation/ptx/module.hpp"

namespace millrace::isolation {

/// The rewriter's own names are nobody else's.
inline constexpr const char* kKernelName = "fence_kernel";

/// Empty where a module has a function of that name that others may call as (packet, tables) with a decision of eight
/// bytes as result: the process function of a network function. Else what is wrong.
std::string why_not_process(const ptx::Module& module, const std::string& function);

/// A fenced module as text, of which nobody else may call anything as it stands.
struct FencedText {
    std::string text;
    std::string process;          ///< its process function
    uint32_t decision_alignment;  ///< of what that gives
};
/// `function` is one that why_not_process has nothing against.
FencedText write_fenced(ptx::Module fenced, const std::string& function);

/// With the kernel behind it. Its parameters: the address of the first packet's handle, the distance from one to the
/// next, the address of the tables, that of the first of the decisions, each 64 bits, and the number of packets, 32
/// bits.
std::string with_kernel(const FencedText& fenced);

/// The name of the function that as_function writes.
std::string function_name(unsigned number);
/// With a function behind it that others may call, to be linked with them: takes the addresses of a packet and of the
/// tables, 64 bits each, and gives the decision in 64 bits, its outcome in the upper half.
std::string as_function(const FencedText& fenced, unsigned number);

}  // namespace millrace::isolation
