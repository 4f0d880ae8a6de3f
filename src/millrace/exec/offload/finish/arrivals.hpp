// Whether a batch is back, all of it.
#pragma once

#include <chrono>

#include "millrace/exec/cpu/event_line.hpp"
#include "millrace/exec/offload/batch/batch_timeline.hpp"
#include "millrace/exec/offload/finish/ordered_state.hpp"

namespace millrace::exec {

/// On the worker's thread.
class Arrivals {
public:
    /// `events`: where a batch's events need room; null: they need none. `patience`: a batch that takes longer means
    /// that the device is gone.
    Arrivals(std::shared_ptr<device::Device> device, OrderedState& states, const BatchTimeline& timeline,
             const EventLine* events, std::chrono::nanoseconds patience)
        : device_(std::move(device)), states_(states), timeline_(timeline), events_(events), patience_(patience) {}

    /// Looks after the oldest batch in flight. ok: it is back, and its state is the host's; pending; or what has gone
    /// wrong. To be asked until it is ok, and then no more.
    device::Status poll(Batch& batch);

    /// TSC cycles from a batch's launch until it is back, smoothed; 0: none has come back yet.
    uint64_t round_trip() const { return round_trip_; }

private:
    device::Status bring(Batch& batch);
    device::Status ask_device(const Batch& batch) const;
    device::Status fetch_rest(Batch& batch);
    bool too_late(const Batch& batch) const;

    const std::shared_ptr<device::Device> device_;
    OrderedState& states_;
    const BatchTimeline& timeline_;
    const EventLine* const events_;
    const std::chrono::nanoseconds patience_;
    uint64_t round_trip_ = 0;
};

}  // namespace millrace::exec
