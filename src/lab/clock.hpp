// The time that measurements take, and what ends them.
#pragma once

#include <chrono>

#include "millrace/device/device.hpp"

namespace millrace::lab {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline double ns_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

/// Throws DeviceError unless the device did what it was told.
inline void require(device::Status status) {
    if (status != device::Status::ok) throw device::DeviceError("the device has failed while it was measured");
}

}  // namespace millrace::lab
