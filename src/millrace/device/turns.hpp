// Kernels of chains and tenants that take turns on a GPU.
#pragma once

#include "millrace/base/spin_lock.hpp"
#include "millrace/device/device.hpp"

namespace millrace::device {

/// Keeps kernels of those that take turns from running beside each other (schedule::Sharing::temporal), in the order in
/// which they are put on their streams.
class Turns {
public:
    /// Calls `launch`, which puts kernels on the stream and returns a Status; they run behind those of the turn before.
    template <class Launch>
    Status take(Device& device, StreamId stream, Launch&& launch) {
        const std::lock_guard lock(mutex_);
        Status status = last_ != 0 ? device.wait(stream, device, last_) : Status::ok;
        if (status == Status::ok) status = launch();
        if (status == Status::ok) status = device.record(stream, last_);
        return status;
    }

private:
    SpinLock mutex_;
    EventId last_ = 0;  ///< behind the kernels of the latest turn; 0: there was none
};

}  // namespace millrace::device
