// How a device is told of a batch: what is copied, which steps run, in which order.
#pragma once

#include "millrace/device/order_gate.hpp"
#include "millrace/exec/offload/batch/batch_timeline.hpp"

namespace millrace::exec {

/// Makes the calls of the device's driver, by the worker or by a CallThread: all of an engine that such a thread
/// touches is here, and in the part of a batch that it is given.
class Submission {
public:
    Submission(std::shared_ptr<device::Device> device, std::shared_ptr<device::OrderGate> gate,
               const BatchTimeline& timeline, const OffloadOptions& options);
    /// Tells the device of the part of a batch that is laid out; its record says how that went.
    void submit(BatchSubmission& batch);

private:
    device::Status put_on_stream(BatchSubmission& batch);
    device::Status put_on_list(BatchSubmission& batch);
    device::Status send(BatchSubmission& batch);
    device::Status send_frames(BatchSubmission& batch);
    device::Status send_rows(BatchSubmission& batch);
    device::Status send_packed(BatchSubmission& batch);
    device::Status send_staged(BatchSubmission& batch);
    device::Status run_steps(BatchSubmission& batch);
    device::Status launch_steps(BatchSubmission& batch, const device::BatchView& view, size_t from, size_t to);
    device::Status begin_order(BatchSubmission& batch, device::BatchView& view);
    device::Status leave_to_others(BatchSubmission& batch);
    static void list_back(const BatchSubmission& batch, std::vector<device::CopyPiece>& pieces);
    device::Status fetch(BatchSubmission& batch);

    const std::shared_ptr<device::Device> device_;
    const std::shared_ptr<device::OrderGate> gate_;
    const BatchTimeline& timeline_;
    const bool between_devices_;               // several devices run these chains
    std::shared_ptr<uint64_t> sequence_word_;  // where resident kernels keep ordered batches in order
};

}  // namespace millrace::exec
