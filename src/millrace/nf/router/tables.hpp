// The router's tables as a device sees them.
#pragma once

#include "millrace/nf/prefixes/prefix_tables.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::router {

using namespace prefixes;  // whose targets these are

/// What a route leads to is a `Target`, by number; the first two, kTargetNone and this one, are always there.
inline constexpr uint32_t kTargetLocal = 1;  ///< an address of the router itself

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

struct RouterTables {
    PrefixTables prefixes;  ///< linear with `engine: linear`
    View<Target> targets;
    View<uint16_t> members;  ///< next hops of targets that have several
    View<NextHop> next_hops;
    /// 1: the kernel is the host behind the router, and gets what is sent to groups and to all hosts of a link.
    uint32_t kernel_host = 0;
    View<PortMac> port_macs;  ///< with a kernel: by port
};

}  // namespace millrace::nf::router
