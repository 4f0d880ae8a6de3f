// Measures what transfers take on this machine, and fits the figures that the cost model reckons with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/exec/transfer/cost_model.hpp"

namespace millrace::lab {

struct ProfileOptions {
    double seconds = 0.03;  ///< for each measurement
    /// What is measured next, and how much of all has been.
    std::function<void(double share, const std::string& what)> progress = [](double, const std::string&) {};
};

/// One measurement: how long one of many operations that follow on each other took.
struct TransferSample {
    std::string way;    ///< "copy-in", "gather", …
    size_t items = 1;   ///< rows, frames
    size_t bytes = 0;   ///< of all of them
    bool both = false;  ///< while as many bytes went the other way
    double measured_ns = 0, fitted_ns = 0;
};

struct TransferProfile {
    exec::TransferFigures figures;
    std::vector<TransferSample> samples;
};

/// Takes about 60 times `options.seconds`, and on a GPU the time to compile two small chains. Throws
/// device::DeviceError when the device has no memory for it or fails.
TransferProfile measure_transfers(const std::shared_ptr<device::Device>& device, const ProfileOptions& options);

}  // namespace millrace::lab
