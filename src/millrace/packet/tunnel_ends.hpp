// What all ends of tunnels do: the marks of outer and inner headers, and taking outer headers off.
#pragma once

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace {

/// Traffic class of an IP header: DSCP and ECN.
MILLRACE_DEVICE uint8_t traffic_class(const uint8_t* header, bool ipv6) {
    return ipv6 ? static_cast<uint8_t>(load_be16(header) >> 4) : header[1];
}

/// Carries congestion marks from the outer header to the inner one (RFC 6040, section 4.2). False when
/// the outer header says "congestion experienced" and the inner one that its transport knows no such thing.
template <class Lanes>
MILLRACE_DEVICE bool combine_ecn(Packet& packet, uint8_t outer, Lanes lanes) {
    constexpr uint8_t kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3;
    const bool ipv6 = packet.layers().is_ipv6();
    uint8_t* header = packet.l3();
    const uint8_t inner = traffic_class(header, ipv6) & 3;
    outer &= 3;
    if (inner == kNotEct) return outer != kCe;
    const uint8_t combined = outer == kCe || (outer == kEct1 && inner == kEct0) ? outer : inner;
    if (combined == inner) return true;
    lanes.once([&] {
        const uint16_t before = load_be16(header);
        const unsigned shift = ipv6 ? 4 : 0;
        const uint16_t after = static_cast<uint16_t>((before & ~(3u << shift)) |
                                                     (static_cast<uint32_t>(combined) << shift));
        store_be16(header, after);
        if (!ipv6) store_be16(header + 10, checksum_update(load_be16(header + 10), before, after));
    });
    return true;
}

/// Makes the frame that of the IP packet which lies at `at`, with `bytes` at most: the Ethernet header and VLAN tags
/// move up to it. Parses what is left, and takes off what lies behind the packet.
template <class Lanes>
MILLRACE_DEVICE void unwrap_ip(Packet& packet, uint32_t at, uint32_t bytes, bool ipv6, Lanes lanes) {
    const uint32_t l2_bytes = packet.layers().l3_offset, head = at - l2_bytes;
    uint8_t* const frame = packet.data();
    lanes.once([&] {
        // To higher addresses, last byte first: the two may overlap.
        for (uint32_t i = l2_bytes; i-- > 0;) frame[head + i] = frame[i];
        store_be16(frame + head + l2_bytes - 2, ipv6 ? eth::kTypeIpv6 : eth::kTypeIpv4);
    });
    packet.shrink_front(head);
    packet.shrink_back(packet.length() - l2_bytes - bytes);
    packet.parse();
    if (packet.layers().is_ip()) packet.shrink_back(packet.length() - packet.layers().end);
}

}  // namespace millrace
