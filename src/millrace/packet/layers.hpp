// Where the headers of a packet lie: found once per packet, used by every NF of the chain.
#pragma once

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace {

/// Why the parser refused a packet. Each is a named drop reason of the chain's parser.
enum class Malformed : uint8_t {
    no,
    truncated_ethernet,
    truncated_vlan,
    truncated_ipv4,
    bad_ipv4_version,
    bad_ipv4_header_length,
    bad_ipv4_total_length,
    truncated_ipv6,
    bad_ipv6_version,
    bad_ipv6_payload_length,
    bad_ipv6_extension,
    truncated_tcp,
    bad_tcp_offset,
    truncated_udp,
    bad_udp_length,
    truncated_icmp,
    too_many_vlans,
    beyond_present,    ///< a header lies behind the bytes that are in this memory; the host decides instead
    truncated_tunnel,  ///< a tunnel ends within its header, or what it carries does (tunnels.hpp)
    bad_tunnel,        ///< its header can't be
    too_many_tunnels,  ///< within each other, or so deep that Layers has no offset for it
};
inline constexpr unsigned kMalformedCount = 21;

#if !MILLRACE_GPU
/// The drop reasons by `Malformed`.
inline constexpr const char* kMalformedNames[kMalformedCount] = {
    "well-formed",      "truncated-ethernet",      "truncated-vlan",        "truncated-ipv4",
    "bad-ipv4-version", "bad-ipv4-header-length",  "bad-ipv4-total-length", "truncated-ipv6",
    "bad-ipv6-version", "bad-ipv6-payload-length", "bad-ipv6-extension",    "truncated-tcp",
    "bad-tcp-offset",   "truncated-udp",           "bad-udp-length",        "truncated-icmp",
    "too-many-vlans",   "beyond-present",          "truncated-tunnel",      "bad-tunnel",
    "too-many-tunnels"};
#endif

/// Offsets are bytes from the start of the frame; 0 says that there is no such header.
struct Layers {
    enum Flags : uint8_t {
        kIpv4 = 1,
        kIpv6 = 2,
        kFragment = 4,       ///< any fragment of a datagram
        kLaterFragment = 8,  ///< not the first: there is no L4 header
        kTcp = 16,
        kUdp = 32,
        kIcmp = 64,  ///< ICMP or ICMPv6
    };
    uint32_t end = 0;  ///< first byte behind the IP datagram (Ethernet padding starts here); frame length if not IP
    uint16_t ether_type = 0;  ///< behind any VLAN tags
    uint16_t vlan_id = 0;     ///< of the outermost tag
    uint16_t l4_offset = 0;
    uint16_t payload_offset = 0;  ///< behind the last header that was parsed; at most `end`
    uint8_t l3_offset = 0;
    uint8_t protocol = 0;  ///< of L4, behind IPv6 extension headers
    uint8_t flags = 0;
    uint8_t vlan_count = 0;
    Malformed malformed = Malformed::no;
    uint8_t tunnel_depth = 0;  ///< how many tunnels these headers lie in; set by enter_tunnels alone

    MILLRACE_DEVICE bool is_ipv4() const { return flags & kIpv4; }
    MILLRACE_DEVICE bool is_ipv6() const { return flags & kIpv6; }
    MILLRACE_DEVICE bool is_ip() const { return flags & (kIpv4 | kIpv6); }
    MILLRACE_DEVICE bool is_tcp() const { return flags & kTcp; }
    MILLRACE_DEVICE bool is_udp() const { return flags & kUdp; }
    MILLRACE_DEVICE bool is_icmp() const { return flags & kIcmp; }
    MILLRACE_DEVICE bool is_fragment() const { return flags & kFragment; }
    MILLRACE_DEVICE bool has_ports() const { return flags & (kTcp | kUdp); }
};

inline constexpr unsigned kMaxVlanTags = 4;
inline constexpr unsigned kMaxIpv6Extensions = 8;

}  // namespace millrace
