// What the timeline is told of a batch on a device.
#pragma once

#include "millrace/exec/offload/batch/batch.hpp"
#include "millrace/exec/offload/chains/chain_queue.hpp"

namespace millrace::exec {

/// Without a track nothing is told.
class BatchTimeline {
public:
    struct Names {
        const std::string *waiting, *submit, *in, *order, *back, *rest, *resident, *applied;
    };

    BatchTimeline(TimelineTrack* track, std::shared_ptr<device::Device> device);
    const Names& names() const { return names_; }
    /// 0 without a track.
    uint64_t now_ns() const { return track_ != nullptr ? Timeline::now_ns() : 0; }

    /// Before the batch is taken from its queue; the worker has been at it since `begun_ns`.
    void begin(const ChainQueue& queue, BatchInput& batch, uint64_t begun_ns) const;
    /// What the stream does from the mark before to this one; null: from here on. An event more or less is no reason to
    /// give up a device, so that a failure shows elsewhere. By who makes the calls.
    void mark(BatchSubmission& batch, const std::string* name, uint64_t bytes = 0) const;
    /// All about a batch that has come back and was applied until now.
    void end(const Batch& batch, uint64_t applied_from_ns) const;

private:
    TimelineTrack* const track_;
    const std::shared_ptr<device::Device> device_;
    Names names_{};
};

}  // namespace millrace::exec
