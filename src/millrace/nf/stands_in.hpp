// Network functions for which Linux interfaces stand for ports.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace::nf {

/// A NetworkFunction derives from it, too, when Linux interfaces are ports to it: they are then kept as these are.
class StandsIn {
public:
    virtual ~StandsIn() = default;
    /// Names of interfaces, and the numbers of the ports that each stands for.
    virtual const std::vector<std::pair<std::string, uint16_t>>& stand_ins() const = 0;
};

}  // namespace millrace::nf
