// Transport mode (RFC 4303, section 3.1.1): ESP between a packet's own header and what it carries.
#pragma once

#include "millrace/nf/ipsec/esp/outbound.hpp"

namespace millrace::nf::ipsec {

/// Where the protocol of the header at `offset` stands, behind any extension headers that the parser has walked.
MILLRACE_DEVICE uint32_t protocol_field(const uint8_t* frame, const Layers& layers, uint32_t offset) {
    if (!layers.is_ipv6()) return layers.l3_offset + 9;
    uint32_t field = layers.l3_offset + 6, at = layers.l3_offset + ip::kIpv6Bytes;
    while (at < offset) {
        const uint8_t kind = frame[field];
        const uint32_t bytes = kind == ip::kProtocolFragment ? 8
                               : kind == ip::kProtocolAh     ? (frame[at + 1] + 2u) * 4u
                                                             : (frame[at + 1] + 1u) * 8u;
        field = at;
        at += bytes;
    }
    return field;
}

/// Writes what changes in the IP header that stays: what comes behind it, and the length.
MILLRACE_DEVICE void change_header(uint8_t* frame, const Layers& layers, uint32_t field, uint8_t protocol,
                                   uint32_t ip_bytes) {
    uint8_t* header = frame + layers.l3_offset;
    if (layers.is_ipv6()) {
        frame[field] = protocol;
        store_be16(header + 4, static_cast<uint16_t>(ip_bytes - ip::kIpv6Bytes));
        return;
    }
    const uint16_t lifetime = load_be16(header + 8), length = load_be16(header + 2);
    const auto other = static_cast<uint16_t>((lifetime & 0xff00u) | protocol);
    uint16_t sum = checksum_update(load_be16(header + 10), lifetime, other);
    sum = checksum_update(sum, length, static_cast<uint16_t>(ip_bytes));
    store_be16(header + 2, static_cast<uint16_t>(ip_bytes));
    store_be16(header + 8, other);
    store_be16(header + 10, sum);
}

/// Wraps what the packet of `route` carries, in everything but encryption and ICV.
template <class Kind, class Lanes>
MILLRACE_DEVICE_CALL Esp insert_esp(Packet& packet, const Tables& tables, const Route& route, uint64_t sequence,
                                    Lanes lanes) {
    const Sa& sa = tables.sas[route.detail];
    const Layers layers = packet.layers();
    const Esp esp = make_room<Kind>(packet, sa, route, sequence);
    uint8_t* frame = packet.data();
    lanes.once([&] {
        move_bytes_down(frame, frame + route.head, route.at);
        const uint32_t field = protocol_field(frame, layers, route.at);
        const uint8_t next_header = frame[field];
        change_header(frame, layers, field, ip::kProtocolEsp, packet.length() - layers.l3_offset);
        write_esp<Kind>(esp, sa, tables.aes(), route.padding, next_header, sequence);
    });
    packet.parse();
    return esp;
}

/// Takes ESP out of a decrypted packet again and parses what is left.
template <class Kind, class Lanes>
MILLRACE_DEVICE_CALL void remove_esp(Packet& packet, const Esp& esp, uint32_t inner_bytes, Lanes lanes) {
    const Layers layers = packet.layers();
    uint8_t* frame = packet.data();
    const uint32_t headers = layers.l4_offset;
    const auto head = static_cast<uint32_t>(esp.text() - frame) - headers;
    const uint8_t next_header = esp.text()[esp.text_bytes - 1];
    lanes.once([&] {
        change_header(frame, layers, protocol_field(frame, layers, headers), next_header,
                      headers - layers.l3_offset + inner_bytes);
        for (uint32_t i = headers; i-- > 0;) frame[head + i] = frame[i];
    });
    packet.shrink_front(head);
    packet.shrink_back(packet.length() - headers - inner_bytes);
    packet.parse();
}

}  // namespace millrace::nf::ipsec
