// The changes of bytes that only flows of OpenFlow 1.3 ask for: MPLS, PBB, ARP, ICMP, neighbour discovery, SCTP.
#pragma once

#include "millrace/nf/classify/wide_fields.hpp"
#include "millrace/nf/switch/actions/action.hpp"

namespace millrace::nf::flow_switch {

/// Each is called by one lane. Packets that lack what is to be changed stay as they are.
struct EditMore {
    MILLRACE_DEVICE static bool has_shim(const Packet& packet) {
        return eth::is_mpls(packet.layers().ether_type) &&
               packet.present() >= packet.layers().l3_offset + eth::kMplsBytes;
    }
    MILLRACE_DEVICE static bool has_itag(const Packet& packet) {
        return packet.layers().ether_type == eth::kTypePbb && packet.present() >= packet.layers().l3_offset + 4u;
    }
    MILLRACE_DEVICE static uint8_t mpls_ttl(const Packet& packet) { return packet.l3()[3]; }

    MILLRACE_DEVICE static void set_bits(uint8_t* at, uint32_t mask, uint32_t to) {
        store_be32(at, (load_be32(at) & ~mask) | (to & mask));
    }
    MILLRACE_DEVICE static void set_arp(Packet& packet, const Action& action) {
        const Layers& layers = packet.layers();
        if (layers.ether_type != eth::kTypeArp || packet.present() < layers.l3_offset + 28u) return;
        for (uint32_t i = 0; i < action.high; ++i)
            packet.l3()[action.value + i] = static_cast<uint8_t>(action.low >> (8 * (action.high - 1 - i)));
    }
    /// A byte of ICMP's header, of which the checksum is the second word.
    MILLRACE_DEVICE static void set_icmp(Packet& packet, const Action& action) {
        const Layers& layers = packet.layers();
        if (!layers.is_icmp() || layers.protocol != action.high) return;
        uint8_t* const l4 = packet.l4();
        const uint16_t from = load_be16(l4);
        l4[action.value] = static_cast<uint8_t>(action.low);
        store_be16(l4 + 2, checksum_update(load_be16(l4 + 2), from, load_be16(l4)));
    }
    MILLRACE_DEVICE static void set_nd_target(Packet& packet, const Action& action) {
        if (!classify::has_nd_target(packet)) return;
        for (uint32_t i = 0; i < 8; ++i) {
            const uint64_t half = i < 4 ? action.high : action.low;
            set_l4_word(packet, packet.layers().l4_offset + classify::nd::kTargetAt + 2 * i,
                        static_cast<uint16_t>(half >> (48 - 16 * (i % 4))));
        }
    }
    MILLRACE_DEVICE static void set_nd_option(Packet& packet, const Action& action) {
        if (!classify::has_nd_target(packet)) return;
        const uint32_t at = classify::nd_option(packet, static_cast<uint8_t>(action.value));
        for (uint32_t i = 0; at != 0 && i < 3; ++i)
            set_l4_word(packet, at + 2 * i, static_cast<uint16_t>(action.low >> (32 - 16 * i)));
    }
    MILLRACE_DEVICE static void set_flow_label(Packet& packet, uint32_t label) {
        if (packet.layers().is_ipv6()) set_bits(packet.l3(), 0xfffffu, label);
    }
    /// The type behind all tags.
    MILLRACE_DEVICE static void set_type(Packet& packet, uint16_t type) { store_be16(packet.l3() - 2, type); }
    /// What follows the IP headers; of IPv6 the last of the extension headers says it.
    MILLRACE_DEVICE static void set_ip_protocol(Packet& packet, uint8_t to) {
        const Layers& layers = packet.layers();
        uint8_t from = 0;
        if (layers.is_ipv4()) {
            from = packet.l3()[9];
            Edit::set_ip_word(packet, 8, static_cast<uint16_t>(packet.ip_ttl() << 8 | to), false);
        } else if (layers.is_ipv6()) {
            uint8_t* const at = last_next_header(packet);
            from = *at;
            *at = to;
        } else {
            return;
        }
        Edit::update_l4(packet, from, to, true);
    }

    MILLRACE_DEVICE static void set_sctp_port(Packet& packet, uint32_t offset, uint16_t to) {
        const Layers& layers = packet.layers();
        if (layers.protocol != ip::kProtocolSctp || layers.l4_offset == 0) return;
        const uint32_t end = classify::datagram_end(packet);
        if (layers.l4_offset + 12u > end) return;
        uint8_t* const l4 = packet.l4();
        const uint16_t from = load_be16(l4 + offset);
        store_be16(l4 + offset, to);
        if (packet.present() < layers.end) return;
        // RFC 9260, appendix A: CRC32c. It is linear: what it changes by is that of the bits that changed, with zeros
        // before and behind them.
        uint32_t crc = 0;
        const uint16_t changed = static_cast<uint16_t>(from ^ to);
        for (uint32_t i = offset; i < end - layers.l4_offset; ++i) {
            if (i == offset) crc ^= static_cast<uint32_t>(changed >> 8);
            if (i == offset + 1) crc ^= static_cast<uint32_t>(changed & 0xffu);
            for (unsigned bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
        }
        for (unsigned i = 0; i < 4; ++i) l4[8 + i] = static_cast<uint8_t>(l4[8 + i] ^ crc >> (8 * i));
    }

    /// Fills what `grow_front` made room for: a label stack entry behind the tags.
    MILLRACE_DEVICE static void fill_mpls(Packet& packet, uint16_t type, uint32_t l3_offset, uint32_t entry) {
        uint8_t* const frame = packet.data();
        move_bytes_down(frame, frame + eth::kMplsBytes, l3_offset);
        store_be16(frame + l3_offset - 2, type);
        store_be32(frame + l3_offset, entry);
    }
    /// The entry to push: the outermost one's fields, or the TTL of IP.
    MILLRACE_DEVICE static uint32_t new_entry(const Packet& packet) {
        if (has_shim(packet)) return load_be32(packet.l3()) & ~0x100u;
        return 0x100u | (packet.layers().is_ip() ? packet.ip_ttl() : 0u);
    }
    /// Moves what is before the label stack over its first entry.
    MILLRACE_DEVICE static void close_mpls(Packet& packet, uint16_t type) {
        uint8_t* const frame = packet.data();
        const uint32_t at = packet.layers().l3_offset;
        for (uint32_t i = at - 2; i-- > 0;) frame[i + eth::kMplsBytes] = frame[i];
        store_be16(frame + at - 2 + eth::kMplsBytes, type);
    }
    /// Fills a backbone header before the frame, of the frame's own addresses.
    MILLRACE_DEVICE static void fill_pbb(Packet& packet, uint32_t itag) {
        uint8_t* const frame = packet.data();
        copy_bytes(frame, frame + eth::kPbbBytes, 12);
        store_be16(frame + 12, eth::kTypePbb);
        store_be32(frame + 14, itag);
    }
    /// The I-TAG to push: the outermost one's, or nothing but the priority of the outermost tag.
    MILLRACE_DEVICE static uint32_t new_itag(const Packet& packet) {
        if (has_itag(packet)) return load_be32(packet.l3());
        if (packet.layers().vlan_count == 0) return 0;
        return static_cast<uint32_t>(load_be16(packet.data() + eth::kHeaderBytes) & 0xe000u) << 16;
    }

    /// Where the TTL inside of the outermost label lies: of the next entry, or of IP; 0 where there is none.
    MILLRACE_DEVICE static uint32_t inner_ttl(const Packet& packet) {
        const uint32_t at = packet.layers().l3_offset;
        if ((packet.l3()[2] & 1) == 0) return packet.present() >= at + 8 ? at + 7 : 0;
        const uint32_t ip = at + eth::kMplsBytes;
        if (packet.present() < ip + ip::kIpv4Bytes) return 0;
        const uint8_t version = packet.data()[ip] >> 4;
        return version == 4 ? ip + 8 : version == 6 ? ip + 7 : 0;
    }
    MILLRACE_DEVICE static void copy_ttl_out(Packet& packet) {
        if (!has_shim(packet)) return;
        const uint32_t inner = inner_ttl(packet);
        if (inner != 0) packet.l3()[3] = packet.data()[inner];
    }
    MILLRACE_DEVICE static void copy_ttl_in(Packet& packet) {
        if (!has_shim(packet)) return;
        const uint32_t inner = inner_ttl(packet);
        if (inner == 0) return;
        uint8_t* const at = packet.data() + inner;
        const bool ipv4 = inner == packet.layers().l3_offset + eth::kMplsBytes + 8u;
        const uint16_t from = load_be16(at);
        at[0] = mpls_ttl(packet);
        if (ipv4) store_be16(at + 2, checksum_update(load_be16(at + 2), from, load_be16(at)));
    }

private:
    /// A word that ICMPv6's checksum covers; it may lie at any offset, of an even number of bytes from the header.
    MILLRACE_DEVICE static void set_l4_word(Packet& packet, uint32_t at, uint16_t to) {
        uint8_t* const word = packet.data() + at;
        uint8_t* const sum = packet.l4() + 2;
        store_be16(sum, checksum_update(load_be16(sum), load_be16(word), to));
        store_be16(word, to);
    }
    /// The byte that says what follows all extension headers.
    MILLRACE_DEVICE static uint8_t* last_next_header(Packet& packet) {
        uint8_t* at = packet.l3() + 6;
        uint32_t header = packet.layers().l3_offset + ip::kIpv6Bytes;
        for (uint32_t i = 0; i <= kMaxIpv6Extensions && header + 8 <= packet.layers().payload_offset; ++i) {
            const uint8_t* const bytes = packet.data() + header;
            const uint8_t kind = *at;
            const bool extension = kind == ip::kProtocolHopByHop || kind == ip::kProtocolRouting ||
                                   kind == ip::kProtocolDestination || kind == ip::kProtocolFragment ||
                                   kind == ip::kProtocolMobility || kind == ip::kProtocolAh;
            if (!extension) break;
            at = packet.data() + header;
            header += kind == ip::kProtocolAh         ? (bytes[1] + 2u) * 4u
                      : kind == ip::kProtocolFragment ? 8u
                                                      : (bytes[1] + 1u) * 8u;
        }
        return at;
    }
};

}  // namespace millrace::nf::flow_switch
