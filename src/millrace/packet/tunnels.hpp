// The headers within tunnels, for chains that judge what a tunnel carries (`inner:`): MPLS, PPPoE, IP in IP, GRE,
// VXLAN, GENEVE, GTP-U, and AH in IPv4.
//
// Any bytes may come in. What is no tunnel by its ports, flags or protocol is left as it is; a tunnel whose headers do
// not hold, or whose packet does not, is malformed.
#pragma once

#include "millrace/packet/packet.hpp"

namespace millrace {

/// Kinds of tunnels, as bits of a set.
namespace tunnel {
inline constexpr uint32_t kMpls = 1;     ///< RFC 3032, with IP behind the labels
inline constexpr uint32_t kPppoe = 2;    ///< RFC 2516, sessions
inline constexpr uint32_t kIpip = 4;     ///< RFC 2003, RFC 2473, RFC 4213
inline constexpr uint32_t kGre = 8;      ///< RFC 2784, RFC 2890
inline constexpr uint32_t kVxlan = 16;   ///< RFC 7348
inline constexpr uint32_t kGeneve = 32;  ///< RFC 8926
inline constexpr uint32_t kGtpU = 64;    ///< 3GPP TS 29.281, user data
inline constexpr uint32_t kAh = 128;     ///< RFC 4302 in IPv4; in IPv6 the parser takes it for an extension header
inline constexpr uint32_t kAny = 255;
inline constexpr unsigned kCount = 8;
#if !MILLRACE_GPU
inline constexpr const char* kNames[kCount] = {"mpls", "pppoe", "ipip", "gre", "vxlan", "geneve", "gtp-u", "ah"};
#endif
/// Tunnels within each other that are entered; one more is malformed.
inline constexpr unsigned kMaxDepth = 4;
inline constexpr unsigned kMaxLabels = 8;      ///< of MPLS, in one stack
inline constexpr unsigned kMaxGtpHeaders = 8;  ///< extension headers of GTP-U
}  // namespace tunnel

/// What a tunnel carries, and where.
struct Carried {
    enum class What : uint8_t { nothing, ethernet, ipv4, ipv6, transport };
    What what = What::nothing;
    uint8_t protocol = 0;  ///< of `transport`
    uint32_t at = 0;       ///< from the start of the frame
    uint32_t end = 0;      ///< it ends there at the latest
};

namespace detail {

/// Finds the way into one tunnel. `layers` are of its outer headers; errors are put down there.
class TunnelHead {
public:
    MILLRACE_DEVICE TunnelHead(const ParseInput& in, uint32_t kinds, Layers& layers)
        : in_(in), kinds_(kinds), layers_(layers) {}

    MILLRACE_DEVICE Carried find() const {
        const uint32_t at = layers_.payload_offset;
        if (!layers_.is_ip()) {
            const bool mpls = layers_.ether_type == eth::kTypeMpls || layers_.ether_type == eth::kTypeMplsUpstream;
            if (mpls && (kinds_ & tunnel::kMpls)) return mpls_at(at, layers_.end);
            if (layers_.ether_type == eth::kTypePppoe && (kinds_ & tunnel::kPppoe)) return pppoe_at(at);
            return {};
        }
        // A tunnel's fragment is put together first, or judged as it is.
        if (layers_.is_fragment()) return {};
        if (layers_.is_udp()) return in_udp();
        switch (layers_.protocol) {
            case ip::kProtocolIpv4: return when(tunnel::kIpip, {Carried::What::ipv4, 0, at, layers_.end});
            case ip::kProtocolIpv6: return when(tunnel::kIpip, {Carried::What::ipv6, 0, at, layers_.end});
            case ip::kProtocolGre: return (kinds_ & tunnel::kGre) != 0 ? gre_at(at) : Carried{};
            case ip::kProtocolAh: return (kinds_ & tunnel::kAh) != 0 ? ah_at(at) : Carried{};
            default: return {};
        }
    }

private:
    MILLRACE_DEVICE Carried when(uint32_t kind, const Carried& carried) const {
        return (kinds_ & kind) != 0 ? carried : Carried{};
    }
    /// Whether [at, at + bytes) lies before `end` and in this memory; else it is malformed.
    MILLRACE_DEVICE bool has(uint32_t at, uint32_t bytes, uint32_t end) const {
        if (at + bytes <= end) return in_.has(at + bytes, Malformed::truncated_tunnel, layers_);
        layers_.malformed = Malformed::truncated_tunnel;
        return false;
    }
    MILLRACE_DEVICE Carried bad() const {
        layers_.malformed = Malformed::bad_tunnel;
        return {};
    }
    MILLRACE_DEVICE static Carried of_type(uint16_t type, uint32_t at, uint32_t end) {
        switch (type) {
            case eth::kTypeIpv4: return {Carried::What::ipv4, 0, at, end};
            case eth::kTypeIpv6: return {Carried::What::ipv6, 0, at, end};
            case eth::kTypeBridged: return {Carried::What::ethernet, 0, at, end};
            default: return {};
        }
    }
    /// By the first half byte of an IP header.
    MILLRACE_DEVICE Carried ip_at(uint32_t at, uint32_t end) const {
        if (!has(at, 1, end)) return {};
        const uint8_t version = in_.data[at] >> 4;
        return version == 4   ? Carried{Carried::What::ipv4, 0, at, end}
               : version == 6 ? Carried{Carried::What::ipv6, 0, at, end}
                              : Carried{};
    }
    MILLRACE_DEVICE Carried mpls_at(uint32_t at, uint32_t end) const {
        for (unsigned label = 0; label < tunnel::kMaxLabels; ++label, at += 4) {
            if (!has(at, 4, end)) return {};
            if ((in_.data[at + 2] & 1) != 0) return ip_at(at + 4, end);
        }
        return bad();
    }
    MILLRACE_DEVICE Carried pppoe_at(uint32_t at) const {
        constexpr uint32_t kHeader = 6, kPppIpv4 = 0x21, kPppIpv6 = 0x57;
        if (!has(at, kHeader + 2, layers_.end)) return {};
        if (in_.data[at] != 0x11 || in_.data[at + 1] != 0) return bad();  // version, type; the code of a session
        const uint32_t bytes = load_be16(in_.data + at + 4), end = at + kHeader + bytes;
        if (bytes < 2) return bad();
        if (end > layers_.end) {
            layers_.malformed = Malformed::truncated_tunnel;
            return {};
        }
        const uint32_t protocol = load_be16(in_.data + at + kHeader);
        if (protocol == kPppIpv4) return {Carried::What::ipv4, 0, at + kHeader + 2, end};
        if (protocol == kPppIpv6) return {Carried::What::ipv6, 0, at + kHeader + 2, end};
        return {};
    }
    MILLRACE_DEVICE Carried gre_at(uint32_t at) const {
        constexpr uint32_t kChecksum = 0x8000, kRouting = 0x4000, kKey = 0x2000, kSequence = 0x1000, kVersion = 7;
        if (!has(at, 4, layers_.end)) return {};
        const uint32_t flags = load_be16(in_.data + at);
        if ((flags & kVersion) != 0) return {};     // PPTP's: what it carries is often encrypted
        if ((flags & kRouting) != 0) return bad();  // RFC 2784, section 2.3: must be discarded
        const uint32_t bytes = 4 + ((flags & kChecksum) != 0 ? 4 : 0) + ((flags & kKey) != 0 ? 4 : 0) +
                               ((flags & kSequence) != 0 ? 4 : 0);
        if (!has(at, bytes, layers_.end)) return {};
        const uint16_t type = load_be16(in_.data + at + 2);
        if (type == eth::kTypeMpls && (kinds_ & tunnel::kMpls) != 0) return mpls_at(at + bytes, layers_.end);
        return of_type(type, at + bytes, layers_.end);
    }
    MILLRACE_DEVICE Carried ah_at(uint32_t at) const {
        if (!layers_.is_ipv4() || !has(at, 12, layers_.end)) return {};
        const uint32_t bytes = (in_.data[at + 1] + 2u) * 4u;
        if (bytes < 12) return bad();
        if (!has(at, bytes, layers_.end)) return {};
        return {Carried::What::transport, in_.data[at], at + bytes, layers_.end};
    }
    MILLRACE_DEVICE Carried in_udp() const {
        const uint32_t at = layers_.payload_offset,
                       end = layers_.l4_offset + load_be16(in_.data + layers_.l4_offset + 4);
        switch (load_be16(in_.data + layers_.l4_offset + 2)) {
            case udp::kPortVxlan: return (kinds_ & tunnel::kVxlan) != 0 ? vxlan_at(at, end) : Carried{};
            case udp::kPortGeneve: return (kinds_ & tunnel::kGeneve) != 0 ? geneve_at(at, end) : Carried{};
            case udp::kPortGtpU: return (kinds_ & tunnel::kGtpU) != 0 ? gtp_at(at, end) : Carried{};
            default: return {};
        }
    }
    MILLRACE_DEVICE Carried vxlan_at(uint32_t at, uint32_t end) const {
        constexpr uint32_t kHeader = 8, kHasVni = 0x08;
        if (!has(at, kHeader, end)) return {};
        if ((in_.data[at] & kHasVni) == 0) return {};
        return {Carried::What::ethernet, 0, at + kHeader, end};
    }
    MILLRACE_DEVICE Carried geneve_at(uint32_t at, uint32_t end) const {
        if (!has(at, 8, end)) return {};
        if (in_.data[at] >> 6 != 0) return {};  // another version
        const uint32_t bytes = 8 + (in_.data[at] & 63) * 4u;
        if (!has(at, bytes, end)) return {};
        return of_type(load_be16(in_.data + at + 2), at + bytes, end);
    }
    MILLRACE_DEVICE Carried gtp_at(uint32_t at, uint32_t end) const {
        constexpr uint32_t kVersion1 = 0x30, kExtension = 4, kOptional = 7, kUserData = 255;
        if (!has(at, 8, end)) return {};
        const uint32_t flags = in_.data[at];
        if ((flags & 0xf0) != kVersion1 || in_.data[at + 1] != kUserData) return {};
        const uint32_t own_end = at + 8 + load_be16(in_.data + at + 2);
        if (own_end > end) {
            layers_.malformed = Malformed::truncated_tunnel;
            return {};
        }
        uint32_t inside = at + 8;
        if ((flags & kOptional) != 0) {
            if (!has(inside, 4, own_end)) return {};
            uint8_t next = (flags & kExtension) != 0 ? in_.data[inside + 3] : 0;
            inside += 4;
            for (unsigned i = 0; next != 0; ++i) {
                if (i == tunnel::kMaxGtpHeaders) return bad();
                if (!has(inside, 4, own_end)) return {};
                const uint32_t bytes = in_.data[inside] * 4u;
                if (bytes == 0) return bad();
                if (!has(inside, bytes, own_end)) return {};
                inside += bytes;
                next = in_.data[inside - 1];
            }
        }
        return ip_at(inside, own_end);
    }

    const ParseInput& in_;
    const uint32_t kinds_;
    Layers& layers_;
};

/// Makes `layers` those of what is carried.
MILLRACE_DEVICE void parse_carried(const ParseInput& in, const Carried& carried, Layers& layers) {
    const ParseInput own{in.data, carried.end, smaller(in.present, carried.end)};
    constexpr uint32_t kDeepest = 255 - eth::kHeaderBytes - kMaxVlanTags * eth::kVlanBytes;  // for Layers::l3_offset
    if (carried.at > kDeepest) {
        layers.malformed = Malformed::too_many_tunnels;
        return;
    }
    if (carried.what == Carried::What::ethernet) return parse_frame(own, carried.at, layers);
    if (carried.what == Carried::What::transport) {
        layers.protocol = carried.protocol;
        layers.l4_offset = layers.payload_offset = static_cast<uint16_t>(carried.at);
        return parse_l4(own, layers);
    }
    // VLAN tags stay those of the frame.
    Layers inner;
    inner.vlan_id = layers.vlan_id;
    inner.vlan_count = layers.vlan_count;
    inner.end = carried.end;
    inner.l3_offset = static_cast<uint8_t>(carried.at);
    inner.payload_offset = static_cast<uint16_t>(carried.at);
    if (carried.what == Carried::What::ipv4) {
        inner.ether_type = eth::kTypeIpv4;
        parse_ipv4(own, inner);
    } else {
        inner.ether_type = eth::kTypeIpv6;
        parse_ipv6(own, inner);
    }
    layers = inner;
}

/// Goes on from the layers of a frame to those within its tunnels of these kinds, as deep as there are some.
MILLRACE_DEVICE void enter_tunnels(const ParseInput& in, uint32_t kinds, Layers& layers) {
    layers.tunnel_depth = 0;
    for (uint8_t depth = 0; layers.malformed == Malformed::no; ++depth) {
        const Carried carried = TunnelHead(in, kinds, layers).find();
        if (carried.what == Carried::What::nothing) return;
        if (depth == tunnel::kMaxDepth) {
            layers.malformed = Malformed::too_many_tunnels;
            return;
        }
        parse_carried(in, carried, layers);
        layers.tunnel_depth = static_cast<uint8_t>(depth + 1);
    }
}

}  // namespace detail

/// What a parsed packet carries that is of a tunnel of one of these kinds. `layers`, the packet's, are told when that
/// can't be read.
MILLRACE_DEVICE Carried find_carried(const Packet& packet, uint32_t kinds, Layers& layers) {
    const detail::ParseInput in{packet.data(), packet.length(), packet.present()};
    return detail::TunnelHead(in, kinds, layers).find();
}

/// Has a parsed packet's layers be those of what its tunnels carry, where there are tunnels of these kinds
/// (`Layers::tunnel_depth` says how many). `data()` stays the frame's first byte.
MILLRACE_DEVICE_CALL void enter_tunnels(Packet& packet, uint32_t kinds) {
    const detail::ParseInput in{packet.data(), packet.length(), packet.present()};
    detail::enter_tunnels(in, kinds, packet.layers_to_set());
}

/// Like flow_hash, and the same for both directions of a flow. SCTP's ports count, too.
MILLRACE_DEVICE uint32_t symmetric_flow_hash(const Packet& packet) {
    const Layers& layers = packet.layers();
    if (!layers.is_ip()) return 0;
    const bool ipv4 = layers.is_ipv4();
    const uint8_t* const src = packet.l3() + (ipv4 ? 12 : 8);
    const uint32_t words = ipv4 ? 1 : 4;
    // Sums and differences of both ends do not know which is which.
    uint64_t sum = layers.protocol, mixed = 0x9e3779b97f4a7c15ull;
    const auto add = [&](uint32_t a, uint32_t b) {
        sum = (sum + a + b) * 0xff51afd7ed558ccdull;
        mixed = (mixed ^ (static_cast<uint64_t>(a ^ b) + 1)) * 0x9fb21c651e98df25ull;
        sum ^= sum >> 32;
        mixed ^= mixed >> 29;
    };
    for (uint32_t i = 0; i < words; ++i)
        add(load_raw<uint32_t>(src + 4 * i), load_raw<uint32_t>(src + 4 * (words + i)));
    const bool sctp = layers.protocol == ip::kProtocolSctp && layers.l4_offset != 0 &&
                      layers.l4_offset + 4u <= smaller(layers.end, packet.present());
    if ((layers.has_ports() || sctp) && !layers.is_fragment())
        add(load_raw<uint16_t>(packet.l4()), load_raw<uint16_t>(packet.l4() + 2));
    uint64_t h = sum ^ mixed * 0xc4ceb9fe1a85ec53ull;
    h ^= h >> 33;
    return static_cast<uint32_t>(h ^ h >> 17);
}

}  // namespace millrace
