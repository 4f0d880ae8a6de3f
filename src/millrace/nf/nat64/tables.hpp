// What NAT64 knows, as a device sees it, and how IPv4 addresses stand in IPv6 ones (RFC 6052).
#pragma once

#include "millrace/nf/mappings/plan.hpp"

namespace millrace::nf::nat64 {

using mappings::End;
using mappings::Ipv6Address;

struct Network {
    Ipv6Address address, mask;  ///< as they lie in memory
};

struct OwnTables {
    View<Network> inside;
    Ipv6Address prefix{};       ///< before IPv4 addresses
    uint32_t prefix_bytes = 0;  ///< 4 to 8, or 12
    uint32_t mtu = 0;           ///< where those inside are
};
using Nat64Tables = mappings::PortTables<Ipv6Address, OwnTables>;

MILLRACE_DEVICE Ipv6Address load_address(const uint8_t* at) {
    return {load_raw<uint32_t>(at), load_raw<uint32_t>(at + 4), load_raw<uint32_t>(at + 8),
            load_raw<uint32_t>(at + 12)};
}
MILLRACE_DEVICE void store_address(uint8_t* at, const Ipv6Address& address) {
    for (uint32_t i = 0; i < 4; ++i) store_raw<uint32_t>(at + 4 * i, address.words[i]);
}

/// Bits 64 to 71 of an address stay 0, so an IPv4 address of a shorter prefix goes on behind them (RFC 6052, 2.2).
inline constexpr uint32_t kReservedByte = 8, kLongestPrefixBytes = 12;

/// How an IPv4 address, given as it lies in packets, stands in IPv6 ones.
MILLRACE_DEVICE Ipv6Address embedded(const OwnTables& tables, uint32_t address) {
    uint8_t bytes[16], ipv4[4];
    store_address(bytes, tables.prefix);
    store_raw<uint32_t>(ipv4, address);
    uint32_t at = tables.prefix_bytes;
    for (uint32_t i = 0; i < 4; ++i, ++at) {
        if (at == kReservedByte) ++at;
        bytes[at] = ipv4[i];
    }
    return load_address(bytes);
}
/// The IPv4 address that stands in an IPv6 one. False: none does.
MILLRACE_DEVICE bool find_embedded(const OwnTables& tables, const uint8_t* ipv6, uint32_t& address) {
    uint8_t bytes[16], ipv4[4];
    store_address(bytes, tables.prefix);
    for (uint32_t i = 0; i < tables.prefix_bytes; ++i)
        if (bytes[i] != ipv6[i]) return false;
    if (tables.prefix_bytes < kLongestPrefixBytes && ipv6[kReservedByte] != 0) return false;
    uint32_t at = tables.prefix_bytes;
    for (uint32_t i = 0; i < 4; ++i, ++at) {
        if (at == kReservedByte) ++at;
        ipv4[i] = ipv6[at];
    }
    address = load_raw<uint32_t>(ipv4);
    return true;
}

MILLRACE_DEVICE bool is_inside(const OwnTables& tables, const Ipv6Address& address) {
    for (const Network& network : tables.inside) {
        uint32_t differs = 0;
        for (uint32_t i = 0; i < 4; ++i)
            differs |= (address.words[i] & network.mask.words[i]) ^ network.address.words[i];
        if (differs == 0) return true;
    }
    return false;
}

}  // namespace millrace::nf::nat64
