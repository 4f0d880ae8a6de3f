// The router's options: routes, next hops, own addresses.
#pragma once

#include <memory>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/prefixes/lpm.hpp"
#include "millrace/nf/router/next_hops.hpp"

namespace millrace::nf::router {

/// How routes are looked up; the names are those of the option `engine`.
enum class LookupEngine : uint8_t { dir_24_8, linear };
inline constexpr const char* kLookupEngineNames[] = {"dir-24-8", "linear"};
/// Of the linear engine, of each address family: with more it warns, and with many more it refuses.
inline constexpr size_t kManyLinearRoutes = 10'000, kMaxLinearRoutes = 1'000'000;

/// Everything that a router knows.
struct Routes {
    NextHops next_hops;
    Ipv4Lpm ipv4;
    Ipv6Lpm ipv6;
    bool has_local = false;  ///< addresses of the router itself
    LookupEngine engine = LookupEngine::dir_24_8;
};

/// Reads the options, and the files that they name. Throws ConfigError with up to Mistakes::kMax mistakes.
Routes read_options(const Config& options, const std::vector<std::string>& ports);

}  // namespace millrace::nf::router
