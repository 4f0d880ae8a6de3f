// The CUDA C++ of a chain: one translation unit for each NF, one for the chain's kernels.
#pragma once

#include <string>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::device::cuda {

/// One translation unit for NVRTC. Its includes are found with nf::find_device_source.
struct TranslationUnit {
    std::string name;
    std::string text;
};

/// The source of a program and what its kernels are called.
struct ChainSource {
    /// One for each kind of NF and number of lanes that the chain uses. Depends on nothing else, so
    /// that what it compiles to serves every chain.
    std::vector<TranslationUnit> nfs;
    /// The kernels, one for each step: `millrace_step_0`, … with the chain's constants built in.
    TranslationUnit chain;
    std::vector<std::string> kernels;
};

/// Threads of a block, and packets that a block works on: NFs with several lanes per packet take the
/// block's packets in turns.
inline constexpr unsigned kBlockThreads = 128;

/// Writes the source that runs `steps` of `program`. Every kernel has the parameters
/// (BatchView batch, const void* const* tables), tables by node.
ChainSource make_chain_source(const chain::Program& program, const std::vector<Step>& steps);

}  // namespace millrace::device::cuda
