// Whether a packet's headers lie where most packets have them.
#pragma once

#include "millrace/packet/packet.hpp"

namespace millrace {

/// Whether the headers lie as chain::prefix_bytes counts on: at most one VLAN tag, no IPv4 options, no IPv6 extension
/// headers.
MILLRACE_DEVICE bool has_plain_layout(const Packet& packet) {
    const Layers& layers = packet.layers();
    if (layers.vlan_count > 1) return false;
    if (layers.is_ipv4()) return (packet.l3()[0] & 15) * 4u == ip::kIpv4Bytes;
    if (layers.is_ipv6()) return layers.l4_offset == layers.l3_offset + ip::kIpv6Bytes;
    return true;
}

#if !MILLRACE_GPU
/// The same of a frame that nobody has parsed, from a few of its first bytes. False, too, for IPv6 with anything but
/// TCP, UDP or ICMP; true of frames that end before what tells.
inline bool looks_plain(const uint8_t* frame, uint32_t length) {
    const auto is_tag = [](uint16_t type) {
        return type == eth::kTypeVlan || type == eth::kTypeQinq || type == eth::kTypeQinqOld;
    };
    uint32_t l3 = eth::kHeaderBytes;
    if (length < l3 + eth::kVlanBytes) return true;
    uint16_t type = load_be16(frame + l3 - 2);
    if (is_tag(type)) {
        l3 += eth::kVlanBytes;
        type = load_be16(frame + l3 - 2);
        if (is_tag(type)) return false;
    }
    if (type == eth::kTypeIpv4) return length <= l3 || frame[l3] == 0x45;
    if (type != eth::kTypeIpv6 || length <= l3 + 6) return true;
    const uint8_t next = frame[l3 + 6];
    return next == ip::kProtocolTcp || next == ip::kProtocolUdp || next == ip::kProtocolIcmpv6;
}
#endif

}  // namespace millrace
