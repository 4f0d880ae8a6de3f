// Batches on their way through a device.
#pragma once

#include <atomic>
#include <memory>

#include "millrace/exec/offload/batch/batch_launcher.hpp"
#include "millrace/exec/offload/chains/chain_loader.hpp"
#include "millrace/exec/offload/finish/arrivals.hpp"
#include "millrace/exec/offload/finish/completion.hpp"
#include "millrace/exec/offload/finish/fail_over.hpp"

namespace millrace::exec {

/// Launches batches of packets that wait, takes them in when they are back, and gives the device up when it has failed:
/// then all that was under way has gone through the CPU. On the worker's thread.
class DevicePath {
public:
    /// `member`: the engine's part in the placement of chains, or null. Throws device::DeviceError when the device
    /// lacks memory.
    DevicePath(const std::shared_ptr<device::Device>& device, Delivery& delivery, const ChainQueues& queues,
               CpuPath& cpu, Placement::Member* member, uint32_t max_batch, const OffloadOptions& options);

    /// Loads a chain, and sees to it that the packet ring has room for what its batches need. Gives the device up where
    /// it can't run the chain.
    void load(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, ChainQueue& queue);
    /// Packets that have been put in a queue.
    void received(size_t packets) { under_way_ += packets; }
    /// Runs some of a queue's packets on the CPU, if that is where chains are; how many. It takes a batch's stream, as
    /// state may have to be brought there first.
    size_t run_on_cpu(ChainQueue& queue, CpuPath& cpu, Placement::Member& member);
    /// Launches the queue's batches that are due at `now` (TSC).
    void launch_due(ChainQueue& queue, uint64_t now) {
        while (!failed_ && launcher_.is_due(queue, now, under_way_, arrivals_.round_trip()) && launch(queue)) {
        }
    }
    /// Launches a batch, if there is room for one; whether there was.
    bool launch(ChainQueue& queue);
    /// Takes in the oldest batch if it is back; whether it was.
    bool finish_front();

    /// Packets that wait or are in flight.
    size_t under_way() const { return under_way_; }
    /// Those of a chain that are in flight.
    size_t in_batches_of(const chain::Program& program) const;
    /// Whether the device was given up. Any thread.
    bool failed() const { return failed_; }

private:
    void finish_all();
    void give_up(device::Status status);

    const std::shared_ptr<device::OrderGate> gate_;
    Placement::Member* const member_;
    OrderedState states_;
    BatchTimeline timeline_;
    BatchPool batches_;
    ChainLoader loader_;
    BatchLauncher launcher_;
    Arrivals arrivals_;
    Completion completion_;
    FailOver fail_over_;
    size_t under_way_ = 0;
    std::atomic<bool> failed_{false};  // read by reports, too
};

}  // namespace millrace::exec
