// Chains on a device with memory of its own: batches, transfers by the field plan, several in flight.
//
// A packet waits in its chain's queue until a batch takes it (the adaptive batcher), crosses into
// the shared packet buffer, goes through the program's steps, and comes back with its batch, in order.
// Receive buffers stay as they were until their batch has come back whole: if the device fails, its
// batches run again on the CPU and nothing is lost. What comes back lies in pinned memory of its own,
// and the packets' mbufs are pointed there: the CPU touches no frame.
#pragma once

#include <memory>

#include "millrace/exec/offload/device_path.hpp"

namespace millrace::exec {

/// Puts packets in their chain's queue, and moves them on from there: through the device, or the CPU.
class OffloadEngine : public Engine {
public:
    /// `max_batch` is the largest of all chains that will run. Throws device::DeviceError when the
    /// device lacks memory.
    OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch,
                  OffloadOptions options = {});
    ~OffloadEngine() override { drain(); }

    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                size_t count) override;
    bool takes_notes() const override { return !failed_over(); }
    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                size_t count, const io::BurstNotes& notes) override;
    bool takes_blocks() const override { return options_.blocks && options_.pinned && !failed_over(); }
    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                const io::ReceiveBlock& block) override;
    void poll() override;
    size_t in_flight() const override { return device_path_.under_way(); }
    size_t in_flight_of(const chain::Program& program) const override;
    bool may_sleep() const override {
        return in_flight() == 0 && (failed_over() || member_ == nullptr || member_->is_settled());
    }
    void drain() override;
    std::string describe() const override;
    /// Whether the device has failed and the CPU has taken over.
    bool failed_over() const { return device_path_.failed(); }

private:
    ChainQueue* queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                          bool of_blocks);
    void received(ChainQueue& queue, size_t packets, bool more);
    void push_on(ChainQueue& queue);
    bool run_here(ChainQueue& queue);

    const std::shared_ptr<device::Device> device_;
    const OffloadOptions options_;
    const std::unique_ptr<Placement::Member> member_;  // null: all packets go to the device
    CpuPath cpu_;
    DevicePath device_path_;
    ChainQueues queues_;  // go before the memory that kernels of their chains may be at work on
};

}  // namespace millrace::exec
