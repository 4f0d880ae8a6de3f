// The CUDA C++ of a chain: one translation unit for each NF, and those of the chain's kernels.
#pragma once

#include <string>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::device::cuda {

/// One translation unit for NVRTC. Its includes are found with nf::find_device_source, `own` first.
struct TranslationUnit {
    std::string name;
    std::string text;
    const nf::DeviceSources* own = nullptr;  ///< headers of the plugin that it is for
};

/// One kernel of a chain and how it is launched.
struct Kernel {
    size_t step = 0;           ///< that it runs, among the program's; 0 for one that runs all
    std::string name;          ///< `millrace_step_0_of_9`, `millrace_one_lane_step_0_of_9`, …
    unsigned threads = 0;      ///< of a block
    unsigned packets = 0;      ///< that a block works on; 0: one block works on the whole batch
    unsigned spread = 0;       ///< batches of up to so many packets are spread over all multiprocessors; 0: none
    unsigned most_blocks = 0;  ///< that share the batch; 0: as many as it takes
    uint32_t block_bytes = 0;  ///< of shared memory besides what the kernel declares
};

/// Frames shorter than this on average are run with one lane a packet: there is too little in them to share.
inline constexpr uint32_t kShortFrame = 256;

/// Batches of up to so many packets are run with 32 lanes a packet by every NF that takes several: what one packet
/// takes is then what the batch takes, and there are multiprocessors enough.
inline constexpr uint32_t kFewPackets = 256;

/// Frames at least so long on average are run likewise: there is enough in them for a whole warp, and threads that work
/// on one packet go the same way.
inline constexpr uint32_t kLongFrame = 1024;

/// Which of a program's kernels a batch is run by; see ProgramSource.
enum class KernelLanes { usual, one, most };
inline KernelLanes lanes_for(uint32_t packets, uint32_t mean_bytes) {
    if (packets <= kFewPackets || mean_bytes >= kLongFrame) return KernelLanes::most;
    return mean_bytes < kShortFrame ? KernelLanes::one : KernelLanes::usual;
}

/// Where each stage's Tables lie among the bytes that every kernel gets as its second parameter: those of its node, or
/// the address of those of its nodes.
struct TableLayout {
    std::vector<size_t> offsets;  ///< by stage, and last that of the classifier, where there is one
    std::vector<size_t> strides;  ///< likewise: from one node's Tables to the next one's; 0: it has one node
    size_t bytes = 0;
};
TableLayout table_layout(const chain::Program& program);

/// Source that is compiled once, and kernels of it that are linked.
struct ChainSource {
    /// One for each kind of NF and number of lanes that the kernels use. Depends on nothing else, so that what it
    /// compiles to serves every chain.
    std::vector<TranslationUnit> nfs;
    /// The kernels, with the chain's constants built in.
    TranslationUnit chain;
    /// Kernels that are linked to one cubin each. To link takes long, and cubins are linked concurrently: a kernel with
    /// functions of NFs has one of its own. A cubin of none that is named has all.
    std::vector<std::vector<Kernel>> cubins;
};

/// The source of a program: its steps by the lanes that suit a batch (`lanes_for`).
struct ProgramSource {
    /// One kernel for each step, or one that stays and runs them all (Step::resident).
    ChainSource usual;
    /// Those of the same steps that are different with one lane a packet; no cubins where none is, or the lanes were
    /// asked for.
    ChainSource one_lane;
    /// Likewise with 32 for functions that take several.
    ChainSource most_lanes;
};

/// A kind of NF alone, with a kernel that calls all that it has: whatever a compiler or linker may refuse is there.
TranslationUnit make_nf_check(const nf::Type& type, unsigned lanes);

/// Writes the source that runs `steps` of `program`. Every kernel has the parameters
/// (BatchView batch, ChainTables tables), a resident one (ResidentList list, ChainTables tables): by value, so that
/// both lie in the GPU's constant memory.
/// Steps with functions of tenants (Step::Kind::confined) have none.
ProgramSource make_program_source(const chain::Program& program, const std::vector<Step>& steps);

/// Kernels that call functions of tenants, which they are to be linked with.
struct ConfinedSource {
    TranslationUnit unit;
    std::vector<Kernel> kernels;  ///< one for each of the steps that have some
    unsigned functions = 0;       ///< isolation::function_name of 0 to before it, in the program's order
};
/// Those of `steps`, with the parameters (BatchView batch, ConfinedWindows windows).
ConfinedSource make_confined_source(const chain::Program& program, const std::vector<Step>& steps);

}  // namespace millrace::device::cuda
