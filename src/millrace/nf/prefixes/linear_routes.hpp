// Prefixes in the order in which they are looked at one by one.
#pragma once

#include <vector>

#include "millrace/nf/prefixes/linear.hpp"
#include "millrace/nf/prefixes/rib.hpp"

namespace millrace::nf::prefixes {

/// Longer prefixes come first.
std::vector<LinearIpv4> linear_routes(const Rib<4>& rib);
std::vector<LinearIpv6> linear_routes(const Rib<16>& rib);

}  // namespace millrace::nf::prefixes
