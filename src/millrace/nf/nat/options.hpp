// NAT's options.
#pragma once

#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/nat/tables.hpp"

namespace millrace::nf::nat {

struct ForwardOptions {
    End external{}, inside{};
    Location where;
    std::string text() const;  ///< "198.51.100.1:80/tcp"
};

struct Options {
    std::vector<Network> inside;
    std::vector<uint32_t> pool;  ///< as they lie in packets
    uint32_t first_group = 0, groups = 0;
    std::vector<ForwardOptions> forwards;
    uint64_t kept_ns[kKept] = {};
    /// Groups of ports of all addresses and protocols.
    uint64_t all_groups() const { return uint64_t{groups} * pool.size() * kProtocols; }

    static constexpr unsigned kProtocols = 3;  ///< TCP, UDP, ICMP
};

inline constexpr size_t kMaxForwards = 65535, kMaxInside = 64;
/// External ports of all addresses and protocols.
inline constexpr uint64_t kMaxPorts = uint64_t{1} << 24;

/// "10.0.0.1", of an address as it lies in a packet.
std::string address_text(uint32_t address);

/// Throws ConfigError.
Options read_options(const Config& options);

}  // namespace millrace::nf::nat
