// What a packet says of its ends, and other ends put into it, with all checksums that cover them.
#pragma once

#include "millrace/nf/nat/tables.hpp"
#include "millrace/packet/icmp.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/rewrite.hpp"

namespace millrace::nf::nat {

/// The packet that an ICMP error is about.
struct Quoted {
    End from{}, to{};
    uint8_t* ip = nullptr;
    uint8_t* l4 = nullptr;
    uint32_t l4_bytes = 0;  ///< 8 at least
};

/// Where a protocol has its port, or identifier, from the start of its header.
MILLRACE_DEVICE uint32_t port_offset(uint8_t protocol, bool of_destination) {
    return protocol == ip::kProtocolIcmp ? 4 : of_destination ? 2 : 0;
}
MILLRACE_DEVICE bool has_port(uint8_t protocol) {
    return protocol == ip::kProtocolTcp || protocol == ip::kProtocolUdp || protocol == ip::kProtocolIcmp;
}

/// False: it is too little, a later fragment, or of a protocol without ports.
MILLRACE_DEVICE bool read_quoted(const Packet& packet, Quoted& quoted) {
    constexpr uint32_t kNeeded = 8;  // RFC 792: 64 bits of the datagram behind its header
    const Layers& layers = packet.layers();
    const uint32_t begin = layers.l4_offset + icmp::kHeaderBytes, end = smaller(layers.end, packet.present());
    if (end < begin + ip::kIpv4Bytes + kNeeded) return false;
    quoted.ip = packet.data() + begin;
    const uint32_t header = (quoted.ip[0] & 15) * 4u;
    if (quoted.ip[0] >> 4 != 4 || header < ip::kIpv4Bytes || end < begin + header + kNeeded ||
        (load_be16(quoted.ip + 6) & 0x1fff) != 0 || !has_port(quoted.ip[9]))
        return false;
    const uint8_t protocol = quoted.ip[9];
    quoted.l4 = quoted.ip + header;
    quoted.l4_bytes = end - begin - header;
    if (protocol == ip::kProtocolIcmp && !icmp::is_query(quoted.l4[0], false) && !icmp::is_reply(quoted.l4[0], false))
        return false;
    quoted.from = {load_raw<uint32_t>(quoted.ip + 12), load_be16(quoted.l4 + port_offset(protocol, false)), protocol};
    quoted.to = {load_raw<uint32_t>(quoted.ip + 16), load_be16(quoted.l4 + port_offset(protocol, true)), protocol};
    return true;
}

/// Another source or destination.
MILLRACE_DEVICE void replace(Packet& packet, bool destination, const End& end) {
    uint8_t *const header = packet.l3(), *const l4 = packet.l4();
    const uint32_t of_address = put_ipv4(header + (destination ? 16 : 12), end.address);
    follow(header + 10, of_address);
    const uint32_t of_port = put_word(l4 + port_offset(end.protocol, destination), end.port);
    if (end.protocol == ip::kProtocolTcp) follow(l4 + 16, of_address + of_port);
    else if (end.protocol == ip::kProtocolUdp) follow_udp(l4 + 6, of_address + of_port);
    else follow(l4 + 2, of_port);
}

/// Another source or destination of the packet that an ICMP error is about, and the same address at the other end of
/// the error itself (RFC 5508, REQ-4 and REQ-5: also where a router on the way tells of it).
MILLRACE_DEVICE void replace_quoted(Packet& packet, const Quoted& quoted, bool destination, const End& end) {
    uint32_t inner = put_ipv4(quoted.ip + (destination ? 16 : 12), end.address);
    uint32_t gained = inner;  // of the ICMP checksum, which covers all of it
    gained += follow(quoted.ip + 10, inner);
    const uint32_t of_port = put_word(quoted.l4 + port_offset(end.protocol, destination), end.port);
    gained += of_port;
    inner += of_port;
    if (end.protocol == ip::kProtocolUdp) gained += follow_udp(quoted.l4 + 6, inner);
    else if (end.protocol == ip::kProtocolIcmp) gained += follow(quoted.l4 + 2, of_port);
    else if (quoted.l4_bytes >= 18) gained += follow(quoted.l4 + 16, inner);
    follow(packet.l3() + 10, put_ipv4(packet.l3() + (destination ? 12 : 16), end.address));
    follow(packet.l4() + 2, gained);
}

}  // namespace millrace::nf::nat
