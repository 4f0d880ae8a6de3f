// What arrives at the end of a tunnel.
#pragma once

#include "millrace/nf/tunnel/tables.hpp"
#include "millrace/packet/tunnel_ends.hpp"

namespace millrace::nf::tunnel {

MILLRACE_DEVICE void load_address(uint32_t* words, const uint8_t* at, bool ipv6) {
    for (unsigned i = 0; i < 4; ++i) words[i] = i == 0 || ipv6 ? load_raw<uint32_t>(at + 4 * i) : 0;
}

/// Whether IP packets lie behind an Ethernet header in such a tunnel, too.
MILLRACE_DEVICE bool has_ethernet(Kind kind) { return kind == Kind::vxlan || kind == Kind::geneve; }

/// A packet of a tunnel of some kind, by its outer headers.
struct Arrival {
    Carried carried;
    Kind kind = Kind::ipip;
    bool malformed = false;
    uint8_t has_id = 0;
    uint32_t id = 0;
};

/// The kind of the tunnel that an IP packet is of, if that is one of `kinds`.
MILLRACE_DEVICE bool find_kind(const Packet& packet, uint32_t kinds, Kind& kind) {
    using namespace millrace::tunnel;
    const Layers& layers = packet.layers();
    uint32_t wanted = 0;
    if (layers.is_udp()) {
        const uint16_t port = packet.l4_dst_port();
        kind = port == udp::kPortVxlan ? Kind::vxlan : port == udp::kPortGeneve ? Kind::geneve : Kind::gtp_u;
        if (kind != Kind::gtp_u || port == udp::kPortGtpU) wanted = bit_of(kind);
    } else if (layers.protocol == ip::kProtocolGre) {
        kind = Kind::gre;
        wanted = kGre;
    } else if (layers.protocol == ip::kProtocolIpv4 || layers.protocol == ip::kProtocolIpv6) {
        kind = Kind::ipip;
        wanted = kIpip;
    }
    return (kinds & wanted) != 0;
}

/// What a packet of a tunnel of these kinds carries. False when it is of none, or of GTP-U and no user's data: then it
/// is for somebody else at this address.
MILLRACE_DEVICE bool find_arrival(const Packet& packet, uint32_t kinds, Arrival& arrival) {
    if (!find_kind(packet, kinds, arrival.kind)) return false;
    Layers layers = packet.layers();
    arrival.carried = find_carried(packet, bit_of(arrival.kind), layers);
    arrival.malformed = layers.malformed != Malformed::no;
    if (arrival.carried.what == Carried::What::nothing) {
        const bool is_signalling = arrival.kind == Kind::gtp_u && packet.payload_bytes() >= 2 &&
                                   packet.payload()[1] != 255;
        if (!arrival.malformed && is_signalling) return false;
        arrival.malformed = true;
        return true;
    }
    const uint8_t* const head = packet.payload();
    if (arrival.kind == Kind::gre) {
        constexpr uint32_t kChecksum = 0x8000, kKey = 0x2000;
        const uint32_t flags = load_be16(head);
        arrival.has_id = (flags & kKey) != 0;
        if (arrival.has_id != 0) arrival.id = load_be32(head + ((flags & kChecksum) != 0 ? 8 : 4));
    } else if (arrival.kind != Kind::ipip) {
        // Control messages, and options that whoever does not know them must not pass over (RFC 8926, section 3.5).
        constexpr uint8_t kControlOrCritical = 0xc0;
        if (arrival.kind == Kind::geneve && (head[1] & kControlOrCritical) != 0) arrival.malformed = true;
        arrival.has_id = 1;
        arrival.id = arrival.kind == Kind::gtp_u ? load_be32(head + 4) : load_be32(head + 4) >> 8;
    }
    return true;
}

/// Whether the checksums of the outer headers are right, those that are there.
MILLRACE_DEVICE bool are_sums_right(const Packet& packet, const Arrival& arrival) {
    const Layers& layers = packet.layers();
    const uint8_t* const header = packet.l3();
    if (layers.is_ipv4() && checksum(header, (header[0] & 15) * 4u) != 0) return false;
    if (arrival.kind == Kind::gre) {
        const uint8_t* const gre = packet.payload();
        return (gre[0] & 0x80) == 0 || checksum(gre, layers.end - layers.payload_offset) == 0;
    }
    const uint8_t* const l4 = packet.l4();
    if (!layers.is_udp() || load_be16(l4 + 6) == 0) return true;
    const uint32_t bytes = load_be16(l4 + 4);
    const uint32_t addresses = layers.is_ipv6() ? 32 : 8;
    uint32_t sum = checksum_add(ip::kProtocolUdp + bytes, header + (layers.is_ipv6() ? 8 : 12), addresses);
    return checksum_finish(checksum_add(sum, l4, bytes)) == 0;
}

}  // namespace millrace::nf::tunnel
