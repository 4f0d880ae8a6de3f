// What became of a packet in a chain.
#pragma once

#include <cstdint>

#include "millrace/chain/program.hpp"
#include "millrace/device/kernel/batch.hpp"

namespace millrace::exec {

using device::kNoChainNode;
using device::kNoNode;
using device::kParserNode;

/// Why a packet did not leave although its chain wanted it to; indexes kExitDropNames.
enum class ExitDrop : uint8_t { no_output, transmit_full, device_failed, no_buffer, punt_full, no_punt_port };
inline constexpr unsigned kExitDropCount = 6;
inline constexpr const char* kExitDropNames[kExitDropCount] = {"no-output", "transmit-full", "device-failed",
                                                               "no-buffer", "punt-full",     "no-punt-port"};

/// Where a packet goes, and which NF said so by which outcome. One that the engine itself gives up (kNoNode) is dropped
/// for the ExitDrop that its outcome says. Of a program that classifies packets, nodes are the program's; one that no
/// NF decided on has its chain for a detail (`chain_of`).
struct Verdict {
    chain::Target target;
    uint16_t node = kNoNode;
    uint16_t out_port = kNoPort;  ///< an NF's choice for packets that reach the output: a port, or a set (kPortSet)
    Decision decision;  ///< a device brings back the lower 16 bits of `detail`, unless visits are wanted (engine.hpp)
};

/// A decision's detail of which a device has brought back these bits.
constexpr uint32_t detail_of(uint16_t bits) { return bits == static_cast<uint16_t>(kNoDetail) ? kNoDetail : bits; }

/// The number of the chain that a packet was classified into; chain::kNoChain: into none.
inline uint16_t chain_of(const chain::Program& program, const Verdict& verdict) {
    return verdict.node < program.nodes.size() ? program.chain_of_node[verdict.node]
                                               : static_cast<uint16_t>(verdict.decision.detail);
}

}  // namespace millrace::exec
