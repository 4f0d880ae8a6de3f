// Measures a chain for the scheduler's linear model: kernels and transfers against the size of a batch.
#pragma once

#include <functional>

#include "lab/kernel_run.hpp"
#include "millrace/schedule/profile.hpp"

namespace millrace::lab {

struct ChainProfileOptions {
    std::vector<uint32_t> batches = {256, 1024, 2048, 4096, 8192, 16384};  ///< packets; those above the chain's largest
                                                                           ///< batch are left out
    double seconds = 0.03;                                                 ///< for each figure
    std::function<void(const std::string& what)> progress = [](const std::string&) {};
};

/// A batch by itself, with all of the device's `sms` multiprocessors, of these frames over and over. `program` must be
/// one for devices. Throws device::DeviceError.
schedule::ChainProfile profile_chain(device::Device& device, KernelRun& kernels,
                                     const std::shared_ptr<const chain::Program>& program,
                                     const io::TrafficFrames& frames, uint32_t sms, const ChainProfileOptions& options);

}  // namespace millrace::lab
