// Addresses and ports of a packet, and of the packet that an ICMP error quotes, replaced with their checksums.
#pragma once

#include "millrace/nf/balancer/tables.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/rewrite.hpp"

namespace millrace::nf::balancer {

/// Loads an address as it lies in a packet; the words that it does not have are 0.
MILLRACE_DEVICE void load_address(uint32_t (&words)[4], const uint8_t* at, bool ipv6) {
    for (unsigned i = 0; i < 4; ++i) words[i] = ipv6 || i == 0 ? load_raw<uint32_t>(at + 4 * i) : 0;
}

MILLRACE_DEVICE uint32_t address_offset(bool ipv6, bool destination) {
    return ipv6 ? (destination ? 24 : 8) : destination ? 16 : 12;
}

/// The packet's source or destination. Without ports it is the address with a port of 0.
MILLRACE_DEVICE EndPoint end_of(const Packet& packet, bool destination) {
    const Layers& layers = packet.layers();
    const bool ipv6 = layers.is_ipv6();
    EndPoint end{};
    load_address(end.address, packet.l3() + address_offset(ipv6, destination), ipv6);
    end.port = destination ? packet.l4_dst_port() : packet.l4_src_port();
    end.protocol = layers.protocol;
    end.ipv6 = ipv6;
    return end;
}

/// The end point of a packet without ports, such as an ICMP error, that came from or goes to this address.
MILLRACE_DEVICE EndPoint alone(EndPoint end) {
    end.port = 0;
    end.protocol = end.ipv6 != 0 ? 58 : 1;
    return end;
}

/// What a checksum's sum gains when the address at `at`, of 4 or 16 bytes, becomes this one. Writes it.
MILLRACE_DEVICE uint32_t put_address(uint8_t* at, const uint32_t* address, bool ipv6) {
    uint32_t gained = 0;
    for (unsigned i = 0; i < (ipv6 ? 4u : 1u); ++i) gained += put_ipv4(at + 4 * i, address[i]);
    return gained;
}

/// Another destination or source. A port of 0 leaves the packet's.
MILLRACE_DEVICE void replace(Packet& packet, bool destination, const uint32_t* address, uint16_t port) {
    const Layers& layers = packet.layers();
    const bool ipv6 = layers.is_ipv6();
    uint8_t* const header = packet.l3();
    uint32_t gained = put_address(header + address_offset(ipv6, destination), address, ipv6);
    if (!ipv6) follow(header + 10, gained);
    uint8_t* const l4 = packet.l4();
    if (layers.has_ports() && port != 0) gained += put_word(l4 + (destination ? 2 : 0), port);
    if (layers.is_tcp()) follow(l4 + 16, gained);
    if (layers.is_udp()) follow_udp(l4 + 6, gained);
    if (layers.is_icmp() && ipv6) follow(l4 + 2, gained);
}

/// The headers of a packet that an ICMP error quotes.
struct Quoted {
    EndPoint from, to;
    uint8_t* ip;
    uint8_t* l4;
    uint32_t l4_bytes;  ///< 8 at least
};

/// Destination unreachable, time exceeded, parameter problem (RFC 792), packet too big (RFC 4443).
MILLRACE_DEVICE bool is_icmp_error(const Packet& packet) {
    const Layers& layers = packet.layers();
    if (!layers.is_icmp() || layers.is_fragment()) return false;
    const uint8_t type = packet.l4()[0];
    return layers.is_ipv6() ? type >= 1 && type <= 4 : type == 3 || type == 11 || type == 12;
}

/// Reads what an ICMP error quotes of a TCP or UDP packet without extension headers. False: it is too little, a later
/// fragment, or of another protocol.
MILLRACE_DEVICE bool read_quoted(const Packet& packet, Quoted& quoted) {
    constexpr uint32_t kIcmpBytes = 8, kPorts = 8;
    const Layers& layers = packet.layers();
    const uint32_t begin = layers.l4_offset + kIcmpBytes;
    const uint32_t end = smaller(layers.end, packet.present());
    const bool ipv6 = layers.is_ipv6();
    uint32_t header = ipv6 ? 40 : 20;
    if (end < begin + header + kPorts) return false;
    quoted.ip = packet.data() + begin;
    if (quoted.ip[0] >> 4 != (ipv6 ? 6 : 4)) return false;
    if (!ipv6) {
        header = (quoted.ip[0] & 15) * 4u;
        if (header < 20 || end < begin + header + kPorts || (load_be16(quoted.ip + 6) & 0x1fff) != 0) return false;
    }
    const uint8_t protocol = quoted.ip[ipv6 ? 6 : 9];
    if (protocol != 6 && protocol != 17) return false;
    quoted.l4 = quoted.ip + header;
    quoted.l4_bytes = end - begin - header;
    quoted.from.protocol = quoted.to.protocol = protocol;
    quoted.from.ipv6 = quoted.to.ipv6 = ipv6;
    quoted.from.port = load_be16(quoted.l4);
    quoted.to.port = load_be16(quoted.l4 + 2);
    load_address(quoted.from.address, quoted.ip + address_offset(ipv6, false), ipv6);
    load_address(quoted.to.address, quoted.ip + address_offset(ipv6, true), ipv6);
    return true;
}

/// Another source (`of_source`) or destination in what an ICMP error quotes, and, where `outer`, the same at the other
/// end of the error itself.
MILLRACE_DEVICE void replace_quoted(Packet& packet, const Quoted& quoted, bool of_source, bool outer,
                                    const uint32_t* address, uint16_t port) {
    const bool ipv6 = packet.layers().is_ipv6(), tcp = quoted.from.protocol == 6;
    uint32_t inner = put_address(quoted.ip + address_offset(ipv6, !of_source), address, ipv6);
    uint32_t gained = inner;  // of the ICMP checksum, which covers all of it
    if (!ipv6) gained += follow(quoted.ip + 10, inner);
    if (port != 0) {
        const uint32_t of_port = put_word(quoted.l4 + (of_source ? 0 : 2), port);
        inner += of_port;
        gained += of_port;
    }
    if (!tcp) gained += follow_udp(quoted.l4 + 6, inner);
    else if (quoted.l4_bytes >= 18) gained += follow(quoted.l4 + 16, inner);
    if (outer) {
        const uint32_t own = put_address(packet.l3() + address_offset(ipv6, of_source), address, ipv6);
        if (ipv6) gained += own;
        else follow(packet.l3() + 10, own);
    }
    follow(packet.l4() + 2, gained);
}

}  // namespace millrace::nf::balancer
