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

/// The device of that name. Throws DeviceError.
std::shared_ptr<Device> open_device(const DeviceName& name, const OpenOptions& options = {});
/// What model() of that device says, without opening it; empty for one that is not there.
std::string model_of(const DeviceName& name);
/// How many multiprocessors it has, without opening it; 0 for one that is not there.
unsigned multiprocessors_of(const DeviceName& name);
/// All of them.
std::vector<std::shared_ptr<Device>> open_devices(const std::vector<DeviceName>& names,
                                                  const OpenOptions& options = {});

}  // namespace millrace::device
