// Chains on a device with memory of its own: batches, transfers by the field plan, several in flight.
//
// A packet waits in its chain's queue until a batch takes it (the adaptive batcher), crosses into
// the shared packet buffer, goes through the program's steps, and comes back with its batch, in order.
// Receive buffers stay as they were until their batch has come back whole: if the device fails, its
// batches run again on the CPU and nothing is lost. What comes back lies in pinned memory of its own,
// and the packets' mbufs are pointed there: the CPU touches no frame.
#pragma once

#include <atomic>
#include <memory>

#include "millrace/exec/offload/finish/arrivals.hpp"
#include "millrace/exec/offload/batch/batch_launcher.hpp"
#include "millrace/exec/offload/chains/chain_loader.hpp"
#include "millrace/exec/offload/finish/completion.hpp"
#include "millrace/exec/offload/finish/fail_over.hpp"

namespace millrace::exec {

/// Moves packets from one part to the next: queue, launcher, device, arrivals, completion; or to the CPU.
class OffloadEngine : public Engine {
public:
    /// `max_batch` is the largest of all chains that will run. Throws device::DeviceError when the
    /// device lacks memory.
    OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch,
                  OffloadOptions options = {});
    ~OffloadEngine() override { drain(); }

    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                size_t count) override;
    bool takes_notes() const override { return !failed_; }
    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                size_t count, const io::BurstNotes& notes) override;
    bool takes_blocks() const override { return options_.blocks && options_.pinned && !failed_; }
    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                const io::ReceiveBlock& block) override;
    void poll() override;
    size_t in_flight() const override { return in_flight_; }
    bool may_sleep() const override {
        return in_flight_ == 0 && (failed_ || member_ == nullptr || member_->is_settled());
    }
    void drain() override;
    std::string describe() const override;
    /// Whether the device has failed and the CPU has taken over.
    bool failed_over() const { return failed_; }

private:
    ChainQueue* queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                          bool of_blocks);
    void load(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, ChainQueue& queue);
    void received(ChainQueue& queue, size_t packets, bool more);
    void push_on(ChainQueue& queue);
    bool launch(ChainQueue& queue);
    bool run_here(ChainQueue& queue);
    bool finish_front();
    void finish_all();
    void fail_over(device::Status status);

    const std::shared_ptr<device::Device> device_;
    const OffloadOptions options_;
    const uint32_t max_batch_;
    const std::shared_ptr<device::OrderGate> gate_;
    const std::unique_ptr<Placement::Member> member_;  // null: all packets go to the device
    OrderedState states_;
    BatchTimeline timeline_;
    BatchPool batches_;
    CpuPath cpu_;
    ChainQueues queues_;
    ChainLoader loader_;
    BatchLauncher launcher_;
    Arrivals arrivals_;
    Completion completion_;
    FailOver fail_over_;
    size_t in_flight_ = 0;
    std::atomic<bool> failed_{false};  // read by reports, too
};

}  // namespace millrace::exec
