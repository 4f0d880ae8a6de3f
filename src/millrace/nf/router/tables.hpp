// The router's tables as a device sees them, and the lookups in them.
//
// IPv4: DIR-24-8 (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory Access Speeds, INFOCOM
// 1998): one entry for each /24, and a group of 256 for each /24 that holds longer prefixes. IPv6: the
// same idea with a first table of 2^16 entries, which stays in a cache, and strides of 8 bits below.
#pragma once

#include "millrace/nf/router/linear.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::router {

/// What a route leads to is a `Target`, by number; the first two are always there.
inline constexpr uint32_t kTargetNone = 0;   ///< no route
inline constexpr uint32_t kTargetLocal = 1;  ///< an address of the router itself

/// An entry of a table: the number of a target, or, with the top bit set, of a group of 256 entries.
/// 16 bits serve IPv4: 32,767 targets and 32,768 groups, that is, /24s with longer prefixes in them
/// (a full table has a few thousand). IPv6 has more groups than that, so its entries are 32 bits wide.
using Ipv4Entry = uint16_t;
using Ipv6Entry = uint32_t;
inline constexpr uint32_t kIpv4Group = 0x8000u;
inline constexpr uint32_t kIpv6Group = 0x80000000u;
inline constexpr uint32_t kGroupEntries = 256;
inline constexpr uint32_t kMaxTargets = 0x8000;

/// One or more next hops that share the traffic of a route.
struct Target {
    uint32_t first;  ///< the next hop; of several, the index of the first in `members`; of none, the outcome
    uint32_t count;  ///< 0: there is no next hop
};

struct NextHop {
    enum Flags : uint16_t { kSetDst = 1, kSetSrc = 2 };
    uint8_t dst[6];
    uint8_t src[6];
    uint16_t port;  ///< kNoPort: the chain's output
    uint16_t flags;
    uint16_t mtu;  ///< longest IP packet; 0: any
};
static_assert(sizeof(NextHop) == 18);

/// The address of the kernel's interface that stands for a port.
struct PortMac {
    uint8_t bytes[6];
    uint16_t is_known;
};
static_assert(sizeof(PortMac) == 8);

/// Prefixes of both address families, and the number of a target for each.
struct PrefixTables {
    View<Ipv4Entry> ipv4_root;     ///< 2^24, or none without IPv4 routes
    View<Ipv4Entry> ipv4_groups;   ///< 256 each
    View<Ipv6Entry> ipv6_root;     ///< 2^16, or none without IPv6 routes
    View<Ipv6Entry> ipv6_groups;   ///< 256 each
    View<LinearIpv4> ipv4_linear;  ///< in place of those four
    View<LinearIpv6> ipv6_linear;
};

struct RouterTables {
    PrefixTables prefixes;  ///< linear with `engine: linear`
    View<Target> targets;
    View<uint16_t> members;  ///< next hops of targets that have several
    View<NextHop> next_hops;
    /// 1: the kernel is the host behind the router, and gets what is sent to groups and to all hosts of a link.
    uint32_t kernel_host = 0;
    View<PortMac> port_macs;  ///< with a kernel: by port
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

}  // namespace millrace::nf::router
