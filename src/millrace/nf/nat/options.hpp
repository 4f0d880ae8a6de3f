// NAT44's options.
#pragma once

#include <vector>

#include "millrace/nf/mappings/options.hpp"
#include "millrace/nf/nat/tables.hpp"

namespace millrace::nf::nat {

struct NatOptions {
    std::vector<Network> inside;
    mappings::Options<uint32_t> ports;
};

/// Throws ConfigError.
NatOptions read_options(const Config& options);

}  // namespace millrace::nf::nat
