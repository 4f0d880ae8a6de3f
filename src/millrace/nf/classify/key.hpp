// What a classifier knows of a packet: its five-tuple and TCP flags, read once from the headers, and what connection
// tracking has found.
#pragma once

#include "millrace/packet/packet.hpp"

namespace millrace::nf::classify {

/// Kinds of connections that there are: values of Connection.
inline constexpr unsigned kConnections = static_cast<unsigned>(Connection::invalid) + 1;

/// The fields that 5-tuple rules look at. Tests fill it with a raw tuple, as traces hold them.
struct HeaderKey {
    enum Has : uint8_t {
        kPorts = 1,  ///< there are ports: TCP and UDP, save in later fragments
        kFlags = 2,  ///< there are TCP flags
    };
    /// Addresses as 128-bit numbers, the high half first; IPv4 takes the top 32 bits.
    uint64_t src_high = 0, src_low = 0;
    uint64_t dst_high = 0, dst_low = 0;
    uint16_t src_port = 0, dst_port = 0;  ///< host order
    uint8_t protocol = 0;
    uint8_t tcp_flags = 0;
    uint8_t ip_version = 0;  ///< 4, 6, or 0 when not IP
    uint8_t has = 0;
    Connection connection = Connection::untracked;

    MILLRACE_DEVICE bool has_ports() const { return has & kPorts; }
    MILLRACE_DEVICE bool has_flags() const { return has & kFlags; }
};

/// The key of a parsed packet.
MILLRACE_DEVICE HeaderKey key_of(const Packet& packet) {
    const Layers& layers = packet.layers();
    HeaderKey key;
    key.connection = packet.connection();
    if (layers.is_ipv4()) {
        key.ip_version = 4;
        key.src_high = static_cast<uint64_t>(packet.ipv4_src()) << 32;
        key.dst_high = static_cast<uint64_t>(packet.ipv4_dst()) << 32;
    } else if (layers.is_ipv6()) {
        key.ip_version = 6;
        const uint8_t* addresses = packet.l3() + 8;
        key.src_high = load_be64(addresses);
        key.src_low = load_be64(addresses + 8);
        key.dst_high = load_be64(addresses + 16);
        key.dst_low = load_be64(addresses + 24);
    } else {
        return key;
    }
    key.protocol = layers.protocol;
    if (layers.has_ports()) {
        key.has = HeaderKey::kPorts;
        key.src_port = packet.l4_src_port();
        key.dst_port = packet.l4_dst_port();
    }
    if (layers.is_tcp()) {
        key.has |= HeaderKey::kFlags;
        key.tcp_flags = packet.tcp_flags();
    }
    return key;
}

}  // namespace millrace::nf::classify
