// Which way a packet goes: into a tunnel, out of one, past, or nowhere (RFC 4301, section 5).
#pragma once

#include "millrace/nf/ipsec/model.hpp"

namespace millrace::nf::ipsec {

/// What is known before a byte was changed.
struct Route {
    uint32_t outcome = kMalformed;  ///< kProtected and kUnprotected: go on with SA `detail`
    uint32_t detail = kNoDetail;
    uint32_t head = 0;     ///< protect: bytes that come before the inner packet
    uint32_t padding = 0;  ///< protect: bytes of padding, without the trailer
    uint32_t at = 0;       ///< protect: offset of what becomes encrypted
};

/// Addresses as words in a packet's order; of IPv4 only the first is there.
MILLRACE_DEVICE bool equal(const uint32_t* a, const uint32_t* b, bool ipv6) {
    if (!ipv6) return a[0] == b[0];
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
}
MILLRACE_DEVICE bool in_prefix(const uint32_t* address, const Address& prefix, const Address& mask, bool ipv6) {
    uint32_t difference = (address[0] & mask.words[0]) ^ prefix.words[0];
    if (!ipv6) [[likely]]
        return difference == 0;
    for (unsigned i = 1; i < 4; ++i) difference |= (address[i] & mask.words[i]) ^ prefix.words[i];
    return difference == 0;
}

MILLRACE_DEVICE void load_address(uint32_t* words, const uint8_t* p, bool ipv6) {
    words[0] = load_raw<uint32_t>(p);
    if (!ipv6) [[likely]]
        return;
    for (unsigned i = 1; i < 4; ++i) words[i] = load_raw<uint32_t>(p + 4 * i);
}
MILLRACE_DEVICE void store_address(uint8_t* p, const Address& address, bool ipv6) {
    for (unsigned i = 0; i < 4; ++i)
        if (i == 0 || ipv6) store_raw<uint32_t>(p + 4 * i, address.words[i]);
}

/// What selectors look at.
struct Flow {
    uint32_t src[4], dst[4];         ///< see `equal`
    const uint8_t* ports = nullptr;  ///< source and destination, where the packet holds them; null when it has none
    uint8_t protocol = 0;
    bool ipv6 = false;
};

/// The flow of an IP packet. No fragment has ports, not even a first one: all go by the same SA.
MILLRACE_DEVICE Flow flow_of(const Packet& packet) {
    const Layers& layers = packet.layers();
    Flow flow;
    flow.ipv6 = layers.is_ipv6();
    const uint8_t* header = packet.l3();
    load_address(flow.src, header + (flow.ipv6 ? 8 : 12), flow.ipv6);
    load_address(flow.dst, header + (flow.ipv6 ? 24 : 16), flow.ipv6);
    flow.protocol = layers.protocol;
    if (layers.has_ports() && !layers.is_fragment()) flow.ports = packet.l4();
    return flow;
}

MILLRACE_DEVICE bool matches(const Selector& selector, const Flow& flow) {
    if (selector.ipv6 != flow.ipv6) return false;
    if (!in_prefix(flow.src, selector.src, selector.src_mask, flow.ipv6)) return false;
    if (!in_prefix(flow.dst, selector.dst, selector.dst_mask, flow.ipv6)) return false;
    if (!selector.any_protocol && selector.protocol != flow.protocol) return false;
    if (selector.any_port) return true;
    if (flow.ports == nullptr) return false;
    const uint16_t src = load_be16(flow.ports), dst = load_be16(flow.ports + 2);
    return src >= selector.src_port_first && src <= selector.src_port_last && dst >= selector.dst_port_first &&
           dst <= selector.dst_port_last;
}

/// The bucket of an SPI in a table of `buckets` (a power of two).
MILLRACE_DEVICE uint32_t spi_bucket(uint32_t spi, uint64_t buckets) {
    return static_cast<uint32_t>((static_cast<uint64_t>(spi * 0x9e3779b1u) * buckets) >> 32);
}

/// The inbound SA of an SPI and an outer destination (RFC 4303, section 2.1); kNoDetail if there is none.
template <class Kind>
MILLRACE_DEVICE uint32_t find_inbound(const Tables& tables, uint32_t spi, const Flow& outer) {
    const uint64_t buckets = tables.inbound.size();
    if (buckets == 0) return kNoDetail;
    // The table is at most half full, so that the search ends.
    for (uint64_t at = spi_bucket(spi, buckets); tables.inbound[at] != 0; at = (at + 1) & (buckets - 1)) {
        const uint32_t index = tables.inbound[at] - 1;
        const Sa& sa = tables.sas[index];
        if (sa.spi == spi && sa.ipv6 == outer.ipv6 && equal(sa.local.words, outer.dst, sa.ipv6) &&
            (sa.any_remote || equal(sa.remote.words, outer.src, sa.ipv6)) &&
            (udp_bytes_of<Kind>(sa) != 0) == (Kind::kUdp && outer.protocol == ip::kProtocolUdp))
            return index;
    }
    return kNoDetail;
}

MILLRACE_DEVICE bool is_local(const Tables& tables, const Flow& flow) {
    const View<Address>& own = flow.ipv6 ? tables.local_ipv6 : tables.local_ipv4;
    for (uint64_t i = 0; i < own.size(); ++i)
        if (equal(own[i].words, flow.dst, flow.ipv6)) return true;
    return false;
}

/// Whether a datagram for this gateway's port of RFC 3948 holds ESP, or is there for a NAT alone; else it is one of
/// IKE, or nothing of it. `esp` is the offset of its payload.
MILLRACE_DEVICE bool is_esp_in_udp(const Packet& packet, uint32_t esp) {
    const uint32_t bytes = packet.layers().end - esp;
    if (bytes < 4 || packet.present() < esp + 4)
        return bytes == 1 && packet.present() > esp && packet.data()[esp] == 0xff;
    return load_raw<uint32_t>(packet.data() + esp) != 0;
}

/// An ESP packet that is addressed to this gateway, by itself or in UDP.
template <class Kind>
MILLRACE_DEVICE Route inbound_route(const Packet& packet, const Tables& tables, const Flow& outer) {
    const Layers& layers = packet.layers();
    const bool in_udp = Kind::kUdp && outer.protocol == ip::kProtocolUdp;
    Route route;
    route.outcome = kFragment;
    if (layers.is_fragment()) return route;
    const uint32_t esp = layers.l4_offset + (in_udp ? udp::kHeaderBytes : 0);
    const uint32_t bytes = layers.end - esp;
    route.outcome = kNatKeepalive;
    if (in_udp && bytes == 1) return route;
    route.outcome = kMalformedEsp;
    if (bytes < kEspHeaderBytes || packet.present() != packet.length()) return route;
    if (in_udp && load_be16(packet.l4() + 4) != bytes + udp::kHeaderBytes) return route;
    route.detail = find_inbound<Kind>(tables, load_be32(packet.data() + esp), outer);
    if (route.detail == kNoDetail) {
        route.outcome = kNoSa;
        return route;
    }
    const Sa& sa = tables.sas[route.detail];
    const uint32_t around = kEspHeaderBytes + iv_bytes_of<Kind>(sa) + icv_bytes_of<Kind>(sa);
    const uint32_t alignment = alignment_of<Kind>(sa);
    if (bytes < around + alignment || (bytes - around) % alignment != 0) return route;
    route.outcome = kUnprotected;
    return route;
}

/// Whether the outer header of `packet` in the tunnel of `sa` has its "don't fragment" bit set.
MILLRACE_DEVICE bool outer_dont_fragment(const Packet& packet, const Sa& sa) {
    if (sa.ipv6 || sa.dont_fragment == DontFragment::set) return true;
    if (sa.dont_fragment == DontFragment::clear) return false;
    return packet.layers().is_ipv6() || (load_be16(packet.l3() + 6) & 0x4000) != 0;
}

/// Where in transport mode ESP comes to stand: behind the headers that are read on the way (RFC 4303, section 3.1.1),
/// of IPv6 those before destination options that are for the destination alone.
MILLRACE_DEVICE uint32_t transport_offset(const Packet& packet) {
    const Layers& layers = packet.layers();
    if (!layers.is_ipv6()) return layers.l4_offset;
    const uint8_t* frame = packet.data();
    uint32_t at = layers.l3_offset + ip::kIpv6Bytes;
    uint8_t next = frame[layers.l3_offset + 6];
    while (at < layers.l4_offset) {  // as the parser went
        if (next == ip::kProtocolDestination && frame[at] != ip::kProtocolRouting) break;
        if (next == ip::kProtocolAh || next == ip::kProtocolMobility) break;
        const uint32_t bytes = next == ip::kProtocolFragment ? 8 : (frame[at + 1] + 1u) * 8u;
        next = frame[at];
        at += bytes;
    }
    return at;
}

/// A packet that a policy gives to SA `index`: whether it fits.
template <class Kind>
MILLRACE_DEVICE Route outbound_route(const Packet& packet, const Tables& tables, uint32_t index) {
    const Layers& layers = packet.layers();
    const Sa& sa = tables.sas[index];
    Route route;
    route.detail = index;
    route.at = layers.l3_offset;
    if (is_transport<Kind>(sa)) {
        route.outcome = kFragment;
        if (layers.is_fragment()) return route;
        route.at = transport_offset(packet);
    }
    const uint32_t inner = layers.end - route.at, alignment = alignment_of<Kind>(sa);
    const uint32_t open = (inner + kEspTrailerBytes) & (alignment - 1);
    route.padding = open == 0 ? 0 : alignment - open;
    route.head = head_bytes_of<Kind>(sa);
    const uint32_t tail = route.padding + kEspTrailerBytes + icv_bytes_of<Kind>(sa);
    const uint32_t outer = route.head + (layers.end - layers.l3_offset) + tail;
    const bool too_long = tables.mtu != 0 && outer > tables.mtu &&
                          !(tables.mtu_spares_fragmentable && !outer_dont_fragment(packet, sa));
    const uint32_t longest = sa.ipv6 ? 0xffffu + ip::kIpv6Bytes : 0xffffu;
    if (too_long || outer > longest) {
        route.outcome = kMtuExceeded;
        return route;
    }
    // Ethernet padding makes way for the trailer.
    const uint32_t tailroom = smaller(packet.tailroom() + packet.length() - layers.end, 0xffffu);
    const bool fits = packet.present() == packet.length() && packet.headroom() >= route.head && tailroom >= tail;
    route.outcome = fits ? kProtected : kNoRoom;
    return route;
}

/// What a policy that matches says. Of a packet that is to be protected only the SA is known, not yet whether it fits.
MILLRACE_DEVICE Route policy_route(const Policy& policy) {
    Route route;
    route.outcome = policy.action == Action::protect  ? kProtected
                    : policy.action == Action::bypass ? kBypass
                                                      : kDiscardedByPolicy;
    route.detail = policy.action == Action::protect ? policy.sa : policy.detail;
    return route;
}

/// What is done with a packet that no policy matches.
MILLRACE_DEVICE Route default_route(const Tables& tables) {
    Route route;
    route.outcome = tables.default_action == Action::bypass ? kBypass : kDiscardedByPolicy;
    route.detail = kDefaultPolicy;
    return route;
}

/// The first of many policies that matches an IP packet; kNoRule if there is none. A call, as few chains need it.
MILLRACE_DEVICE_CALL uint32_t search_policies(const Packet& packet, const Tables& tables) {
    classify::HeaderKey key = classify::key_of(packet);
    if (packet.layers().is_fragment()) key.has &= static_cast<uint8_t>(~classify::HeaderKey::kPorts);  // see flow_of
    return classify::Classifier::find(tables.search, key, Lanes<1>{});
}

/// Whether a packet is ESP for this gateway itself.
template <class Kind>
MILLRACE_DEVICE bool is_for_gateway(const Packet& packet, const Tables& tables, const Flow& flow) {
    if (flow.protocol == ip::kProtocolEsp) return is_local(tables, flow);
    if constexpr (Kind::kUdp) {
        if (flow.protocol != ip::kProtocolUdp || tables.udp_port == 0 || flow.ports == nullptr) return false;
        return load_be16(flow.ports + 2) == tables.udp_port && is_local(tables, flow) &&
               is_esp_in_udp(packet, packet.layers().l4_offset + udp::kHeaderBytes);
    }
    return false;
}

/// What the policies say of a packet; see policy_route.
template <class Kind>
MILLRACE_DEVICE Route find_policy(const Packet& packet, const Tables& tables) {
    const Layers& layers = packet.layers();
    Route route;
    if (layers.malformed != Malformed::no) return route;
    route.outcome = kNotIp;
    if (!layers.is_ip()) return route;
    const Flow flow = flow_of(packet);
    if (is_for_gateway<Kind>(packet, tables, flow)) return inbound_route<Kind>(packet, tables, flow);
    if (tables.policies.size() > kFewPolicies) {
        const uint32_t found = search_policies(packet, tables);
        return found == classify::kNoRule ? default_route(tables) : policy_route(tables.policies[found]);
    }
    for (uint64_t i = 0; i < tables.policies.size(); ++i)
        if (matches(tables.policies[i].selector, flow)) return policy_route(tables.policies[i]);
    return default_route(tables);
}

/// Where a packet goes. Reads the packet and the tables, no state.
template <class Kind>
MILLRACE_DEVICE Route find_route(const Packet& packet, const Tables& tables) {
    const Route route = find_policy<Kind>(packet, tables);
    return route.outcome == kProtected ? outbound_route<Kind>(packet, tables, route.detail) : route;
}

}  // namespace millrace::nf::ipsec
