// What the Linux kernel tells about routes, nexthops, neighbours and links (rtnetlink), as plain values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "millrace/base/text/prefix.hpp"

namespace millrace::nf::router {

struct IpAddress {
    std::array<uint8_t, 16> bytes{};  ///< IPv4 uses the first four
    bool ipv6 = false;
    bool operator==(const IpAddress&) const = default;
    /// One family behind the other, so that the addresses of a prefix are neighbours.
    auto operator<=>(const IpAddress& other) const {
        return std::tie(ipv6, bytes) <=> std::tie(other.ipv6, other.bytes);
    }
    /// The prefix that has this address only.
    Prefix host() const { return {bytes, static_cast<uint8_t>(ipv6 ? 128 : 32), ipv6}; }
    std::string text() const;
};

/// One way of a route.
struct RouteHop {
    uint32_t interface = 0;  ///< index; 0: none
    bool has_gateway = false;
    IpAddress gateway;
    uint32_t weight = 1;  ///< share of the traffic, 1 to 65,536
    auto operator<=>(const RouteHop&) const = default;
};

/// RTM_NEWROUTE and RTM_DELROUTE. Numbers are the kernel's: RTN_*, RT_TABLE_*, RTPROT_*, RT_SCOPE_*.
struct RouteMessage {
    /// Among routes with the same prefix, table and metric.
    enum class Place : uint8_t { front, back, replace };
    bool gone = false;
    Place place = Place::front;
    Prefix prefix;
    uint32_t table = 0;
    uint32_t metric = 0;
    uint8_t type = 0, protocol = 0, scope = 0, tos = 0;
    uint32_t nexthop_object = 0;  ///< id; 0: none
    bool encapsulated = false;    ///< a hop wraps packets up (MPLS, segment routing, …)
    std::vector<RouteHop> hops;
};

/// RTM_NEWNEXTHOP and RTM_DELNEXTHOP, of objects that routes can name: one hop, or a group of such objects.
struct NexthopMessage {
    struct Member {
        uint32_t id = 0;
        uint32_t weight = 1;
        bool operator==(const Member&) const = default;
    };
    bool gone = false;
    uint32_t id = 0;
    bool blackhole = false;
    bool encapsulated = false;  ///< as in RouteMessage
    RouteHop hop;
    std::vector<Member> group;  ///< empty: one hop
    bool operator==(const NexthopMessage&) const = default;
};

/// RTM_NEWNEIGH and RTM_DELNEIGH, of IPv4 and IPv6.
struct NeighbourMessage {
    bool gone = false;
    uint32_t interface = 0;
    IpAddress address;
    bool has_mac = false;
    std::array<uint8_t, 6> mac{};
    uint16_t state = 0;  ///< NUD_*
};

/// RTM_NEWLINK and RTM_DELLINK.
struct LinkMessage {
    bool gone = false;
    uint32_t index = 0;
    std::string name;
    bool has_mac = false;
    std::array<uint8_t, 6> mac{};
    bool up = false;        ///< as an administrator set it
    bool carrier = false;   ///< frames can leave by it
    bool lower_up = false;  ///< they could as far as the wire is concerned
    uint32_t mtu = 0;
};

/// Takes what messages say, one call each.
class MessageListener {
public:
    virtual ~MessageListener() = default;
    virtual void on_route(const RouteMessage& message) = 0;
    virtual void on_nexthop(const NexthopMessage& message) = 0;
    virtual void on_neighbour(const NeighbourMessage& message) = 0;
    virtual void on_link(const LinkMessage& message) = 0;
    /// An address has gone: the kernel may have removed routes with it and not told of each.
    virtual void on_hidden_change() = 0;
    /// The answer to a request is complete (`error` 0), or the kernel refused it (errno). `inconsistent`: things
    /// changed while the kernel told of them.
    virtual void on_answered(uint32_t sequence, int error, bool inconsistent) = 0;
    /// A message that breaks off or contradicts itself; it was left out.
    virtual void on_malformed() = 0;
};

/// Reads what a netlink socket received. Any bytes may come.
class MessageParser {
public:
    explicit MessageParser(MessageListener& listener) : listener_(listener) {}
    void parse(std::span<const uint8_t> bytes);

private:
    using Bytes = std::span<const uint8_t>;
    bool parse_one(uint16_t type, uint16_t flags, uint32_t sequence, Bytes body);
    bool parse_route(bool gone, uint16_t flags, Bytes body);
    bool parse_hops(Bytes list, bool ipv6);
    bool parse_nexthop(bool gone, Bytes body);
    bool parse_neighbour(bool gone, Bytes body);
    bool parse_link(bool gone, Bytes body);

    MessageListener& listener_;
    RouteMessage route_;  // its memory serves all routes
    bool inconsistent_ = false;
};

/// Asks for everything of a kind: RTM_GETLINK, RTM_GETNEIGH, RTM_GETNEXTHOP or RTM_GETROUTE. `family`: AF_UNSPEC is
/// all.
std::vector<uint8_t> dump_request(uint16_t type, uint8_t family, uint32_t sequence);
/// Asks the kernel to use a neighbour as if it sent it a packet: to find its MAC address if that is not known, to ask
/// again if it has not been heard of for long.
std::vector<uint8_t> use_neighbour_request(uint32_t interface, const IpAddress& address, uint32_t sequence);

}  // namespace millrace::nf::router
