// The fields of a packet that OpenFlow has beyond its first twelve: of MPLS, PBB, ARP, IPv6 and neighbour discovery.
#pragma once

#include "millrace/nf/classify/flow_fields.hpp"

namespace millrace::eth {

inline constexpr uint16_t kTypePbb = 0x88e7;  ///< 802.1ah: an I-TAG and another Ethernet header follow
inline constexpr uint32_t kMplsBytes = 4;
inline constexpr uint32_t kPbbBytes = 18;  ///< addresses, type and I-TAG
MILLRACE_DEVICE constexpr bool is_mpls(uint16_t type) { return type == kTypeMpls || type == kTypeMplsUpstream; }

}  // namespace millrace::eth

namespace millrace::nf::classify {

/// The twelve, the table that a packet is looked up in, and what later versions of OpenFlow have.
struct WideFields : FlowFields {
    uint8_t table = 0;

    // What follows is in keys of kWideWords words only.
    uint64_t metadata = 0, tunnel = 0;  ///< what tables hand on
    uint64_t hw_src = 0, hw_dst = 0;    ///< in the lower 48 bits: of ARP, or the options of neighbour discovery
    uint64_t nd_high = 0, nd_low = 0;   ///< target of neighbour discovery
    uint32_t shim = 0;   ///< of MPLS: label, traffic class, bottom of stack, without the TTL; of PBB: UCA in bit 27,
                         ///< I-SID in bits 23 to 0
    uint32_t label = 0;  ///< of IPv6: extension headers in bits 28 to 20, flow label

    /// Whether any of the fields that only long keys have says something.
    MILLRACE_DEVICE bool wide() const {
        return (metadata | tunnel | hw_src | hw_dst | nd_high | nd_low | shim | label) != 0;
    }
};
inline constexpr unsigned kWideWords = 28;

/// The key of a packet in a table, or the value or mask of a rule: as those of FlowFields with the table in the first
/// word, where ports' numbers leave room; or of kWideWords words, for any packet with all fields.
template <unsigned Words>
MILLRACE_DEVICE TernaryKey<Words> ternary_key(const WideFields& fields) {
    TernaryKey<Words> key;
    if constexpr (Words == kWideWords) {
        const TernaryKey<15> few = ternary_key<15>(static_cast<const FlowFields&>(fields));
        for (unsigned i = 0; i < 13; ++i) key.words[i] = few.words[i];
        const uint64_t wide[] = {fields.metadata, fields.tunnel, fields.nd_high, fields.nd_low};
        for (unsigned i = 0; i < 4; ++i) {
            key.words[13 + 2 * i] = static_cast<uint32_t>(wide[i] >> 32);
            key.words[14 + 2 * i] = static_cast<uint32_t>(wide[i]);
        }
        key.words[21] = static_cast<uint32_t>(fields.hw_src >> 16);
        key.words[22] = static_cast<uint32_t>(fields.hw_src << 16) | static_cast<uint32_t>(fields.hw_dst >> 32);
        key.words[23] = static_cast<uint32_t>(fields.hw_dst);
        key.words[24] = fields.shim;
        key.words[25] = fields.label;
        key.words[26] = few.words[13];
        key.words[27] = few.words[14];
    } else {
        key = ternary_key<Words>(static_cast<const FlowFields&>(fields));
    }
    key.words[0] = (key.words[0] & 0xffffu) | static_cast<uint32_t>(fields.table) << 24;
    return key;
}

/// RFC 4861: types of neighbour discovery that have a target, and the options with a link-layer address.
namespace nd {
inline constexpr uint8_t kSolicitation = 135, kAdvertisement = 136, kSource = 1, kTarget = 2;
inline constexpr uint32_t kTargetAt = 8, kOptionsAt = 24, kMaxOptions = 8;
}  // namespace nd

/// OpenFlow 1.3.5, section 7.2.3.7: bits of OFPXMT_OFB_IPV6_EXTHDR, before they are shifted by 20.
namespace exthdr {
inline constexpr uint32_t kNoNext = 1, kEsp = 2, kAuth = 4, kDestination = 8, kFragment = 16, kRouter = 32, kHop = 64,
                          kRepeated = 128, kUnordered = 256;
}

/// Bytes of a packet in this memory that belong to its IP datagram, from the start of the frame.
MILLRACE_DEVICE uint32_t datagram_end(const Packet& packet) { return smaller(packet.layers().end, packet.present()); }

/// Whether the packet is a neighbour solicitation or advertisement with a target.
MILLRACE_DEVICE bool has_nd_target(const Packet& packet) {
    const Layers& layers = packet.layers();
    if (!layers.is_ipv6() || !layers.is_icmp() || layers.protocol != ip::kProtocolIcmpv6) return false;
    const uint8_t type = packet.l4()[0];
    return (type == nd::kSolicitation || type == nd::kAdvertisement) &&
           layers.l4_offset + nd::kOptionsAt <= datagram_end(packet);
}

/// Where the link-layer address of a neighbour discovery option lies, from the start of the frame; 0 without one.
/// `has_nd_target` must hold.
MILLRACE_DEVICE uint32_t nd_option(const Packet& packet, uint8_t kind) {
    const uint32_t end = datagram_end(packet);
    uint32_t at = packet.layers().l4_offset + nd::kOptionsAt;
    for (uint32_t i = 0; i < nd::kMaxOptions && at + 8 <= end; ++i) {
        const uint32_t bytes = packet.data()[at + 1] * 8u;
        if (bytes == 0) return 0;
        if (packet.data()[at] == kind) return at + 2;
        at += bytes;
    }
    return 0;
}

/// Which extension headers a packet of IPv6 has, in the words of OpenFlow.
MILLRACE_DEVICE uint32_t extension_headers(const Packet& packet) {
    const uint8_t* const frame = packet.data();
    const uint32_t end = datagram_end(packet);
    uint32_t at = packet.layers().l3_offset + ip::kIpv6Bytes;
    uint32_t seen = 0, rank = 0;
    uint8_t next = packet.l3()[6];
    for (uint32_t i = 0; i <= kMaxIpv6Extensions; ++i) {
        // RFC 8200 section 4.1 has the order, in which destination options may come twice.
        uint32_t bit = 0, own = 0;
        switch (next) {
            case ip::kProtocolHopByHop: bit = exthdr::kHop, own = 1; break;
            case ip::kProtocolDestination:
                bit = exthdr::kDestination;
                own = (seen & (exthdr::kRouter | exthdr::kFragment | exthdr::kAuth | exthdr::kDestination)) != 0 ? 7
                                                                                                                 : 2;
                break;
            case ip::kProtocolRouting: bit = exthdr::kRouter, own = 3; break;
            case ip::kProtocolFragment: bit = exthdr::kFragment, own = 4; break;
            case ip::kProtocolAh: bit = exthdr::kAuth, own = 5; break;
            case ip::kProtocolEsp: bit = exthdr::kEsp, own = 6; break;
            case ip::kProtocolNoNext: return seen | exthdr::kNoNext;
            default: return seen;
        }
        if ((seen & bit) != 0 && (bit != exthdr::kDestination || own == rank)) seen |= exthdr::kRepeated;
        if (own < rank) seen |= exthdr::kUnordered;
        seen |= bit;
        rank = own > rank ? own : rank;
        if (bit == exthdr::kEsp || at + 8 > end) return seen;
        const uint32_t bytes = bit == exthdr::kAuth       ? (frame[at + 1] + 2u) * 4u
                               : bit == exthdr::kFragment ? 8u
                                                          : (frame[at + 1] + 1u) * 8u;
        next = frame[at];
        // Behind the header of a later fragment there are none.
        if (bit == exthdr::kFragment && (load_be16(frame + at + 2) & 0xfff8) != 0) return seen;
        at += bytes;
    }
    return seen;
}

/// The twelve fields of a packet, and the ports of SCTP.
MILLRACE_DEVICE WideFields wide_fields_of(const Packet& packet) {
    WideFields fields;
    static_cast<FlowFields&>(fields) = flow_fields_of(packet);
    const Layers& layers = packet.layers();
    if (layers.protocol == ip::kProtocolSctp && layers.l4_offset != 0 &&
        layers.l4_offset + 4u <= datagram_end(packet)) {
        fields.has = HeaderKey::kPorts;
        fields.l4_src = load_be16(packet.l4());
        fields.l4_dst = load_be16(packet.l4() + 2);
    }
    return fields;
}

/// Adds the fields that only long keys have; metadata and tunnel are left alone.
MILLRACE_DEVICE void add_wide_fields(const Packet& packet, WideFields& fields) {
    const Layers& layers = packet.layers();
    const uint8_t* const l3 = packet.l3();
    fields.hw_src = fields.hw_dst = fields.nd_high = fields.nd_low = 0;
    fields.shim = fields.label = 0;
    const auto mac = [](const uint8_t* at) { return static_cast<uint64_t>(load_be32(at)) << 16 | load_be16(at + 4); };
    if (layers.is_ipv6()) {
        fields.label = (load_be32(l3) & 0xfffffu) | extension_headers(packet) << 20;
        if (!has_nd_target(packet)) return;
        fields.nd_high = load_be64(packet.l4() + nd::kTargetAt);
        fields.nd_low = load_be64(packet.l4() + nd::kTargetAt + 8);
        const bool solicits = packet.l4()[0] == nd::kSolicitation;
        const uint32_t at = nd_option(packet, solicits ? nd::kSource : nd::kTarget);
        if (at != 0) (solicits ? fields.hw_src : fields.hw_dst) = mac(packet.data() + at);
    } else if (layers.ether_type == eth::kTypeArp) {
        if (packet.present() < layers.l3_offset + 28u) return;
        fields.hw_src = mac(l3 + 8);
        fields.hw_dst = mac(l3 + 18);
    } else if (packet.present() >= layers.l3_offset + 4u) {
        if (eth::is_mpls(layers.ether_type)) fields.shim = load_be32(l3) >> 8;
        else if (layers.ether_type == eth::kTypePbb) fields.shim = load_be32(l3) & 0x0fffffffu & ~0x07000000u;
    }
}

}  // namespace millrace::nf::classify
