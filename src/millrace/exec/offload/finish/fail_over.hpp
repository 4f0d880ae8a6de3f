// What becomes of packets when a device is gone.
#pragma once

#include "millrace/exec/offload/batch/batch_launcher.hpp"
#include "millrace/exec/offload/chains/chain_queues.hpp"
#include "millrace/exec/offload/finish/cpu_path.hpp"

namespace millrace::exec {

/// On the worker's thread.
class FailOver {
public:
    /// `member`: the engine's part in the placement of chains, or null.
    FailOver(std::shared_ptr<device::Device> device, OrderedState& states, BatchLauncher& launcher, BatchPool& batches,
             const ChainQueues& queues, CpuPath& cpu, Placement::Member* member)
        : device_(std::move(device)), states_(states), launcher_(launcher), batches_(batches), queues_(queues),
          cpu_(cpu), member_(member) {}

    /// Runs the batches in flight again on the CPU, in order, from the host's buffers and from the state that the last
    /// finished batch left; then the packets that wait, `packets` in all. They are delivered before it returns. Once.
    void run(device::Status why, size_t packets);

private:
    void lose_states();

    const std::shared_ptr<device::Device> device_;
    OrderedState& states_;
    BatchLauncher& launcher_;
    BatchPool& batches_;
    const ChainQueues& queues_;
    CpuPath& cpu_;
    Placement::Member* const member_;
};

}  // namespace millrace::exec
