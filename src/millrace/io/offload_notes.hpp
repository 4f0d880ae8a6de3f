// What network interfaces are set to do to frames, and what ports there do about it.
#pragma once

#include <string>
#include <vector>

namespace millrace::io {

struct Offload {
    std::string name;  ///< "GRO"
    bool on = false;
    std::string note;    ///< what a port does about it while it is on, and what that costs
    bool costs = false;  ///< something
};

/// The offloads of a port at an interface, for people. `kind` is the port's: of others than `af_packet` and `af_xdp`
/// there are none, nor where there is no such interface. In the calling thread's network namespace.
std::vector<Offload> offloads_of(const std::string& kind, const std::string& interface);

/// The names of those that are on, and that are off: "on: GRO; off: LRO".
std::string offload_summary(const std::vector<Offload>& offloads);

}  // namespace millrace::io
