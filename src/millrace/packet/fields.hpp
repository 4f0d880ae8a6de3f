// The packet fields that network functions declare to read and to write (Gaviss, section 4.3).
//
// A field is the same field in IPv4 and IPv6 where both have it. 32 fields at most, so that a read
// and a write vector for host and device fit 64 bits each, as in Gaviss' Algorithm 1.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

/// A set of packet fields.
struct Fields {
    uint32_t bits = 0;

    constexpr bool empty() const { return bits == 0; }
    constexpr bool contains(Fields other) const { return (bits & other.bits) == other.bits; }
    constexpr bool overlaps(Fields other) const { return (bits & other.bits) != 0; }
    friend constexpr Fields operator|(Fields a, Fields b) { return {a.bits | b.bits}; }
    friend constexpr Fields operator&(Fields a, Fields b) { return {a.bits & b.bits}; }
    friend constexpr Fields operator-(Fields a, Fields b) { return {a.bits & ~b.bits}; }
    friend constexpr bool operator==(Fields a, Fields b) { return a.bits == b.bits; }
    constexpr Fields& operator|=(Fields other) {
        bits |= other.bits;
        return *this;
    }
};

namespace field {
inline constexpr Fields none{0};
inline constexpr Fields eth_dst{1u << 0};
inline constexpr Fields eth_src{1u << 1};
inline constexpr Fields eth_type{1u << 2};
inline constexpr Fields vlan{1u << 3};          ///< all VLAN tags (802.1Q, 802.1ad)
inline constexpr Fields ip_version{1u << 4};    ///< version and IPv4 header length
inline constexpr Fields ip_tos{1u << 5};        ///< DSCP and ECN; in IPv6 with the flow label
inline constexpr Fields ip_length{1u << 6};     ///< IPv4 total length, IPv6 payload length
inline constexpr Fields ip_id{1u << 7};         ///< IPv4 identification
inline constexpr Fields ip_fragment{1u << 8};   ///< IPv4 flags and fragment offset
inline constexpr Fields ip_ttl{1u << 9};        ///< IPv4 TTL, IPv6 hop limit
inline constexpr Fields ip_protocol{1u << 10};  ///< IPv4 protocol, IPv6 next header
inline constexpr Fields ip_checksum{1u << 11};  ///< IPv4 header checksum
inline constexpr Fields ip_src{1u << 12};
inline constexpr Fields ip_dst{1u << 13};
inline constexpr Fields ip_options{1u << 14};  ///< IPv4 options, IPv6 extension headers
inline constexpr Fields l4_src_port{1u << 15};
inline constexpr Fields l4_dst_port{1u << 16};
inline constexpr Fields tcp_seq{1u << 17};
inline constexpr Fields tcp_ack{1u << 18};
inline constexpr Fields tcp_flags{1u << 19};  ///< data offset and flags
inline constexpr Fields tcp_window{1u << 20};
inline constexpr Fields tcp_options{1u << 21};  ///< urgent pointer and options
inline constexpr Fields l4_checksum{1u << 22};  ///< of TCP, UDP, ICMP
inline constexpr Fields udp_length{1u << 23};
inline constexpr Fields icmp_type{1u << 24};  ///< type and code
inline constexpr Fields icmp_rest{1u << 25};  ///< the four bytes behind the checksum
inline constexpr Fields payload{1u << 26};    ///< everything behind the last parsed header
inline constexpr Fields length{1u << 27};     ///< written: the frame grows or shrinks at its head or tail

inline constexpr Fields ethernet = eth_dst | eth_src | eth_type | vlan;
inline constexpr Fields ip = ip_version | ip_tos | ip_length | ip_id | ip_fragment | ip_ttl | ip_protocol |
                             ip_checksum | ip_src | ip_dst | ip_options;
inline constexpr Fields l4_ports = l4_src_port | l4_dst_port;
inline constexpr Fields l4 = l4_ports | tcp_seq | tcp_ack | tcp_flags | tcp_window | tcp_options | l4_checksum |
                             udp_length | icmp_type | icmp_rest;
inline constexpr Fields five_tuple = ip_src | ip_dst | ip_protocol | l4_ports;
inline constexpr Fields headers = ethernet | ip | l4;
inline constexpr Fields everything = headers | payload;
/// What the parser itself reads to find the layers; a device that gets any packet gets these.
inline constexpr Fields parsed = eth_type | vlan | ip_version | ip_length | ip_fragment | ip_protocol | ip_options |
                                 tcp_flags | udp_length;
}  // namespace field

#if !MILLRACE_GPU
inline constexpr unsigned kFieldCount = 28;
/// The names as configuration and `millrace explain` write them, by bit.
inline constexpr const char* kFieldNames[kFieldCount] = {
    "eth.dst",     "eth.src",     "eth.type",    "vlan",        "ip.version",  "ip.tos",    "ip.length",
    "ip.id",       "ip.fragment", "ip.ttl",      "ip.protocol", "ip.checksum", "ip.src",    "ip.dst",
    "ip.options",  "l4.src-port", "l4.dst-port", "tcp.seq",     "tcp.ack",     "tcp.flags", "tcp.window",
    "tcp.options", "l4.checksum", "udp.length",  "icmp.type",   "icmp.rest",   "payload",   "length"};
#endif

}  // namespace millrace
