// Into a tunnel: the headers that go before a packet or a frame.
#pragma once

#include "millrace/nf/tunnel/unwrap.hpp"
#include "millrace/packet/rewrite.hpp"

namespace millrace::nf::tunnel {

/// What goes before what a tunnel carries.
struct Wrapping {
    uint32_t from = 0;  ///< what is carried begins there in the frame, and ends `bytes` behind it
    uint32_t bytes = 0;
    uint32_t l2_bytes = 0;     ///< of the new frame's Ethernet header, with VLAN tags
    uint32_t head_bytes = 0;   ///< between the outer IP header and what is carried, an Ethernet header of ours included
    uint32_t outer_bytes = 0;  ///< of the outer IP packet
    uint32_t front = 0;        ///< by which the frame grows
    bool is_frame = false;     ///< the whole frame is carried
};

/// Bytes between the outer IP header and what is carried.
MILLRACE_DEVICE uint32_t head_bytes_of(Kind kind, bool has_key, bool is_frame) {
    if (kind == Kind::ipip) return 0;
    if (kind == Kind::gre) return has_key ? 8 : 4;
    const uint32_t bytes = udp::kHeaderBytes + 8;
    return has_ethernet(kind) && !is_frame ? bytes + eth::kHeaderBytes : bytes;
}

MILLRACE_DEVICE Wrapping wrapping_of(const Packet& packet, const Tunnel& tunnel) {
    const Layers& layers = packet.layers();
    Wrapping made;
    made.is_frame = tunnel.port != kNoPort;
    made.from = made.is_frame ? 0 : layers.l3_offset;
    made.bytes = (made.is_frame ? packet.length() : layers.end) - made.from;
    made.l2_bytes = made.is_frame ? eth::kHeaderBytes : layers.l3_offset;
    made.head_bytes = head_bytes_of(tunnel.ends.kind, tunnel.ends.has_id != 0, made.is_frame);
    const uint32_t ip_bytes = tunnel.ends.ipv6 != 0 ? ip::kIpv6Bytes : ip::kIpv4Bytes;
    made.outer_bytes = ip_bytes + made.head_bytes + made.bytes;
    made.front = ip_bytes + made.head_bytes + (made.is_frame ? made.l2_bytes : 0);
    return made;
}

/// Lets a TCP segment that opens a connection through a tunnel ask for what fits into it. Frames of joined ports stay
/// as they are.
template <class Lanes>
MILLRACE_DEVICE void clamp_mss_of(Packet& packet, const TunnelTables& tables, const Tunnel& tunnel, Lanes lanes) {
    const Layers& layers = packet.layers();
    if (tables.clamps_mss == 0 || tunnel.port != kNoPort || !layers.is_tcp() || (packet.tcp_flags() & tcp::kSyn) == 0)
        return;
    const uint32_t around = (tunnel.ends.ipv6 != 0 ? ip::kIpv6Bytes : ip::kIpv4Bytes) +
                            head_bytes_of(tunnel.ends.kind, tunnel.ends.has_id != 0, false);
    const uint32_t headers = (layers.is_ipv6() ? ip::kIpv6Bytes : ip::kIpv4Bytes) + tcp::kHeaderBytes;
    if (tables.mtu <= around + headers) return;
    lanes.once([&] { clamp_mss(packet.l4(), tables.mtu - around - headers); });
}

/// The outer header's traffic class: ECN of what is carried (RFC 6040, section 4.1), its DSCP where that is copied.
MILLRACE_DEVICE uint32_t class_outside(const Packet& packet, const TunnelTables& tables) {
    if (!packet.layers().is_ip()) return 0;
    const uint32_t inside = traffic_class(packet.l3(), packet.layers().is_ipv6());
    return tables.copies_dscp != 0 ? inside : inside & 3;
}

MILLRACE_DEVICE bool is_df_outside(const Packet& packet, const TunnelTables& tables) {
    if (tables.dont_fragment != DontFragment::copy) return tables.dont_fragment == DontFragment::set;
    // Of IPv6 nobody may cut anything on its way.
    return !packet.layers().is_ipv4() || (packet.l3()[6] & 0x40) != 0;
}

MILLRACE_DEVICE uint8_t protocol_outside(Kind kind, bool carries_ipv6) {
    if (kind == Kind::ipip) return carries_ipv6 ? ip::kProtocolIpv6 : ip::kProtocolIpv4;
    return kind == Kind::gre ? ip::kProtocolGre : ip::kProtocolUdp;
}

/// What of the packet goes into its outer headers; to be asked before it is moved.
struct Outside {
    uint32_t traffic_class = 0;
    uint32_t flow = 0;            ///< a hash: paths and queues tell flows by the UDP source port (RFC 7348, section 5)
    uint16_t identification = 0;  ///< counts where a packet may be cut into fragments
    uint16_t ether_type = 0;      ///< of what is carried
    bool dont_fragment = false;
    bool ipv6 = false;  ///< of what is carried
};
MILLRACE_DEVICE Outside outside_of(const Packet& packet, const TunnelTables& tables, bool is_frame) {
    Outside made;
    made.ipv6 = packet.layers().is_ipv6();
    made.traffic_class = class_outside(packet, tables);
    made.flow = flow_hash(packet);
    made.dont_fragment = is_df_outside(packet, tables);
    // Unique as that of what is carried: its sender counts (RFC 6864, section 4).
    if (!made.dont_fragment && packet.layers().is_ipv4())
        made.identification = static_cast<uint16_t>(load_be16(packet.l3() + 4) + made.flow);
    made.ether_type = is_frame ? eth::kTypeBridged : made.ipv6 ? eth::kTypeIpv6 : eth::kTypeIpv4;
    return made;
}

MILLRACE_DEVICE void write_ip_outside(uint8_t* header, const Tunnel& tunnel, const Outside& outside, uint32_t bytes) {
    const uint8_t protocol = protocol_outside(tunnel.ends.kind, outside.ipv6);
    if (tunnel.ends.ipv6 != 0) {
        store_be32(header, 0x60000000u | outside.traffic_class << 20 | (outside.flow & 0xfffff));  // RFC 6438
        store_be16(header + 4, static_cast<uint16_t>(bytes - ip::kIpv6Bytes));
        header[6] = protocol;
        header[7] = tunnel.ttl;
        for (unsigned i = 0; i < 4; ++i) store_raw<uint32_t>(header + 8 + 4 * i, tunnel.ends.local[i]);
        for (unsigned i = 0; i < 4; ++i) store_raw<uint32_t>(header + 24 + 4 * i, tunnel.ends.remote[i]);
        return;
    }
    store_be32(header, 0x45000000u | outside.traffic_class << 16 | bytes);
    store_be16(header + 4, outside.identification);
    store_be16(header + 6, outside.dont_fragment ? 0x4000 : 0);
    header[8] = tunnel.ttl;
    header[9] = protocol;
    store_be16(header + 10, 0);
    store_raw<uint32_t>(header + 12, tunnel.ends.local[0]);
    store_raw<uint32_t>(header + 16, tunnel.ends.remote[0]);
    store_be16(header + 10, checksum(header, ip::kIpv4Bytes));
}

/// Writes what stands between the outer IP header and what is carried; `bytes` is the length of both.
MILLRACE_DEVICE void write_head(uint8_t* head, const Tunnel& tunnel, const Outside& outside, uint32_t bytes,
                                bool is_frame) {
    const Kind kind = tunnel.ends.kind;
    if (kind == Kind::ipip) return;
    if (kind == Kind::gre) {
        constexpr uint16_t kHasKey = 0x2000;
        store_be16(head, tunnel.ends.has_id != 0 ? kHasKey : 0);
        store_be16(head + 2, outside.ether_type);
        if (tunnel.ends.has_id != 0) store_be32(head + 4, tunnel.id_out);
        return;
    }
    constexpr uint32_t kFirstPort = 49152;  // of the dynamic ones
    const uint16_t port = kind == Kind::vxlan    ? udp::kPortVxlan
                          : kind == Kind::geneve ? udp::kPortGeneve
                                                 : udp::kPortGtpU;
    store_be16(head, static_cast<uint16_t>(kFirstPort | (outside.flow & 0x3fff)));
    store_be16(head + 2, port);
    store_be16(head + 4, static_cast<uint16_t>(bytes));
    store_be16(head + 6, 0);  // no checksum, over IPv6 as well (RFC 6935)
    uint8_t* const own = head + udp::kHeaderBytes;
    if (kind == Kind::gtp_u) {
        store_be16(own, 0x30ff);  // version 1, GTP, no optional fields; user's data
        store_be16(own + 2, static_cast<uint16_t>(bytes - udp::kHeaderBytes - 8));
        store_be32(own + 4, tunnel.id_out);
        return;
    }
    store_be32(own, kind == Kind::vxlan ? 0x08000000u : eth::kTypeBridged);
    store_be32(own + 4, tunnel.id_out << 8);
    if (is_frame) return;
    copy_bytes(own + 8, tunnel.macs, 12);
    store_be16(own + 20, outside.ether_type);
}

/// Puts the packet, or its whole frame, into the tunnel. There is room for it.
template <class Lanes>
MILLRACE_DEVICE void put_in(Packet& packet, const TunnelTables& tables, const Tunnel& tunnel, const Wrapping& wrapping,
                            Lanes lanes) {
    const Outside outside = outside_of(packet, tables, wrapping.is_frame);
    packet.shrink_back(packet.length() - wrapping.from - wrapping.bytes);
    packet.grow_front(wrapping.front);
    uint8_t* const frame = packet.data();
    const uint32_t ip_bytes = tunnel.ends.ipv6 != 0 ? ip::kIpv6Bytes : ip::kIpv4Bytes;
    lanes.once([&] {
        // A frame's new addresses are a router's to write.
        for (uint32_t i = 0; i < wrapping.l2_bytes; ++i) frame[i] = wrapping.is_frame ? 0 : frame[wrapping.front + i];
        store_be16(frame + wrapping.l2_bytes - 2, tunnel.ends.ipv6 != 0 ? eth::kTypeIpv6 : eth::kTypeIpv4);
        uint8_t* const header = frame + wrapping.l2_bytes;
        write_ip_outside(header, tunnel, outside, wrapping.outer_bytes);
        write_head(header + ip_bytes, tunnel, outside, wrapping.outer_bytes - ip_bytes, wrapping.is_frame);
    });
    packet.parse();
}

}  // namespace millrace::nf::tunnel
