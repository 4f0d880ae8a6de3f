// What names a connection: both ends, in an order that is the same for both directions.
#pragma once

#include "millrace/nf/state/keyed_state.hpp"
#include "millrace/packet/icmp.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::flows {

/// One end: an address as it lies in the packet, and a port in host order (of ICMP queries the identifier).
struct End {
    uint32_t address[4];
    uint32_t port;
};

struct FlowKey {
    End low, high;
    uint32_t kind;  ///< protocol, flags, and the zone from bit 16 on
    /// `kLowAsks`: of ICMP queries, that `low` asks: both ends may use the same identifier.
    static constexpr uint32_t kIpv6 = 0x100, kLowAsks = 0x200;
};

/// A connection as a packet names it.
struct Named {
    Lookup lookup = Lookup::none;
    bool from_low = false;  ///< it comes from `low`
    bool is_error = false;  ///< an ICMP error: the connection is that of the packet inside, which went the other way
};

namespace detail {

/// Puts the ends in order.
MILLRACE_DEVICE void put(const uint8_t* addresses, uint32_t words, uint32_t src_port, uint32_t dst_port, FlowKey& key,
                         bool& from_low) {
    End src{}, dst{};
    src.port = src_port;
    dst.port = dst_port;
    int order = 0;
    for (uint32_t i = 0; i < words; ++i) {
        src.address[i] = load_raw<uint32_t>(addresses + 4 * i);
        dst.address[i] = load_raw<uint32_t>(addresses + 4 * (words + i));
        if (order == 0) order = src.address[i] < dst.address[i] ? -1 : src.address[i] > dst.address[i] ? 1 : 0;
    }
    if (order == 0) order = src.port <= dst.port ? -1 : 1;
    from_low = order < 0;
    key.low = from_low ? src : dst;
    key.high = from_low ? dst : src;
}

/// Where the headers that an IPv6 header begins with end: the protocol behind them, and where it begins. False when
/// that lies behind `bytes`, or in another fragment.
MILLRACE_DEVICE bool pass_extensions(const uint8_t* inner, uint32_t bytes, uint32_t& header, uint8_t& protocol) {
    for (unsigned i = 0; i <= kMaxIpv6Extensions; ++i) {
        if (bytes < header + 8) return false;
        const bool is_fragment = protocol == ip::kProtocolFragment, is_ah = protocol == ip::kProtocolAh;
        if (!is_fragment && !is_ah && protocol != ip::kProtocolHopByHop && protocol != ip::kProtocolRouting &&
            protocol != ip::kProtocolDestination && protocol != ip::kProtocolMobility)
            return true;
        const uint8_t* const at = inner + header;
        if (is_fragment && load_be16(at + 2) >> 3 != 0) return false;
        protocol = at[0];
        header += is_fragment ? 8u : is_ah ? (at[1] + 2u) * 4 : (at[1] + 1u) * 8;
    }
    return false;
}

/// The packet inside of an ICMP error: its IP header, extension headers, and the first 8 bytes behind them.
MILLRACE_DEVICE bool name_inner(const uint8_t* inner, uint32_t bytes, bool ipv6, FlowKey& key, bool& from_low) {
    uint32_t header = 40;
    uint8_t protocol = 0;
    if (ipv6) {
        if (bytes < 48 || inner[0] >> 4 != 6) return false;
        protocol = inner[6];
        if (!pass_extensions(inner, bytes, header, protocol)) return false;
    } else {
        if (bytes < 28 || inner[0] >> 4 != 4) return false;
        header = (inner[0] & 15) * 4u;
        if (header < 20 || bytes < header + 8 || (load_be16(inner + 6) & 0x1fff) != 0) return false;
        protocol = inner[9];
    }
    const uint8_t* const l4 = inner + header;
    uint32_t src_port = 0, dst_port = 0;
    const bool is_icmp = protocol == (ipv6 ? ip::kProtocolIcmpv6 : ip::kProtocolIcmp);
    if (protocol == ip::kProtocolTcp || protocol == ip::kProtocolUdp) {
        src_port = load_be16(l4);
        dst_port = load_be16(l4 + 2);
    } else if (is_icmp) {
        if (!icmp::is_query(l4[0], ipv6) && !icmp::is_reply(l4[0], ipv6)) return false;
        src_port = dst_port = load_be16(l4 + 4);
    }
    key.kind |= protocol;
    put(inner + (ipv6 ? 8 : 12), ipv6 ? 4 : 1, src_port, dst_port, key, from_low);
    if (is_icmp && from_low == icmp::is_query(l4[0], ipv6)) key.kind |= FlowKey::kLowAsks;
    return true;
}

}  // namespace detail

/// `key` is zero. Fragments behind the first one name none, nor does what is not IP or stands for itself alone, such as
/// neighbour discovery.
MILLRACE_DEVICE Named name_flow(const Packet& packet, bool by_vlan, FlowKey& key) {
    const Layers& layers = packet.layers();
    Named named;
    if (!layers.is_ip() || layers.malformed != Malformed::no) return named;
    const bool ipv6 = layers.is_ipv6();
    key.kind = (ipv6 ? FlowKey::kIpv6 : 0) | (by_vlan ? uint32_t{layers.vlan_id} << 16 : 0);
    uint32_t src_port = packet.l4_src_port(), dst_port = packet.l4_dst_port();
    named.lookup = Lookup::create;
    if ((layers.flags & Layers::kLaterFragment) != 0) return {};
    if (layers.is_icmp()) {
        const uint8_t type = packet.l4()[0];
        const uint32_t bytes = layers.end - layers.l4_offset;
        if (bytes < 8) return {};
        if (icmp::is_error(type, ipv6)) {
            named.is_error = true;
            named.lookup = Lookup::find;
            if (!detail::name_inner(packet.l4() + 8, bytes - 8, ipv6, key, named.from_low)) key.kind |= 0xff;
            named.from_low = !named.from_low;
            return named;
        }
        if (icmp::is_reply(type, ipv6)) named.lookup = Lookup::find;
        else if (!icmp::is_query(type, ipv6)) return {};
        src_port = dst_port = load_be16(packet.l4() + 4);
    }
    key.kind |= layers.protocol;
    detail::put(packet.l3() + (ipv6 ? 8 : 12), ipv6 ? 4 : 1, src_port, dst_port, key, named.from_low);
    if (layers.is_icmp() && named.from_low == icmp::is_query(packet.l4()[0], ipv6)) key.kind |= FlowKey::kLowAsks;
    return named;
}

}  // namespace millrace::nf::flows
