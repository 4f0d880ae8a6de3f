// What became of a packet in a chain.
#pragma once

#include <cstdint>

#include "millrace/chain/program.hpp"
#include "millrace/device/kernel/batch.hpp"

namespace millrace::exec {

using device::kNoNode;
using device::kParserNode;

/// Why a packet did not leave although its chain wanted it to; indexes kExitDropNames.
enum class ExitDrop : uint8_t { no_output, no_chain, transmit_full, device_failed };
inline constexpr unsigned kExitDropCount = 4;
inline constexpr const char* kExitDropNames[kExitDropCount] = {"no-output", "no-chain", "transmit-full", "device-failed"};

/// Where a packet goes, and which NF said so by which outcome.
struct Fate {
    chain::Target target;
    uint16_t node = kNoNode;
    uint16_t out_port = kNoPort;  ///< an NF's choice for packets that reach the output
    Decision decision;
};

}  // namespace millrace::exec
