// The parser: Ethernet, VLAN and QinQ, IPv4 with options, IPv6 with extension headers, TCP, UDP, ICMP.
//
// Any bytes may come in. Every header is checked to lie in the frame before it is read.
#pragma once

#include "millrace/packet/layers.hpp"

namespace millrace {
namespace detail {

/// A cursor over one frame: `length` bytes on the wire, the first `present` of them in this memory.
struct ParseInput {
    const uint8_t* data;
    uint32_t length;
    uint32_t present;

    /// Whether [0, end) can be read; else sets why not (`truncated` if the frame itself ends before).
    MILLRACE_DEVICE bool has(uint32_t end, Malformed truncated, Layers& layers) const {
        if (end <= present) return true;
        layers.malformed = end <= length ? Malformed::beyond_present : truncated;
        return false;
    }
};

MILLRACE_DEVICE void parse_l4(const ParseInput& in, Layers& layers) {
    const uint32_t at = layers.l4_offset;
    if (layers.protocol == ip::kProtocolTcp) {
        if (layers.end < at + tcp::kHeaderBytes) {
            layers.malformed = Malformed::truncated_tcp;
            return;
        }
        if (!in.has(at + tcp::kHeaderBytes, Malformed::truncated_tcp, layers)) return;
        const uint32_t header = (in.data[at + 12] >> 4) * 4u;
        if (header < tcp::kHeaderBytes || at + header > layers.end) {
            layers.malformed = Malformed::bad_tcp_offset;
            return;
        }
        layers.flags |= Layers::kTcp;
        layers.payload_offset = static_cast<uint16_t>(at + header);
    } else if (layers.protocol == ip::kProtocolUdp) {
        if (layers.end < at + udp::kHeaderBytes) {
            layers.malformed = Malformed::truncated_udp;
            return;
        }
        if (!in.has(at + udp::kHeaderBytes, Malformed::truncated_udp, layers)) return;
        const uint32_t length = load_be16(in.data + at + 4);
        // A first fragment carries the length of the whole datagram; RFC 2675 gives 0 a meaning only in jumbograms.
        if (length < udp::kHeaderBytes || (!layers.is_fragment() && at + length > layers.end)) {
            layers.malformed = Malformed::bad_udp_length;
            return;
        }
        layers.flags |= Layers::kUdp;
        layers.payload_offset = static_cast<uint16_t>(at + udp::kHeaderBytes);
    } else if (layers.protocol == ip::kProtocolIcmp || layers.protocol == ip::kProtocolIcmpv6) {
        if (layers.end < at + 8) {
            layers.malformed = Malformed::truncated_icmp;
            return;
        }
        if (!in.has(at + 8, Malformed::truncated_icmp, layers)) return;
        layers.flags |= Layers::kIcmp;
        layers.payload_offset = static_cast<uint16_t>(at + 8);
    }
}

MILLRACE_DEVICE void parse_ipv4(const ParseInput& in, Layers& layers) {
    const uint32_t at = layers.l3_offset;
    if (!in.has(at + ip::kIpv4Bytes, Malformed::truncated_ipv4, layers)) return;
    const uint8_t* header = in.data + at;
    if ((header[0] >> 4) != 4) {
        layers.malformed = Malformed::bad_ipv4_version;
        return;
    }
    const uint32_t header_bytes = (header[0] & 15) * 4u;
    const uint32_t total = load_be16(header + 2);
    if (header_bytes < ip::kIpv4Bytes) {
        layers.malformed = Malformed::bad_ipv4_header_length;
        return;
    }
    if (total < header_bytes || at + total > in.length) {
        layers.malformed = Malformed::bad_ipv4_total_length;
        return;
    }
    if (!in.has(at + header_bytes, Malformed::truncated_ipv4, layers)) return;
    layers.flags |= Layers::kIpv4;
    layers.end = at + total;
    layers.protocol = header[9];
    layers.payload_offset = static_cast<uint16_t>(at + header_bytes);
    const uint32_t fragment = load_be16(header + 6);
    if (fragment & 0x3fff) layers.flags |= Layers::kFragment;
    if (fragment & 0x1fff) {
        layers.flags |= Layers::kLaterFragment;
        return;
    }
    layers.l4_offset = layers.payload_offset;
    parse_l4(in, layers);
}

MILLRACE_DEVICE void parse_ipv6(const ParseInput& in, Layers& layers) {
    uint32_t at = layers.l3_offset;
    if (!in.has(at + ip::kIpv6Bytes, Malformed::truncated_ipv6, layers)) return;
    if ((in.data[at] >> 4) != 6) {
        layers.malformed = Malformed::bad_ipv6_version;
        return;
    }
    const uint32_t end = at + ip::kIpv6Bytes + load_be16(in.data + at + 4);
    if (end > in.length) {
        layers.malformed = Malformed::bad_ipv6_payload_length;
        return;
    }
    layers.end = end;
    layers.flags |= Layers::kIpv6;
    uint8_t next = in.data[at + 6];
    at += ip::kIpv6Bytes;
    for (unsigned i = 0;; ++i) {
        const bool extension = next == ip::kProtocolHopByHop || next == ip::kProtocolRouting ||
                               next == ip::kProtocolDestination || next == ip::kProtocolFragment ||
                               next == ip::kProtocolMobility || next == ip::kProtocolAh;
        if (!extension) break;
        if (i == kMaxIpv6Extensions || layers.end < at + 8) {
            layers.malformed = Malformed::bad_ipv6_extension;
            return;
        }
        if (!in.has(at + 8, Malformed::bad_ipv6_extension, layers)) return;
        uint32_t bytes = 8;
        if (next == ip::kProtocolAh) {
            bytes = (in.data[at + 1] + 2u) * 4u;  // RFC 4302 section 2.2: 32-bit words minus 2
        } else if (next != ip::kProtocolFragment) {
            bytes = (in.data[at + 1] + 1u) * 8u;  // RFC 8200 section 4: 64-bit words beyond the first
        }
        if (layers.end < at + bytes) {
            layers.malformed = Malformed::bad_ipv6_extension;
            return;
        }
        if (next == ip::kProtocolFragment) {
            const uint32_t fragment = load_be16(in.data + at + 2);
            // A fragment header on a whole datagram is an atomic fragment (RFC 6946): not a fragment.
            if (fragment & 0xfff9) layers.flags |= Layers::kFragment;
            if (fragment & 0xfff8) layers.flags |= Layers::kLaterFragment;
        }
        next = in.data[at];
        at += bytes;
        if (layers.flags & Layers::kLaterFragment) break;
    }
    layers.protocol = next;
    layers.payload_offset = static_cast<uint16_t>(at);
    if (layers.flags & Layers::kLaterFragment) return;
    layers.l4_offset = static_cast<uint16_t>(at);
    if (next != ip::kProtocolNoNext) parse_l4(in, layers);
}

/// Any frame that begins at `at`.
MILLRACE_DEVICE void parse_frame(const ParseInput& in, uint32_t at, Layers& layers) {
    layers = {};
    layers.end = in.length;
    at += eth::kHeaderBytes;
    if (!in.has(at, Malformed::truncated_ethernet, layers)) return;
    uint16_t type = load_be16(in.data + at - 2);
    while (type == eth::kTypeVlan || type == eth::kTypeQinq || type == eth::kTypeQinqOld) {
        if (layers.vlan_count == kMaxVlanTags) {
            layers.malformed = Malformed::too_many_vlans;
            return;
        }
        if (!in.has(at + eth::kVlanBytes, Malformed::truncated_vlan, layers)) return;
        if (layers.vlan_count == 0) layers.vlan_id = load_be16(in.data + at) & 0x0fff;
        ++layers.vlan_count;
        type = load_be16(in.data + at + 2);
        at += eth::kVlanBytes;
    }
    layers.ether_type = type;
    layers.l3_offset = static_cast<uint8_t>(at);
    layers.payload_offset = static_cast<uint16_t>(at);
    if (type == eth::kTypeIpv4) {
        parse_ipv4(in, layers);
    } else if (type == eth::kTypeIpv6) {
        parse_ipv6(in, layers);
    }
}

#if !MILLRACE_GPU
/// Most frames by a shorter way: no VLAN tag, IPv4 without options, no fragment, TCP or UDP. False, and nothing said of
/// `layers`, for all others and for what is malformed. (On a GPU, neighbours that go different ways wait for each
/// other.)
MILLRACE_DEVICE bool parse_plain(const ParseInput& in, Layers& layers) {
    constexpr uint32_t kIpAt = eth::kHeaderBytes, kL4At = kIpAt + ip::kIpv4Bytes;
    if (in.present < kL4At + tcp::kHeaderBytes) return false;
    const uint8_t* header = in.data + kIpAt;
    const bool whole_ipv4 = load_be16(in.data + 12) == eth::kTypeIpv4 && header[0] == 0x45 &&
                            (load_be16(header + 6) & 0x3fff) == 0;
    if (!whole_ipv4) return false;
    const uint32_t end = kIpAt + load_be16(header + 2);
    const uint8_t protocol = header[9];
    uint32_t payload = kL4At + udp::kHeaderBytes;
    uint8_t flags = Layers::kIpv4 | Layers::kUdp;
    if (protocol == ip::kProtocolTcp) {
        const uint32_t words = in.data[kL4At + 12] >> 4;
        payload = kL4At + 4 * words;
        flags = Layers::kIpv4 | Layers::kTcp;
        if (words < tcp::kHeaderBytes / 4 || payload > end) return false;
    } else if (protocol == ip::kProtocolUdp) {
        const uint32_t length = load_be16(in.data + kL4At + 4);
        if (length < udp::kHeaderBytes || kL4At + length > end) return false;
    } else {
        return false;
    }
    if (end > in.length) return false;
    layers.end = end;
    layers.ether_type = eth::kTypeIpv4;
    layers.vlan_id = 0;
    layers.l4_offset = kL4At;
    layers.payload_offset = static_cast<uint16_t>(payload);
    layers.l3_offset = kIpAt;
    layers.protocol = protocol;
    layers.flags = flags;
    layers.vlan_count = 0;
    layers.malformed = Malformed::no;
    return true;
}
#endif

}  // namespace detail

/// Finds the headers of one frame. `length` is the frame's length in bytes, `present` how many bytes
/// from its start are in this memory (the field plan may have brought only the headers). Never reads
/// behind `present`. Of any frame, malformed or not, `payload_offset <= end <= length`. A frame that is not IP is well
/// formed: its `ether_type` says what it is. Written in place: a copy of what was just written field by field would
/// have to wait for the fields.
MILLRACE_DEVICE void parse(const uint8_t* data, uint32_t length, uint32_t present, Layers& layers) {
    const detail::ParseInput in{data, length, present};
#if !MILLRACE_GPU
    if (detail::parse_plain(in, layers)) return;
#endif
    detail::parse_frame(in, 0, layers);
}
MILLRACE_DEVICE Layers parse(const uint8_t* data, uint32_t length, uint32_t present) {
    Layers layers;
    parse(data, length, present, layers);
    return layers;
}

}  // namespace millrace
