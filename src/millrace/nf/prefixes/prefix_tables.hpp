// Longest-prefix match: the tables as a device sees them, and the lookups in them.
//
// A first table, and groups of 256 entries for the next 8 bits wherever longer prefixes are. The first table of few
// prefixes has an entry for each first byte. That of many has, for IPv4, one for each /24: DIR-24-8 (Gupta, Lin,
// McKeown: Routing Lookups in Hardware at Memory Access Speeds, INFOCOM 1998); for IPv6 2^16 entries, which stay in a
// cache.
#pragma once

#include "millrace/nf/prefixes/linear.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::prefixes {

/// What a prefix leads to is a target, by number.
inline constexpr uint32_t kTargetNone = 0;  ///< no prefix covers the address

/// An entry of a table: the number of a target, or, with the top bit set, of a group of 256 entries.
/// 16 bits serve IPv4: 32,767 targets and 32,768 groups, that is, of a large table, /24s with longer prefixes in them
/// (a full table has a few thousand). IPv6 has more groups than that, so its entries are 32 bits wide.
using Ipv4Entry = uint16_t;
using Ipv6Entry = uint32_t;
inline constexpr uint32_t kIpv4Group = 0x8000u;
inline constexpr uint32_t kIpv6Group = 0x80000000u;
inline constexpr uint32_t kGroupEntries = 256;
inline constexpr uint32_t kSmallRoot = 256;  ///< entries of a small table's first table
inline constexpr uint32_t kMaxTargets = 0x8000;

/// Prefixes of both address families, and the number of a target for each.
struct PrefixTables {
    View<Ipv4Entry> ipv4_root;     ///< kSmallRoot or 2^24, or none without IPv4 routes
    View<Ipv4Entry> ipv4_groups;   ///< 256 each
    View<Ipv6Entry> ipv6_root;     ///< kSmallRoot or 2^16, or none without IPv6 routes
    View<Ipv6Entry> ipv6_groups;   ///< 256 each
    View<LinearIpv4> ipv4_linear;  ///< in place of those four
    View<LinearIpv6> ipv6_linear;
};

/// The target for an IPv4 address in host order, where the first table is small, or there is none.
MILLRACE_DEVICE uint32_t lookup_few_ipv4(const PrefixTables& tables, uint32_t address) {
    if (tables.ipv4_root.empty()) return search_linear(tables.ipv4_linear, address, kTargetNone);
    uint32_t entry = tables.ipv4_root[address >> 24];
    for (unsigned below = 24; (entry & kIpv4Group) != 0 && below > 0;) {
        below -= 8;
        entry = tables.ipv4_groups[(entry & (kIpv4Group - 1)) * kGroupEntries + (address >> below & 255)];
    }
    return entry;
}

/// The target for an IPv4 address in host order. Large tables pay nothing for small ones.
MILLRACE_DEVICE uint32_t lookup_ipv4(const PrefixTables& tables, uint32_t address) {
    if (tables.ipv4_root.size() <= kSmallRoot) return lookup_few_ipv4(tables, address);
    const uint32_t entry = tables.ipv4_root[address >> 8];
    if ((entry & kIpv4Group) == 0) return entry;
    return tables.ipv4_groups[(entry & (kIpv4Group - 1)) * kGroupEntries + (address & 255)];
}

/// The target for an IPv6 address, 16 bytes in network order.
MILLRACE_DEVICE uint32_t lookup_ipv6(const PrefixTables& tables, const uint8_t* address) {
    if (tables.ipv6_root.empty()) return search_linear(tables.ipv6_linear, address, kTargetNone);
    const bool is_small = tables.ipv6_root.size() == kSmallRoot;
    uint32_t entry = tables.ipv6_root[is_small ? address[0] : load_be16(address)];
    for (unsigned i = is_small ? 1 : 2; (entry & kIpv6Group) != 0 && i < 16; ++i)
        entry = tables.ipv6_groups[uint64_t{entry & (kIpv6Group - 1)} * kGroupEntries + address[i]];
    return entry;
}

}  // namespace millrace::nf::prefixes
