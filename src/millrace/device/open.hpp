// Devices by their names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::device {

struct OpenOptions {
    std::string keep_kernels;  ///< folder for the source, PTX and cubin of each chain; empty: none
};

/// The device of that name, which has memory of its own; null for the cpu. Throws DeviceError.
std::shared_ptr<Device> open_device(const chain::DeviceName& name, const OpenOptions& options = {});
/// All of them; none for the cpu.
std::vector<std::shared_ptr<Device>> open_devices(const std::vector<chain::DeviceName>& names, const OpenOptions& options = {});

}  // namespace millrace::device
