// Chains on a device with memory of its own: batches, transfers by the field plan, several in flight.
//
// A packet waits in its chain's queue until a batch takes it (the adaptive batcher), crosses into
// the shared packet buffer, goes through the program's steps, and comes back with its batch, in order.
// Receive buffers stay as they were until their batch has come back whole: if the device fails, its
// batches run again on the CPU and nothing is lost. What comes back lies in pinned memory of its own,
// and the packets' mbufs are pointed there: the CPU touches no frame.
#pragma once

#include <rte_cycles.h>

#include <atomic>
#include <optional>
#include <vector>

#include "millrace/exec/offload/batch_pool.hpp"
#include "millrace/exec/offload/completion.hpp"
#include "millrace/exec/offload/ordered_state.hpp"
#include "millrace/exec/offload/submission.hpp"

namespace millrace::exec {

class OffloadEngine : public Engine {
public:
    /// `max_batch` is the largest of all chains that will run. Throws device::DeviceError when the
    /// device lacks memory.
    OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch,
                  OffloadOptions options = {});
    ~OffloadEngine() override;

    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                size_t count) override;
    bool takes_blocks() const override { return options_.blocks && options_.pinned && !failed_; }
    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                const io::ReceiveBlock& block) override;
    void poll() override;
    size_t in_flight() const override { return in_flight_; }
    void drain() override;
    std::string describe() const override;
    /// Whether the device has failed and the CPU has taken over.
    bool failed_over() const { return failed_; }

private:
    ChainQueue& queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                          bool of_blocks);
    void prepare(ChainQueue& queue, const std::shared_ptr<const chain::Program>& program, ChainCounters& counters);
    bool batch_is_due(const ChainQueue& queue, uint64_t now) const;
    bool start_batch(ChainQueue& queue);
    void push_on(ChainQueue& queue);
    bool run_here(ChainQueue& queue);
    void stop_residents();
    bool finish_front();
    bool comes_back(Batch& batch);
    bool too_late(uint64_t since) const {
        return to_nanoseconds(rte_rdtsc() - since) > static_cast<uint64_t>(options_.patience.count());
    }
    void take_in(Batch& batch);
    void fail_over(device::Status status);

    std::shared_ptr<device::Device> device_;
    const OffloadOptions options_;
    const std::shared_ptr<device::OrderGate> gate_;
    OrderedState states_;
    BatchTimeline timeline_;
    Submission submission_;
    std::optional<Placement::Member> member_;
    const uint32_t max_batch_;
    BatchPool batches_;
    CpuPath cpu_;
    Completion completion_;
    std::vector<std::unique_ptr<ChainQueue>> queues_;
    size_t in_flight_ = 0;
    uint64_t away_ = 0;                     // TSC cycles that a batch takes from here until it is back, smoothed
    std::atomic<bool> failed_{false};       // read by reports, too
    std::optional<CallThread::Lane> lane_;  // of options_.call_thread
};

}  // namespace millrace::exec
