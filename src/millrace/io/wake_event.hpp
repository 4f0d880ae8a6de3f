// Waking threads that sleep until there is something to do.
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "millrace/io/kernel/interface.hpp"

namespace millrace::io {

/// Wakes one thread that sleeps; costs next to nothing when it does not. The sleeper calls `prepare`, looks a last time
/// for something to do, sleeps until the descriptor is readable, and calls `done`. What others did before they called
/// `wake` it either sees as it looks, or is woken for.
class WakeEvent {
public:
    WakeEvent() = default;
    WakeEvent(const WakeEvent&) = delete;
    WakeEvent& operator=(const WakeEvent&) = delete;

    /// The sleeper's. Returns the descriptor that becomes readable; negative when the process may open no more of them.
    int prepare() {
        if (!event_ || event_->get() < 0) event_.emplace(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (event_->get() >= 0) waits_.exchange(true, std::memory_order_acq_rel);
        return event_->get();
    }
    /// The sleeper's.
    void done() {
        // Who woke it may be about to write: then the next sleep is a short one.
        eventfd_t ignored = 0;
        if (!waits_.exchange(false, std::memory_order_acq_rel) && event_) eventfd_read(event_->get(), &ignored);
    }
    /// Any thread.
    void wake() {
        // Exchanges follow each other in one order: the sleeper's last look is behind this one, or it is told.
        if (waits_.exchange(false, std::memory_order_acq_rel)) eventfd_write(event_->get(), 1);
    }

private:
    std::atomic<bool> waits_{false};
    std::optional<Descriptor> event_;  // made at the first sleep, and there from then on
};

/// What ends the sleep of a worker: its ports say so before it begins.
class WakeUps {
public:
    /// Makes room for so many descriptors.
    void reserve(size_t descriptors) { descriptors_.reserve(descriptors); }
    /// The descriptor becomes readable when there is something to receive. Negative: as `poll`.
    void on(int descriptor) {
        if (descriptor >= 0) descriptors_.push_back(descriptor);
        else polls_ = true;
    }
    /// Nothing tells: the worker polls by itself, at first soon, then less and less often.
    void poll() { polls_ = true; }
    /// Something may have to be done after so long.
    void within(std::chrono::nanoseconds time) { within_ = std::min(within_, time); }

    const std::vector<int>& descriptors() const { return descriptors_; }
    bool polls() const { return polls_; }
    std::chrono::nanoseconds within() const { return within_; }
    void clear() {
        descriptors_.clear();
        polls_ = false;
        within_ = std::chrono::nanoseconds::max();
    }

private:
    std::vector<int> descriptors_;
    bool polls_ = false;
    std::chrono::nanoseconds within_ = std::chrono::nanoseconds::max();
};

}  // namespace millrace::io
