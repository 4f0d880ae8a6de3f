// The devices that chains run on, as a configuration and the command line name them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::chain {

/// "cpu", "sim:1", "cuda:0". GPUs are numbered as the driver shows them, simulated ones by nobody.
struct DeviceName {
    std::string kind;    ///< cpu, sim or cuda
    unsigned number = 0;
    friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

/// One name, or several of one kind joined by '+': "cuda:0+cuda:1". A name without a number has number 0; the cpu has
/// none. Throws std::invalid_argument that says what is wrong.
std::vector<DeviceName> parse_device_names(std::string_view text);

/// The same as text, in one way only: a lone number 0 is left out.
std::string text_of(const std::vector<DeviceName>& names);

}  // namespace millrace::chain
