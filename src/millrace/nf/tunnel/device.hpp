// Ends of tunnels: IP in IP (RFC 2003, RFC 2473, RFC 4213), GRE (RFC 2784, RFC 2890), VXLAN (RFC 7348), GENEVE (RFC
// 8926) and GTP-U (3GPP TS 29.281).
#pragma once

#include "millrace/nf/tunnel/unwrap.hpp"
#include "millrace/nf/tunnel/wrap.hpp"

namespace millrace::nf::tunnel {

struct TunnelEnd {
    enum Outcome : uint32_t {
        kWrapped,
        kUnwrapped,
        kJoined,
        kOther,
        kNoTunnelHere,
        kFragment,
        kMalformedTunnel,
        kBadChecksum,
        kNotCarried,
        kBadEcn,
        kMtuExceeded,
        kNoRoom,
    };

    static constexpr Fields reads = field::everything;
    static constexpr Fields writes = field::everything | field::length;
    static constexpr unsigned lanes = 1;

    using Tables = TunnelTables;

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        const Layers& layers = packet.layers();
        if (packet.in_port() < tables.by_port.size() && tables.by_port[packet.in_port()] != kNoTunnel)
            return wrap(packet, tables, tables.by_port[packet.in_port()], lanes);
        if (!layers.is_ip()) return {kNoDetail, kOther};

        uint32_t dst[4];
        load_address(dst, packet.l3() + (layers.is_ipv6() ? 24 : 16), layers.is_ipv6());
        if (const uint32_t kinds = kinds_at(tables, dst, layers.is_ipv6()); kinds != 0) {
            if (layers.is_fragment()) return {kNoDetail, may_end_here(layers, kinds) ? kFragment : kOther};
            Arrival arrival;
            if (find_arrival(packet, kinds, arrival)) return unwrap(packet, tables, arrival, dst, lanes);
            return {kNoDetail, kOther};
        }
        const uint32_t target = layers.is_ipv4() ? prefixes::lookup_ipv4(tables.prefixes, packet.ipv4_dst())
                                                 : prefixes::lookup_ipv6(tables.prefixes, packet.l3() + 24);
        if (target == prefixes::kTargetNone) return {kNoDetail, kOther};
        return wrap(packet, tables, target - 1, lanes);
    }

private:
    /// Whether a fragment may be of a packet of such a tunnel: later ones do not tell their ports.
    MILLRACE_DEVICE static bool may_end_here(const Layers& layers, uint32_t kinds) {
        using namespace millrace::tunnel;
        if (layers.protocol == ip::kProtocolUdp) return (kinds & (kVxlan | kGeneve | kGtpU)) != 0;
        if (layers.protocol == ip::kProtocolGre) return (kinds & kGre) != 0;
        return (layers.protocol == ip::kProtocolIpv4 || layers.protocol == ip::kProtocolIpv6) && (kinds & kIpip) != 0;
    }

    template <class Lanes>
    MILLRACE_DEVICE static Decision unwrap(Packet& packet, const Tables& tables, const Arrival& arrival,
                                           const uint32_t* local, Lanes lanes) {
        const bool ipv6 = packet.layers().is_ipv6();
        if (arrival.malformed) return {kNoDetail, kMalformedTunnel};
        Ends ends{};
        for (unsigned i = 0; i < 4; ++i) ends.local[i] = local[i];
        load_address(ends.remote, packet.l3() + (ipv6 ? 8 : 12), ipv6);
        ends.id = arrival.id;
        ends.has_id = arrival.has_id;
        ends.kind = arrival.kind;
        ends.ipv6 = ipv6;
        const uint32_t number = find_tunnel(tables, ends);
        if (number == kNoTunnel) return {kNoDetail, kNoTunnelHere};
        if (!are_sums_right(packet, arrival)) return {number, kBadChecksum};
        const Tunnel& tunnel = tables.tunnels[number];
        const Carried& carried = arrival.carried;
        const bool is_frame = carried.what == Carried::What::ethernet;
        if (tunnel.port != kNoPort && !is_frame) return {number, kNotCarried};
        const bool takes_frames = tunnel.port != kNoPort || has_ethernet(arrival.kind);
        if (is_frame && !takes_frames) return {number, kNotCarried};

        const uint8_t outer = traffic_class(packet.l3(), ipv6);
        if (is_frame) {
            const uint32_t bytes = carried.end - carried.at;
            packet.shrink_front(carried.at);
            packet.shrink_back(packet.length() - bytes);
            packet.parse();
        } else {
            unwrap_ip(packet, carried.at, carried.end - carried.at, carried.what == Carried::What::ipv6, lanes);
        }
        if (packet.layers().malformed != Malformed::no) return {number, kMalformedTunnel};
        if (packet.layers().is_ip() && !combine_ecn(packet, outer, lanes)) return {number, kBadEcn};
        clamp_mss_of(packet, tables, tunnel, lanes);
        if (tunnel.port == kNoPort) return {number, kUnwrapped};
        packet.set_out_port(tunnel.port);
        return {number, kJoined};
    }

    template <class Lanes>
    MILLRACE_DEVICE static Decision wrap(Packet& packet, const Tables& tables, uint32_t number, Lanes lanes) {
        const Tunnel& tunnel = tables.tunnels[number];
        const Wrapping wrapping = wrapping_of(packet, tunnel);
        const bool spared = tables.mtu_spares_fragmentable != 0 && tunnel.ends.ipv6 == 0 &&
                            !is_df_outside(packet, tables);
        if (wrapping.outer_bytes > (spared ? 0xffff : tables.mtu)) return {number, kMtuExceeded};
        if (wrapping.front > packet.headroom()) return {number, kNoRoom};
        clamp_mss_of(packet, tables, tunnel, lanes);
        put_in(packet, tables, tunnel, wrapping, lanes);
        return {number, kWrapped};
    }
};

}  // namespace millrace::nf::tunnel
