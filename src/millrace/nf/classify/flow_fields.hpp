// The header fields of OpenFlow 1.0's twelve-tuple, which flows match on, with room for IPv6's addresses.
#pragma once

#include "millrace/nf/classify/ternary/ternary.hpp"

namespace millrace::nf::classify {

/// Fields of a packet; or the values, or the masks, of a flow. As in OpenFlow 1.0 (section 3.4 of its specification),
/// ARP has its operation in `protocol` and its addresses in `ip_src` and `ip_dst`; ICMP has type and code in `l4_src`
/// and `l4_dst`.
struct FlowFields {
    static constexpr uint16_t kTagged = 0x1000;  ///< in `vlan`: there is a tag (OpenFlow 1.3's OFPVID_PRESENT)

    uint64_t eth_dst = 0, eth_src = 0;         ///< in the lower 48 bits
    uint64_t ip_src_high = 0, ip_src_low = 0;  ///< as in HeaderKey: IPv4 takes the top 32 bits
    uint64_t ip_dst_high = 0, ip_dst_low = 0;
    uint32_t in_port = 0;
    uint16_t eth_type = 0;  ///< behind any tags
    uint16_t vlan = 0;      ///< of the outermost tag: priority in bits 15 to 13, kTagged, identifier; 0 without one
    uint16_t l4_src = 0, l4_dst = 0;
    uint8_t protocol = 0;
    uint8_t tos = 0;  ///< DSCP and ECN
    uint8_t has = 0;  ///< HeaderKey::kPorts: l4_src and l4_dst are there
};

/// The key of a packet, or the value or mask of a rule: 9 words (288 bits) for what is not IPv6, 15 for IPv6.
template <unsigned Words>
MILLRACE_DEVICE TernaryKey<Words> ternary_key(const FlowFields& fields) {
    static_assert(Words == 9 || Words == 15);
    TernaryKey<Words> key;
    key.words[0] = fields.in_port;
    key.words[1] = static_cast<uint32_t>(fields.eth_dst >> 16);
    key.words[2] = static_cast<uint32_t>(fields.eth_dst << 16) | static_cast<uint32_t>(fields.eth_src >> 32);
    key.words[3] = static_cast<uint32_t>(fields.eth_src);
    key.words[4] = static_cast<uint32_t>(fields.eth_type) << 16 | fields.vlan;
    const uint64_t halves[] = {fields.ip_src_high, fields.ip_src_low, fields.ip_dst_high, fields.ip_dst_low};
    if constexpr (Words == 9) {
        key.words[5] = static_cast<uint32_t>(halves[0] >> 32);
        key.words[6] = static_cast<uint32_t>(halves[2] >> 32);
    } else {
        for (unsigned i = 0; i < 4; ++i) {
            key.words[5 + 2 * i] = static_cast<uint32_t>(halves[i] >> 32);
            key.words[6 + 2 * i] = static_cast<uint32_t>(halves[i]);
        }
    }
    key.words[Words - 2] = static_cast<uint32_t>(fields.l4_src) << 16 | fields.l4_dst;
    key.words[Words - 1] = small_fields(fields.protocol, fields.tos, fields.has);
    return key;
}

/// The fields of a parsed packet.
MILLRACE_DEVICE FlowFields flow_fields_of(const Packet& packet) {
    const Layers& layers = packet.layers();
    FlowFields fields;
    const uint8_t* frame = packet.data();
    fields.in_port = packet.in_port();
    fields.eth_dst = static_cast<uint64_t>(load_be32(frame)) << 16 | load_be16(frame + 4);
    fields.eth_src = static_cast<uint64_t>(load_be32(frame + 6)) << 16 | load_be16(frame + 10);
    fields.eth_type = layers.ether_type;
    if (layers.vlan_count > 0)
        fields.vlan = static_cast<uint16_t>((load_be16(frame + eth::kHeaderBytes) & 0xefff) | FlowFields::kTagged);
    if (layers.is_ip()) {
        const HeaderKey key = key_of(packet);
        fields.ip_src_high = key.src_high;
        fields.ip_src_low = key.src_low;
        fields.ip_dst_high = key.dst_high;
        fields.ip_dst_low = key.dst_low;
        fields.protocol = key.protocol;
        fields.tos = layers.is_ipv4() ? packet.l3()[1] : static_cast<uint8_t>(load_be16(packet.l3()) >> 4);
        if (key.has_ports()) {
            fields.has = HeaderKey::kPorts;
            fields.l4_src = key.src_port;
            fields.l4_dst = key.dst_port;
        } else if (layers.is_icmp()) {
            fields.has = HeaderKey::kPorts;
            fields.l4_src = packet.l4()[0];
            fields.l4_dst = packet.l4()[1];
        }
    } else if (layers.ether_type == eth::kTypeArp && packet.present() >= layers.l3_offset + 28u) {
        // RFC 826, for IPv4 over Ethernet: the operation at 6, sender's address at 14, target's at 24.
        const uint8_t* arp = packet.l3();
        fields.protocol = arp[7];
        fields.ip_src_high = static_cast<uint64_t>(load_be32(arp + 14)) << 32;
        fields.ip_dst_high = static_cast<uint64_t>(load_be32(arp + 24)) << 32;
    }
    return fields;
}

}  // namespace millrace::nf::classify
