// The devices that chains run on, as a configuration and the command line name them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// "sim:1", "cuda:0". GPUs are numbered as the driver shows them, simulated ones by nobody.
struct DeviceName {
    std::string kind;  ///< sim or cuda
    unsigned number = 0;
    friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

/// What a chain runs on: the cpu, or devices of one kind, or both.
struct DeviceNames {
    std::vector<DeviceName> devices;  ///< with memory of their own
    bool cpu = false;  ///< runs all packets where there is no device, else those that come when there are few
};

/// One name, or several joined by '+': "cpu", "cuda", "cuda:0+cuda:1", "cuda+cpu". A name without a number has number
/// 0; the cpu has none. Throws std::invalid_argument that says what is wrong.
DeviceNames parse_device_names(std::string_view text);

/// The same as text, in one way only: a lone number 0 is left out, the cpu comes last.
std::string text_of(const DeviceNames& names);

}  // namespace millrace
