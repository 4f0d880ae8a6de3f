// Where the fields of a packet lie among its bytes.
#pragma once

#include "millrace/packet/fields.hpp"
#include "millrace/packet/headers.hpp"
#include "millrace/packet/layers.hpp"

namespace millrace {

/// Calls `put(at, bytes, fields)` for each piece of a frame of `length` bytes, whose layers these are: what lies there
/// belongs to any of `fields`. Pieces lie within the frame, and none over another. What stands behind the last header
/// that was parsed is payload, and so is the padding. ARP's header counts as IP's, in whose place it lies: a field plan
/// brings as much of it.
template <class Put>
void for_each_field(uint32_t length, const Layers& layers, Put&& put_whole) {
    uint32_t covered = 0;
    const auto put = [&](uint32_t at, uint32_t bytes, Fields fields) {
        if (at >= length || bytes == 0) return;
        const uint32_t within = bytes < length - at ? bytes : length - at;
        put_whole(at, within, fields);
        if (at + within > covered) covered = at + within;
    };
    // Of a header that is cut short what follows may begin before its end: nothing of that is the header's.
    const auto put_to = [&](uint32_t at, uint32_t end, Fields fields) { put(at, end > at ? end - at : 0, fields); };
    const uint32_t tags = 4u * layers.vlan_count;
    put(0, 6, field::eth_dst);
    put(6, 6, field::eth_src);
    put(12, tags, field::vlan);
    put(12 + tags, 2, field::eth_type);
    const uint32_t l3 = layers.l3_offset, l4 = layers.l4_offset, payload = layers.payload_offset;
    if (layers.is_ipv4()) {
        put(l3, 1, field::ip_version);
        put(l3 + 1, 1, field::ip_tos);
        put(l3 + 2, 2, field::ip_length);
        put(l3 + 4, 2, field::ip_id);
        put(l3 + 6, 2, field::ip_fragment);
        put(l3 + 8, 1, field::ip_ttl);
        put(l3 + 9, 1, field::ip_protocol);
        put(l3 + 10, 2, field::ip_checksum);
        put(l3 + 12, 4, field::ip_src);
        put(l3 + 16, 4, field::ip_dst);
        put_to(l3 + 20, l4 != 0 ? l4 : payload, field::ip_options);
    } else if (layers.is_ipv6()) {
        put(l3, 1, field::ip_version | field::ip_tos);
        put(l3 + 1, 3, field::ip_tos);
        put(l3 + 4, 2, field::ip_length);
        put(l3 + 6, 1, field::ip_protocol);
        put(l3 + 7, 1, field::ip_ttl);
        put(l3 + 8, 16, field::ip_src);
        put(l3 + 24, 16, field::ip_dst);
        put_to(l3 + 40, l4 != 0 ? l4 : payload, field::ip_options);
    } else if (layers.ether_type == eth::kTypeArp) {
        put(l3, 28, field::ip);
    }
    if (layers.has_ports()) {
        put(l4, 2, field::l4_src_port);
        put(l4 + 2, 2, field::l4_dst_port);
    }
    if (layers.is_tcp()) {
        put(l4 + 4, 4, field::tcp_seq);
        put(l4 + 8, 4, field::tcp_ack);
        put(l4 + 12, 2, field::tcp_flags);
        put(l4 + 14, 2, field::tcp_window);
        put(l4 + 16, 2, field::l4_checksum);
        put_to(l4 + 18, payload, field::tcp_options);
    } else if (layers.is_udp()) {
        put(l4 + 4, 2, field::udp_length);
        put(l4 + 6, 2, field::l4_checksum);
    } else if (layers.is_icmp()) {
        put(l4, 2, field::icmp_type);
        put(l4 + 2, 2, field::l4_checksum);
        put(l4 + 4, 4, field::icmp_rest);
    }
    put_to(payload > covered ? payload : covered, length, field::payload);
}

/// The pieces of a packet that somebody has who declared `fields`: `each(at, bytes)`. A byte of two fields belongs to
/// both; ARP's header is for who has all of IP's.
template <class Each>
void for_each_declared(uint32_t length, const Layers& layers, Fields fields, Each&& each) {
    for_each_field(length, layers, [&](uint32_t at, uint32_t bytes, Fields own) {
        if (own == field::ip ? fields.contains(own) : fields.overlaps(own)) each(at, bytes);
    });
}

}  // namespace millrace
