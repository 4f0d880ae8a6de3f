// Offloads of interfaces, as lines for people.
#pragma once

#include <string>

#include "millrace/base/text/config.hpp"

namespace millrace::cli {

/// Of each port of the map `ports:` that is at an interface of this machine: which are on, what the port does about
/// each of these, and what that costs. Empty where there is no such port. `all`: also of those that cost nothing.
std::string offload_text(const Config& ports, bool all);

}  // namespace millrace::cli
