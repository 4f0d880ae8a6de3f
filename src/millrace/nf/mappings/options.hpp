// Options that NAT44 and NAT64 share: external addresses, their ports, port forwards, time-outs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/base/text/prefix.hpp"
#include "millrace/nf/mappings/tables.hpp"

namespace millrace::nf::mappings {

template <class Address>
struct ForwardOptions {
    End external{};
    EndOf<Address> inside{};
    Location where;
    std::string text() const;  ///< "198.51.100.1:80/tcp"
};

template <class Address>
struct Options {
    std::vector<uint32_t> pool;  ///< as they lie in packets
    uint32_t first_group = 0, groups = 0;
    std::vector<ForwardOptions<Address>> forwards;
    uint64_t kept_ns[kKept] = {};
    bool journal = true;  ///< devices write mappings down
    /// Groups of ports of all addresses and protocols.
    uint64_t all_groups() const { return uint64_t{groups} * pool.size() * kProtocols; }

    static constexpr unsigned kProtocols = 3;  ///< TCP, UDP, ICMP
};

inline constexpr size_t kMaxForwards = 65535, kMaxInside = 64;
/// External ports of all addresses and protocols.
inline constexpr uint64_t kMaxPorts = uint64_t{1} << 24;

/// "10.0.0.1", "2001:db8::1", of an address as it lies in a packet.
std::string address_text(uint32_t address);
std::string address_text(const Ipv6Address& address);
/// The address of a prefix, as it lies in a packet; the prefix is of its family.
void read_address_of(const Prefix& prefix, uint32_t& address);
void read_address_of(const Prefix& prefix, Ipv6Address& address);

/// The prefix of a value, of IPv6 or not; throws ConfigError with `hint` where it is of the other family.
Prefix read_prefix(const Config& value, bool ipv6, const std::string& hint);

/// Reads `pool`, `ports`, `forwards` and `timeouts`. `is_inside`: who may have a port forward; `is_external_inside`:
/// which addresses can't be external. Throws ConfigError.
template <class Address>
Options<Address> read_options(const Config& config, const std::function<bool(const Address&)>& is_inside,
                              const std::function<bool(uint32_t)>& is_external_inside);

}  // namespace millrace::nf::mappings
