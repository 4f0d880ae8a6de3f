// Brings generations of chains to a device.
#pragma once

#include "millrace/exec/offload/chains/chain_queue.hpp"
#include "millrace/exec/offload/finish/cpu_path.hpp"
#include "millrace/exec/offload/finish/ordered_state.hpp"

namespace millrace::exec {

/// On the worker's thread, when a chain's first packets come or those of a new generation.
class ChainLoader {
public:
    /// `cpu` is told of each generation, too. `max_packets`: of a batch.
    ChainLoader(std::shared_ptr<device::Device> device, std::shared_ptr<device::OrderGate> gate, OrderedState& states,
                CpuPath& cpu, const OffloadOptions& options, uint32_t max_packets)
        : device_(std::move(device)), gate_(std::move(gate)), states_(states), cpu_(cpu), options_(options),
          max_packets_(max_packets) {}

    /// Makes the queue, where nothing waits, one of this generation. Throws device::DeviceError when the device can't
    /// run it.
    void load(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, ChainQueue& queue);

private:
    const std::shared_ptr<device::Device> device_;
    const std::shared_ptr<device::OrderGate> gate_;
    OrderedState& states_;
    CpuPath& cpu_;
    const OffloadOptions& options_;
    const uint32_t max_packets_;
};

}  // namespace millrace::exec
