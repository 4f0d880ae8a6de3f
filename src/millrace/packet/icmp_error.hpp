// A packet becomes the ICMP error that tells its sender why it does not arrive (RFC 792, RFC 4443), or how long it may
// be (RFC 1191, RFC 8201).
#pragma once

#include "millrace/packet/icmp.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::icmp {

inline constexpr uint8_t kUnreachable = 3, kFragmentationNeeded = 4;  ///< RFC 792: type and code
inline constexpr uint8_t kIpv6PacketTooBig = 2;                       ///< RFC 4443, section 3.2
inline constexpr uint32_t kIpv4LeastMtu = 68, kIpv6LeastMtu = 1280;   ///< RFC 791, section 3.2; RFC 8200, section 5
/// An error quotes the packet as far as it stays within these lengths (RFC 1812, section 4.3.2.3; RFC 4443, section
/// 2.4).
inline constexpr uint32_t kIpv4ErrorBytes = 576, kIpv6ErrorBytes = kIpv6LeastMtu;

/// What comes before the quoted packet.
MILLRACE_DEVICE constexpr uint32_t error_head_bytes(bool ipv6) {
    return (ipv6 ? ip::kIpv6Bytes : ip::kIpv4Bytes) + kHeaderBytes;
}

/// Whether an IPv4 address is that of one host which others can reach.
MILLRACE_DEVICE bool is_host(uint32_t address) {
    const uint32_t first = address >> 24;
    return first != 0 && first != 127 && first < 224;
}

/// What an error says: type, code, and the four bytes behind its checksum.
struct Error {
    uint8_t type = 0, code = 0;
    uint32_t rest = 0;
};

/// Whether a sound IP packet may be answered by an error about its length: not an error or a redirect, not a fragment,
/// nothing that comes from nobody in particular (RFC 1812, section 4.3.2.7; RFC 4443, section 2.4). Of IPv4 nothing for
/// groups.
MILLRACE_DEVICE bool may_tell_length(const Packet& packet) {
    constexpr uint8_t kRedirect = 5, kIpv6Redirect = 137;
    const Layers& layers = packet.layers();
    const bool ipv6 = layers.is_ipv6();
    const uint8_t* header = packet.l3();
    if (layers.is_icmp()) {
        const uint8_t type = packet.l4()[0];
        if (is_error(type, ipv6) || type == (ipv6 ? kIpv6Redirect : kRedirect)) return false;
    }
    if (layers.is_fragment()) return false;
    if (!ipv6) {
        const bool to_group = (packet.data()[0] & 1) != 0;
        return !to_group && is_host(packet.ipv4_src()) && is_host(packet.ipv4_dst());
    }
    const bool from_nobody = (load_raw<uint64_t>(header + 8) | load_raw<uint64_t>(header + 16)) == 0;
    return header[8] != 0xff && !from_nobody;
}

/// The same of other errors: IPv6 has none of these for groups, either.
MILLRACE_DEVICE bool may_tell(const Packet& packet) {
    if (!may_tell_length(packet)) return false;
    return !packet.layers().is_ipv6() || ((packet.data()[0] & 1) == 0 && packet.l3()[24] != 0xff);
}

/// The same of packets that are too long: of IPv4 only what must not be fragmented.
MILLRACE_DEVICE bool may_tell_too_big(const Packet& packet) {
    return may_tell_length(packet) && (packet.layers().is_ipv6() || (load_be16(packet.l3() + 6) & 0x4000) != 0);
}

/// The outer header and the ICMP header of an error from `from` to the sender of the packet behind them.
MILLRACE_DEVICE void write_error(uint8_t* header, bool ipv6, const uint8_t* from, const Error& what, uint32_t quoted) {
    uint8_t* const error = header + (ipv6 ? ip::kIpv6Bytes : ip::kIpv4Bytes);
    const uint8_t* const sender = error + kHeaderBytes + (ipv6 ? 8 : 12);
    const uint32_t bytes = kHeaderBytes + quoted;
    error[0] = what.type;
    error[1] = what.code;
    store_be16(error + 2, 0);
    store_be32(error + 4, what.rest);
    if (ipv6) {
        store_be32(header, 0x60000000u);
        store_be32(header + 4, bytes << 16 | uint32_t{ip::kProtocolIcmpv6} << 8 | 64);
        copy_bytes(header + 8, from, 16);
        copy_bytes(header + 24, sender, 16);
        const uint32_t sum = checksum_add(bytes + ip::kProtocolIcmpv6, header + 8, 32);
        store_be16(error + 2, checksum_finish(checksum_add(sum, error, bytes)));
        return;
    }
    // Internetwork control (RFC 1812, section 4.3.2.5), not to be fragmented, so that it needs no identification.
    store_be32(header, 0x45c00000u | (ip::kIpv4Bytes + bytes));
    store_be32(header + 4, 0x4000u);
    store_be32(header + 8, 64u << 24 | uint32_t{ip::kProtocolIcmp} << 16);
    copy_bytes(header + 12, from, 4);
    copy_bytes(header + 16, sender, 4);
    store_be16(header + 10, checksum(header, ip::kIpv4Bytes));
    store_be16(error + 2, checksum(error, bytes));
}

/// Makes of a packet that may be answered the error to its sender, from the address `from` (as long as those of its IP
/// version). The Ethernet header stays, so that a router takes it for its own and finds the way back. False, and
/// nothing changed, where the buffer has no room for that, or not the whole frame.
template <class Lanes>
MILLRACE_DEVICE_CALL bool tell(Packet& packet, const uint8_t* from, const Error& error, Lanes lanes) {
    const bool ipv6 = packet.layers().is_ipv6();
    const uint32_t l2_bytes = packet.layers().l3_offset, head = error_head_bytes(ipv6);
    const uint32_t most = (ipv6 ? kIpv6ErrorBytes : kIpv4ErrorBytes) - head;
    const uint32_t quoted = smaller(packet.layers().end - l2_bytes, most);
    if (packet.present() != packet.length() || packet.headroom() < head) return false;
    packet.shrink_back(packet.length() - l2_bytes - quoted);
    packet.grow_front(head);
    uint8_t* const frame = packet.data();
    lanes.once([&] {
        move_bytes_down(frame, frame + head, l2_bytes);
        write_error(frame + l2_bytes, ipv6, from, error, quoted);
    });
    packet.parse();
    return true;
}

/// What says how many bytes a packet may have; of IPv4 up to 65,535.
MILLRACE_DEVICE Error too_big(bool ipv6, uint32_t mtu) {
    if (ipv6) return {kIpv6PacketTooBig, 0, mtu};
    return {kUnreachable, kFragmentationNeeded, mtu};
}

}  // namespace millrace::icmp
