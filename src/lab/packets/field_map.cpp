#include "lab/packets/field_map.hpp"

#include <algorithm>

namespace millrace::lab {

std::vector<Fields> fields_of_bytes(const Frame& frame, const Layers& layers) {
    std::vector<Fields> map(frame.size(), field::payload);
    const auto put = [&](size_t at, size_t bytes, Fields fields) {
        for (size_t i = at; i < std::min(at + bytes, map.size()); ++i) map[i] = fields;
    };
    const size_t tags = size_t{4} * layers.vlan_count;
    put(0, 6, field::eth_dst);
    put(6, 6, field::eth_src);
    put(12, tags, field::vlan);
    put(12 + tags, 2, field::eth_type);
    const size_t l3 = layers.l3_offset, l4 = layers.l4_offset, payload = layers.payload_offset;
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
        const size_t header = size_t{4} * (frame[l3] & 15u);
        put(l3 + 20, header - 20, field::ip_options);
    } else if (layers.is_ipv6()) {
        put(l3, 1, field::ip_version | field::ip_tos);
        put(l3 + 1, 3, field::ip_tos);
        put(l3 + 4, 2, field::ip_length);
        put(l3 + 6, 1, field::ip_protocol);
        put(l3 + 7, 1, field::ip_ttl);
        put(l3 + 8, 16, field::ip_src);
        put(l3 + 24, 16, field::ip_dst);
        const size_t end = l4 != 0 ? l4 : payload;
        if (end > l3 + 40) put(l3 + 40, end - (l3 + 40), field::ip_options);
    }
    // A plan brings as much of ARP's header as of IP's, in whose place it lies.
    if (layers.ether_type == eth::kTypeArp) put(l3, 28, field::ip);
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
        put(l4 + 18, payload - (l4 + 18), field::tcp_options);
    } else if (layers.is_udp()) {
        put(l4 + 4, 2, field::udp_length);
        put(l4 + 6, 2, field::l4_checksum);
    } else if (layers.is_icmp()) {
        put(l4, 2, field::icmp_type);
        put(l4 + 2, 2, field::l4_checksum);
        put(l4 + 4, 4, field::icmp_rest);
    }
    return map;
}

}  // namespace millrace::lab
