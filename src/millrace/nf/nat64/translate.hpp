// Headers of IPv6 as those of IPv4, and the other way (RFC 7915): of packets, and of what ICMP errors quote.
#pragma once

#include "millrace/nf/nat64/tables.hpp"
#include "millrace/packet/icmp.hpp"
#include "millrace/packet/rewrite.hpp"

namespace millrace::nf::nat64 {

/// The beginning of the frame that a packet becomes, up to an L4 header that stays where it is: with four VLAN tags,
/// and of an ICMP error, with both IP headers.
struct Head {
    static constexpr uint32_t kMax = eth::kHeaderBytes + kMaxVlanTags * eth::kVlanBytes + 2 * ip::kIpv6Bytes +
                                     icmp::kHeaderBytes;
    uint8_t bytes[kMax];
    uint32_t size = 0;
};

/// What an IP header says besides lengths.
struct IpFields {
    uint8_t traffic_class, ttl;
    uint8_t protocol;              ///< of IPv4, also in IPv6
    uint16_t identification;       ///< of IPv4
    bool ipv6;                     ///< the header to be written
    uint32_t source, destination;  ///< in IPv4
    Ipv6Address ipv6_source, ipv6_destination;
};

inline constexpr uint8_t kEchoRequest = 8, kEchoReply = 0, kEchoRequest6 = 128, kEchoReply6 = 129;

/// Bytes behind an IP header that have room in either family.
inline constexpr uint32_t kMaxCarried = 0xffff - ip::kIpv4Bytes;

MILLRACE_DEVICE uint8_t next_header_of(uint8_t protocol) {
    return protocol == ip::kProtocolIcmp ? ip::kProtocolIcmpv6 : protocol;
}
MILLRACE_DEVICE uint32_t ip_bytes(bool ipv6) { return ipv6 ? ip::kIpv6Bytes : ip::kIpv4Bytes; }

/// Appends the header of a packet with `carried` bytes behind it. IPv4 of more than 1,260 bytes is not to be cut on its
/// way, as IPv6 never is; shorter packets may be, where paths have an MTU below IPv6's least (RFC 7915, section 5.1).
/// So may those that are longer than `mtu`: they came in fragments, and were put together for this.
MILLRACE_DEVICE void put_ip(Head& head, const IpFields& fields, uint32_t carried, uint32_t mtu) {
    uint8_t* const header = head.bytes + head.size;
    head.size += ip_bytes(fields.ipv6);
    if (fields.ipv6) {
        store_be32(header, 0x60000000u | uint32_t{fields.traffic_class} << 20);
        store_be16(header + 4, static_cast<uint16_t>(carried));
        header[6] = next_header_of(fields.protocol);
        header[7] = fields.ttl;
        store_address(header + 8, fields.ipv6_source);
        store_address(header + 24, fields.ipv6_destination);
        return;
    }
    constexpr uint32_t kLeast = 1260;
    const uint32_t total = carried + ip::kIpv4Bytes;
    const bool may_be_cut = total <= kLeast || total > mtu;
    store_be32(header, 0x45000000u | uint32_t{fields.traffic_class} << 16 | total);
    store_be16(header + 4, may_be_cut ? fields.identification : uint16_t{0});
    store_be16(header + 6, may_be_cut ? 0 : 0x4000);
    header[8] = fields.ttl;
    header[9] = fields.protocol;
    store_be16(header + 10, 0);
    store_raw<uint32_t>(header + 12, fields.source);
    store_raw<uint32_t>(header + 16, fields.destination);
    store_be16(header + 10, checksum(header, ip::kIpv4Bytes));
}

/// The sum that an L4 checksum has of the IP header at `header`. ICMP has none in IPv4 (RFC 792), and `carried` bytes
/// and the protocol in IPv6 (RFC 4443, section 2.3), as TCP and UDP have in both. Not folded.
MILLRACE_DEVICE uint32_t pseudo_sum(const uint8_t* header, bool ipv6, uint8_t protocol, uint32_t carried) {
    if (protocol == ip::kProtocolIcmp && !ipv6) return 0;
    const uint32_t sum = carried + (ipv6 ? next_header_of(protocol) : protocol);
    return checksum_add(sum, header + (ipv6 ? 8 : 12), ipv6 ? 32 : 8);
}
/// What a sum gains when one of its parts becomes another.
MILLRACE_DEVICE uint32_t gain(uint32_t before, uint32_t after) {
    return checksum_finish(before) + static_cast<uint32_t>(static_cast<uint16_t>(~checksum_finish(after)));
}

/// Ports of an L4 header, or the identifier of an echo, replaced, and its checksum, as far as there is one in `bytes`:
/// it gains by them, and by `gained` of the pseudo header. What was wrong stays wrong.
MILLRACE_DEVICE void replace_ports(uint8_t* l4, uint32_t bytes, uint8_t protocol, bool ipv6, uint16_t source,
                                   uint16_t destination, uint32_t gained) {
    if (protocol == ip::kProtocolIcmp) {
        const bool is_request = l4[0] == kEchoRequest || l4[0] == kEchoRequest6;
        const uint8_t type = ipv6 ? (is_request ? kEchoRequest6 : kEchoReply6) : is_request ? kEchoRequest : kEchoReply;
        gained += put_word(l4, static_cast<uint16_t>(type << 8 | l4[1]));
        gained += put_word(l4 + 4, is_request ? source : destination);
        follow(l4 + 2, gained);
        return;
    }
    gained += put_word(l4, source);
    gained += put_word(l4 + 2, destination);
    if (protocol == ip::kProtocolUdp) follow_udp(l4 + 6, gained);
    else if (bytes >= 18) follow(l4 + 16, gained);
}

/// The checksum of a UDP datagram, where its sender gave none: IPv6 must have one (RFC 7915, section 4.5).
MILLRACE_DEVICE void give_udp_checksum(uint8_t* l4, const uint8_t* header) {
    const uint32_t bytes = load_be16(l4 + 4);
    const uint16_t sum = checksum_finish(checksum_add(pseudo_sum(header, true, ip::kProtocolUdp, bytes), l4, bytes));
    store_be16(l4 + 6, sum == 0 ? 0xffff : sum);
}

/// Whether a header has only what the other family needs not know of: no way that the packet has yet to take.
MILLRACE_DEVICE bool is_way_over(const Packet& packet) {
    const uint8_t* const header = packet.l3();
    const uint32_t end = packet.layers().l4_offset - packet.layers().l3_offset;
    if (packet.layers().is_ipv6()) {
        uint8_t next = header[6];
        for (uint32_t at = ip::kIpv6Bytes; at + 8 <= end;) {
            if (next == ip::kProtocolRouting && header[at + 3] != 0) return false;
            const uint32_t words = next == ip::kProtocolFragment ? 0 : header[at + 1];
            const uint32_t bytes = next == ip::kProtocolAh ? (words + 2) * 4 : (words + 1) * 8;
            next = header[at];
            at += bytes;
        }
        return true;
    }
    constexpr uint8_t kEnd = 0, kNothing = 1, kLooseRoute = 131, kStrictRoute = 137;
    for (uint32_t at = ip::kIpv4Bytes; at + 2 < end && header[at] != kEnd;) {
        if (header[at] == kNothing) {
            ++at;
            continue;
        }
        const uint32_t bytes = header[at + 1];
        if (bytes < 2) return false;
        const bool is_route = header[at] == kLooseRoute || header[at] == kStrictRoute;
        if (is_route && header[at + 2] <= bytes) return false;
        at += bytes;
    }
    return true;
}

/// Puts `head` in place of the first `from` bytes; the packet ends `bytes` behind them. There is room for it.
MILLRACE_DEVICE void put_head(Packet& packet, const Head& head, uint32_t from, uint32_t bytes) {
    packet.shrink_back(packet.length() - from - bytes);
    if (head.size > from) packet.grow_front(head.size - from);
    else packet.shrink_front(from - head.size);
    copy_bytes(packet.data(), head.bytes, head.size);
    packet.parse();
}

}  // namespace millrace::nf::nat64
