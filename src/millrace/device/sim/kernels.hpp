// The kernels of a chain, run by the host on a simulated device's memory.
#pragma once

#include <functional>
#include <vector>

#include "millrace/chain/program.hpp"
#include "millrace/device/kernel/batch.hpp"

namespace millrace::device::sim {

/// Sees a packet before the node of `program` with that number gets it.
using PacketWatch = std::function<void(const chain::Program& program, uint16_t node, const Packet& packet)>;

/// Runs one step of `program` on a batch. `tables[node]` lies in the device's memory, behind the nodes'
/// what classifies packets, where the program does, and so does all that `batch` points to. Packets of a `nodes` step
/// are taken in an order that changes with `seed`: device code must not rely on any. `watch` may be empty.
void run_step(const chain::Program& program, const std::vector<const void*>& tables, const Step& step,
              const BatchView& batch, uint32_t seed, const PacketWatch& watch);

}  // namespace millrace::device::sim
