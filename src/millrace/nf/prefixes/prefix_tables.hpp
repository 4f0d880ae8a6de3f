// Longest-prefix match: the tables as a device sees them, and the lookups in them.
//
// IPv4: DIR-24-8 (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory Access Speeds, INFOCOM
// 1998): one entry for each /24, and a group of 256 for each /24 that holds longer prefixes. IPv6: the
// same idea with a first table of 2^16 entries, which stays in a cache, and strides of 8 bits below.
#pragma once

#include "millrace/nf/prefixes/linear.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::prefixes {

/// What a prefix leads to is a target, by number.
inline constexpr uint32_t kTargetNone = 0;  ///< no prefix covers the address

/// An entry of a table: the number of a target, or, with the top bit set, of a group of 256 entries.
/// 16 bits serve IPv4: 32,767 targets and 32,768 groups, that is, /24s with longer prefixes in them
/// (a full table has a few thousand). IPv6 has more groups than that, so its entries are 32 bits wide.
using Ipv4Entry = uint16_t;
using Ipv6Entry = uint32_t;
inline constexpr uint32_t kIpv4Group = 0x8000u;
inline constexpr uint32_t kIpv6Group = 0x80000000u;
inline constexpr uint32_t kGroupEntries = 256;
inline constexpr uint32_t kMaxTargets = 0x8000;

/// Prefixes of both address families, and the number of a target for each.
struct PrefixTables {
    View<Ipv4Entry> ipv4_root;     ///< 2^24, or none without IPv4 routes
    View<Ipv4Entry> ipv4_groups;   ///< 256 each
    View<Ipv6Entry> ipv6_root;     ///< 2^16, or none without IPv6 routes
    View<Ipv6Entry> ipv6_groups;   ///< 256 each
    View<LinearIpv4> ipv4_linear;  ///< in place of those four
    View<LinearIpv6> ipv6_linear;
};

/// The target for an IPv4 address in host order.
MILLRACE_DEVICE uint32_t lookup_ipv4(const PrefixTables& tables, uint32_t address) {
    if (tables.ipv4_root.empty()) return search_linear(tables.ipv4_linear, address, kTargetNone);
    const uint32_t entry = tables.ipv4_root[address >> 8];
    if ((entry & kIpv4Group) == 0) return entry;
    return tables.ipv4_groups[(entry & (kIpv4Group - 1)) * kGroupEntries + (address & 255)];
}

/// The target for an IPv6 address, 16 bytes in network order.
MILLRACE_DEVICE uint32_t lookup_ipv6(const PrefixTables& tables, const uint8_t* address) {
    if (tables.ipv6_root.empty()) return search_linear(tables.ipv6_linear, address, kTargetNone);
    uint32_t entry = tables.ipv6_root[load_be16(address)];
    for (unsigned i = 2; (entry & kIpv6Group) != 0 && i < 16; ++i)
        entry = tables.ipv6_groups[uint64_t{entry & (kIpv6Group - 1)} * kGroupEntries + address[i]];
    return entry;
}

}  // namespace millrace::nf::prefixes
