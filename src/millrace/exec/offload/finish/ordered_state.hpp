// The NFs' states of one engine's chains, between the host and its device. Other devices and workers change them, too:
// device::OrderGate.
#pragma once

#include <chrono>

#include "millrace/device/order_gate.hpp"
#include "millrace/exec/offload/batch/batch.hpp"

namespace millrace::exec {

/// On the worker's thread.
class OrderedState {
public:
    /// `patience`: a copy that takes longer means that the device is gone.
    OrderedState(std::shared_ptr<device::Device> device, std::shared_ptr<device::OrderGate> gate,
                 std::chrono::nanoseconds patience)
        : device_(std::move(device)), gate_(std::move(gate)), patience_(patience) {}

    /// Batches of this chain will come: a place for its states.
    void expect(const LoadedChain& chain);
    /// Gives the device a chain's states as the CPU has left them at this hand-over (Placement::hand_overs), if it does
    /// not have them so. `stream` is the one of the batch that needs them.
    device::Status bring(const LoadedChain& chain, uint64_t hand_overs, device::StreamId stream);
    /// Gives the host what a chain's device has of state that does not come back with batches. If the device has gone
    /// the host goes on with what it knows of it.
    void take_back(const LoadedChain& chain, device::StreamId stream);
    /// State comes back with every batch, so that the host's copy is what the last finished batch left: makes what has
    /// come with this one the host's, its snapshot of the states, unless a later batch's is there already, and its
    /// journal. False when the CPU has begun to number packets: then the batch must not be taken in any more.
    bool restore(const Batch& batch);
    /// From here on no ordered batch comes back, from whichever device, and what has come back stands in the host's
    /// states. Whether that was so before.
    bool break_off();
    bool broken() const { return gate_->broken; }

private:
    bool restore_snapshot(const LoadedChain& chain, const uint8_t* snapshot, uint64_t order);
    static void apply_journal(const Batch& batch);
    device::Status arrive(device::StreamId stream) const;

    const std::shared_ptr<device::Device> device_;
    const std::shared_ptr<device::OrderGate> gate_;
    const std::chrono::nanoseconds patience_;
};

}  // namespace millrace::exec
