// What `millrace profile --chain` does.
#pragma once

#include <memory>
#include <string>

#include "millrace/device/device.hpp"

namespace millrace::cli {

struct ProfileChains {
    std::string file;  ///< the chains' configuration
    uint32_t frame_bytes = 512;
    double seconds = 0.03;  ///< for each figure
    std::string json_file;  ///< besides what is kept; empty: none
};

/// Measures each chain on a device by that name, shows what it found, and keeps it. The exit status.
int profile_chains(const ProfileChains& arguments, const std::string& device_name,
                   const std::shared_ptr<device::Device>& device);

}  // namespace millrace::cli
