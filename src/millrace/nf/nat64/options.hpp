// NAT64's options.
#pragma once

#include <vector>

#include "millrace/nf/mappings/options.hpp"
#include "millrace/nf/nat64/tables.hpp"

namespace millrace::nf::nat64 {

struct Nat64Options {
    std::vector<Network> inside;
    Ipv6Address prefix{};
    uint32_t prefix_bytes = 0;
    uint32_t mtu = 1500;
    mappings::Options<Ipv6Address> ports;
};

/// Throws ConfigError.
Nat64Options read_options(const Config& options);

}  // namespace millrace::nf::nat64
