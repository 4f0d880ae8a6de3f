// Packets for tests of NAT64, which have the same contents in IPv4 and in IPv6: written by the RFCs' text, header by
// header, and not by the product's code.
#pragma once

#include <compare>
#include <vector>

#include "support/nf_runner.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

/// The outcomes of nat64 by number.
enum : uint32_t {
    kOut,
    kIn,
    kHairpinned,
    kNotOurs,
    kNobody,
    kNoPortLeft,
    kPiece,
    kNoSuchThing,
    kTooLong,
    kTooLongAnswered
};

using Address6 = std::array<uint8_t, 16>;

/// One end of a flow, by each family: only one of the addresses may mean anything.
struct Side {
    Address6 ipv6{};
    uint32_t ipv4 = 0;
    uint16_t port = 0;  ///< of ICMP the identifier
    auto operator<=>(const Side&) const = default;
};

/// What both families say alike.
struct Content {
    uint8_t protocol = 17;  ///< of IPv4
    bool answer = false;    ///< of ICMP: an echo reply, whose identifier is its destination's
    uint8_t flags = 0x02;   ///< of TCP
    uint8_t traffic_class = 0, ttl = 64;
    Frame payload;
    std::vector<VlanTag> vlans;
};

PacketSpec spec_of(const Content& content, const Side& from, const Side& to, bool ipv6);
Frame in_ipv6(const Content& content, const Side& from, const Side& to);
/// With the identification of `like`, a frame of NAT64's, and DF as RFC 7915, section 5.1 has it: of more than
/// 1,260 bytes, and of no more than 1,500, as what is longer came in fragments.
Frame in_ipv4(const Content& content, const Side& from, const Side& to, const Frame& like);
/// As somebody outside sends it.
Frame in_ipv4(const Content& content, const Side& from, const Side& to);

/// The well-known prefix before an IPv4 address.
Address6 known(uint32_t ipv4);
/// An ICMP error to the sender of `quoted`, a frame without VLAN tags, of which it has `most` bytes from its IP header.
Frame error6(const Address6& teller, uint8_t type, uint8_t code, uint32_t rest, const Frame& quoted,
             size_t most = 1232);
Frame error4(uint32_t teller, uint8_t type, uint8_t code, uint32_t rest, const Frame& quoted, size_t most = 548);

/// The ends of an IPv4 packet without VLAN tags.
Side source4(const Frame& frame);
Side destination4(const Frame& frame);
/// A peer outside, as both families know it.
inline Side outside(uint32_t address, uint16_t port) { return {known(address), address, port}; }

/// An endpoint inside that has sent something to 192.0.2.9, and how both families have it. What NAT64 sends and what
/// errors quote of it are not alike in their identification: `outside` is what has been sent.
struct Known {
    Content content;
    Side client, external, server;
    Frame inside, outside;
};
Known known_endpoint(NfRunner& runner, uint8_t protocol);

/// By a sum over all of it, also of what an ICMP error quotes whole. Of IP packets of both families.
bool sums_right(const Frame& frame);

}  // namespace millrace::test
