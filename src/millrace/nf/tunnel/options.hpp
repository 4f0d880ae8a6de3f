// The tunnels of a `tunnel` function, read from YAML and checked.
#pragma once

#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/tunnel/tables.hpp"

namespace millrace::nf::tunnel {

struct TunnelOptions {
    std::string name;
    Tunnel tunnel{};
    std::vector<Prefix> to;
};

struct Options {
    std::vector<TunnelOptions> tunnels;
    uint32_t mtu = 1500;
    DontFragment dont_fragment = DontFragment::set;
    bool copy_dscp = true, clamp_mss = true;
    bool mtu_spares_fragmentable = false;
};

/// As many as a table of prefixes can name.
inline constexpr size_t kMaxTunnels = prefixes::kMaxTargets - 2;
inline constexpr size_t kMaxPrefixes = 1'000'000;

/// `ports`: names by number. Throws ConfigError.
Options read_options(const Config& options, const std::vector<std::string>& ports);

}  // namespace millrace::nf::tunnel
