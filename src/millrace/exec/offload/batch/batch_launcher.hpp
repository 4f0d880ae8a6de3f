// From packets that wait to a batch in flight.
#pragma once

#include <optional>

#include "millrace/exec/hybrid/placement.hpp"
#include "millrace/exec/offload/batch/batch_pool.hpp"
#include "millrace/exec/offload/finish/ordered_state.hpp"
#include "millrace/exec/offload/submit/submission.hpp"

namespace millrace::exec {

/// Makes batches of packets that wait, and has them submitted: by this thread, the worker's, or by a CallThread.
class BatchLauncher {
public:
    /// `member`: the engine's part in the placement of chains; null: all batches may go to the device at any time.
    BatchLauncher(std::shared_ptr<device::Device> device, const std::shared_ptr<device::OrderGate>& gate,
                  BatchPool& batches, OrderedState& states, const BatchTimeline& timeline, Placement::Member* member,
                  const OffloadOptions& options);

    /// Whether a batch of these packets is to go at `now` (TSC). `packets`: of all chains, waiting and in flight;
    /// `round_trip`: TSC cycles that a batch takes, 0: not known yet.
    bool is_due(const ChainQueue& queue, uint64_t now, size_t packets, uint64_t round_trip) const;
    /// Puts a batch of the queue's first packets in flight, if there is room for one now; none if not. Else how that
    /// went, as far as it is known: a CallThread leaves it in the batch.
    std::optional<device::Status> launch(ChainQueue& queue);
    /// Has the ordered parts of long batches submitted where the device is done with the rest, in order of launch.
    /// What has gone wrong, or ok.
    device::Status submit_ordered() { return halves_ == 0 ? device::Status::ok : submit_halves(); }
    /// Waits until nobody makes calls for a batch any more.
    void wait() const {
        if (submissions_) submissions_->wait();
    }

private:
    /// What a CallThread does.
    struct Submit {
        Submission& submission;
        void operator()(void* batch) const { submission.submit(*static_cast<BatchSubmission*>(batch)); }
    };
    BatchPart first_part(const BatchInput& input) const;
    device::Status submit(BatchSubmission& part);
    device::Status submit_halves();
    device::Status bring_state(ChainQueue& queue, device::StreamId stream);

    const std::shared_ptr<device::Device> device_;
    BatchPool& batches_;
    OrderedState& states_;
    size_t halves_ = 0;  // batches in flight whose ordered parts have not been submitted
    const BatchTimeline& timeline_;
    Placement::Member* const member_;
    const OffloadOptions& options_;
    Submission submission_;
    Submit submit_{submission_};
    std::optional<CallThread::SubmissionQueue> submissions_;  // of options_.call_thread
};

}  // namespace millrace::exec
