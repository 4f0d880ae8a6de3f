// The router's options: routes, next hops, own addresses.
#pragma once

#include <memory>

#include "millrace/base/config.hpp"
#include "millrace/nf/router/lpm.hpp"
#include "millrace/nf/router/next_hops.hpp"

namespace millrace::nf::router {

/// Everything that a router knows.
struct Routes {
    NextHops next_hops;
    Ipv4Lpm ipv4;
    Ipv6Lpm ipv6;
    bool has_local = false;  ///< addresses of the router itself
};

/// Reads the options, and the files that they name. Throws ConfigError with up to Mistakes::kMax mistakes.
Routes read_options(const Config& options, const std::vector<std::string>& ports);

}  // namespace millrace::nf::router
