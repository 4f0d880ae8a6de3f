// ICMP errors, which the other family has by other numbers, about packets that the other family has otherwise
// (RFC 7915, sections 4.2, 4.3, 5.2 and 5.3).
#pragma once

#include "millrace/nf/nat64/translate.hpp"

namespace millrace::nf::nat64 {

/// The packet that an ICMP error is about. Offsets are bytes from the start of the frame.
struct Quoted {
    uint32_t at = 0, l4 = 0, end = 0;
    uint32_t carried = 0;  ///< bytes that were behind its IP header, of which these may be the first
    uint16_t source_port = 0, destination_port = 0;  ///< of an echo the identifier is both
    uint8_t protocol = 0;                            ///< of IPv4, also in IPv6
};

/// Where an error of these types says how much it quotes, if other information follows (RFC 4884, section 4). Bytes; 0:
/// all of it.
MILLRACE_DEVICE uint32_t quoted_bytes(const uint8_t* l4, bool ipv6) {
    if (ipv6) return l4[0] == 1 || l4[0] == 3 ? l4[4] * 8u : 0;
    return l4[0] == 3 || l4[0] == 11 || l4[0] == 12 ? l4[5] * 4u : 0;
}

/// False: it is too little, a later fragment, with extension headers, or of what has no ports. Information that follows
/// what is quoted is left out.
MILLRACE_DEVICE bool read_quoted(const Packet& packet, Quoted& quoted) {
    constexpr uint32_t kNeeded = 8;  // RFC 792: 64 bits of the datagram behind its header
    const Layers& layers = packet.layers();
    const bool ipv6 = layers.is_ipv6();
    quoted.at = layers.l4_offset + icmp::kHeaderBytes;
    quoted.end = smaller(layers.end, packet.present());
    if (const uint32_t bytes = quoted_bytes(packet.l4(), ipv6); bytes != 0)
        quoted.end = smaller(quoted.end, quoted.at + bytes);
    if (quoted.end < quoted.at + ip_bytes(ipv6) + kNeeded) return false;
    const uint8_t* const header = packet.data() + quoted.at;
    if (header[0] >> 4 != (ipv6 ? 6 : 4)) return false;
    const uint32_t header_bytes = ipv6 ? ip::kIpv6Bytes : (header[0] & 15) * 4u;
    if (header_bytes < ip::kIpv4Bytes || quoted.end < quoted.at + header_bytes + kNeeded) return false;
    if (!ipv6 && (load_be16(header + 6) & 0x1fff) != 0) return false;
    quoted.l4 = quoted.at + header_bytes;
    const uint32_t total = ipv6 ? load_be16(header + 4) + ip::kIpv6Bytes : load_be16(header + 2);
    if (total < header_bytes + kNeeded || total - header_bytes > kMaxCarried) return false;
    quoted.carried = total - header_bytes;
    quoted.end = smaller(quoted.end, quoted.at + total);
    quoted.protocol = header[ipv6 ? 6 : 9];
    const uint8_t* const l4 = packet.data() + quoted.l4;
    if (quoted.protocol == (ipv6 ? ip::kProtocolIcmpv6 : ip::kProtocolIcmp)) {
        quoted.protocol = ip::kProtocolIcmp;
        if (ipv6 ? l4[0] != kEchoRequest6 && l4[0] != kEchoReply6 : l4[0] != kEchoRequest && l4[0] != kEchoReply)
            return false;
        quoted.source_port = quoted.destination_port = load_be16(l4 + 4);
        return true;
    }
    if (quoted.protocol != ip::kProtocolTcp && quoted.protocol != ip::kProtocolUdp) return false;
    quoted.source_port = load_be16(l4);
    quoted.destination_port = load_be16(l4 + 2);
    return true;
}

/// The first eight bytes of an error but its checksum.
struct ErrorFields {
    uint8_t type = 0, code = 0;
    uint32_t rest = 0;
};

/// Where a field of one family's header lies in the other's; 255: nowhere (RFC 7915, figures 3 and 6).
MILLRACE_DEVICE uint32_t pointer_in_ipv6(uint32_t ipv4) {
    if (ipv4 <= 1) return ipv4;             // version, traffic class
    if (ipv4 == 2 || ipv4 == 3) return 4;   // length
    if (ipv4 == 8) return 7;                // time to live
    if (ipv4 == 9) return 6;                // protocol
    if (ipv4 >= 12 && ipv4 < 16) return 8;  // source
    return ipv4 >= 16 && ipv4 < 20 ? 24 : 255;
}
MILLRACE_DEVICE uint32_t pointer_in_ipv4(uint32_t ipv6) {
    if (ipv6 <= 1) return ipv6;
    if (ipv6 == 4 || ipv6 == 5) return 2;
    if (ipv6 == 6) return 9;
    if (ipv6 == 7) return 8;
    if (ipv6 >= 8 && ipv6 < 24) return 12;
    return ipv6 >= 24 && ipv6 < 40 ? 16 : 255;
}

/// What an MTU becomes when headers grow by 20 bytes: IPv6 has none below 1,280. Routers that tell none are answered by
/// a step down from the packet that was too long (RFC 1191, section 7).
MILLRACE_DEVICE uint32_t mtu_in_ipv6(uint32_t mtu, uint32_t packet_bytes) {
    constexpr uint32_t kSteps[] = {32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68};
    for (uint32_t i = 0; mtu == 0 && i < sizeof kSteps / sizeof kSteps[0]; ++i)
        if (kSteps[i] < packet_bytes) mtu = kSteps[i];
    return larger(mtu + ip::kIpv6Bytes - ip::kIpv4Bytes, 1280u);
}

/// An error of IPv4 in IPv6. False: IPv6 has none for it.
MILLRACE_DEVICE bool error_in_ipv6(const uint8_t* l4, uint32_t quoted_total, ErrorFields& error) {
    constexpr uint8_t kUnreachable = 1, kTooBig = 2, kTimeExceeded = 3, kBadParameter = 4;
    const uint8_t type = l4[0], code = l4[1];
    if (type == 11) {
        error = {kTimeExceeded, code, 0};
        return code <= 1;
    }
    if (type == 12) {
        error = {kBadParameter, 0, pointer_in_ipv6(l4[4])};
        return (code == 0 || code == 2) && error.rest != 255;
    }
    if (type != 3) return false;
    constexpr uint8_t kNoRoute = 0, kProhibited = 1, kPort = 4, kUnknownNext = 1;
    switch (code) {
        case 2: error = {kBadParameter, kUnknownNext, 6}; return true;
        case 3: error = {kUnreachable, kPort, 0}; return true;
        case 4: error = {kTooBig, 0, mtu_in_ipv6(load_be16(l4 + 6), quoted_total)}; return true;
        case 9:
        case 10:
        case 13:
        case 15: error = {kUnreachable, kProhibited, 0}; return true;
        default: error = {kUnreachable, kNoRoute, 0}; return code <= 12;
    }
}

/// The other way.
MILLRACE_DEVICE bool error_in_ipv4(const uint8_t* l4, ErrorFields& error) {
    constexpr uint8_t kUnreachable = 3, kTimeExceeded = 11, kBadParameter = 12;
    constexpr uint8_t kHost = 1, kProtocol = 2, kPort = 3, kTooBig = 4, kProhibited = 10;
    const uint8_t type = l4[0], code = l4[1];
    const uint32_t rest = load_be32(l4 + 4);
    if (type == 1) {
        error = {kUnreachable, code == 1 ? kProhibited : code == 4 ? kPort : kHost, 0};
        return code <= 4;
    }
    if (type == 2) {
        // Less the bytes that headers are longer in IPv6. Whatever is said, a packet has its header.
        const uint32_t mtu = smaller(rest, 0xffffu);
        const uint32_t longer = ip::kIpv6Bytes - ip::kIpv4Bytes;
        error = {kUnreachable, kTooBig, larger(mtu, longer + 68) - longer};
        return true;
    }
    if (type == 3) {
        error = {kTimeExceeded, code, 0};
        return code <= 1;
    }
    if (type != 4) return false;
    if (code == 1) {
        error = {kUnreachable, kProtocol, 0};
        return true;
    }
    const uint32_t pointer = pointer_in_ipv4(rest);
    error = {kBadParameter, 0, pointer << 24};
    return code == 0 && pointer != 255;
}

/// Whether the checksum of an error is right: what is said of other packets by broken ones is not believed (RFC 5508,
/// REQ-3).
MILLRACE_DEVICE bool is_error_intact(const Packet& packet) {
    const Layers& layers = packet.layers();
    const uint32_t bytes = layers.end - layers.l4_offset;
    const uint32_t sum = pseudo_sum(packet.l3(), layers.is_ipv6(), ip::kProtocolIcmp, bytes);
    return packet.present() >= layers.end && checksum_finish(checksum_add(sum, packet.l4(), bytes)) == 0;
}

}  // namespace millrace::nf::nat64
