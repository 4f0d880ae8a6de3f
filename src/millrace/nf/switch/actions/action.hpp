// What a flow does to a packet, as device code reads it, and the changes of a packet's bytes.
#pragma once

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::flow_switch {

enum class ActionKind : uint32_t {
    set_eth_dst,  ///< to the lower 48 bits of `low`
    set_eth_src,
    push_vlan,    ///< a tag of type `value` like the outermost one, or 0; with `high` only where there is no tag
    pop_vlan,     ///< the outermost tag; without one nothing
    set_vlan_id,  ///< of the outermost tag; without one nothing
    set_vlan_pcp,
    set_ip_src,  ///< of packets of IPv`value`: to `high` and `low`, as classify::HeaderKey has addresses
    set_ip_dst,
    set_tos,  ///< the bits of `high` to those of `value`
    set_ttl,
    dec_ttl,
    set_l4_src,  ///< of TCP or UDP; later fragments have none
    set_l4_dst,
    // From here to `set_tunnel`: Pipeline alone does these (edit_more.hpp).
    set_sctp_src,
    set_sctp_dst,
    set_eth_type,
    set_ip_protocol,
    set_icmp,  ///< of protocol `high` the byte at `value` (type, code) to `low`
    set_arp,   ///< `high` bytes at `value` of the header to `low`
    set_flow_label,
    set_nd_target,  ///< to `high` and `low`
    set_nd_option,  ///< the address in the option of kind `value` to `low`
    set_mpls,       ///< of the outermost label stack entry the bits of `high` to those of `value`
    set_pbb,        ///< the same of the I-TAG
    push_mpls,      ///< of type `value`
    pop_mpls,       ///< what is behind it is of type `value`
    push_pbb,
    pop_pbb,  ///< with tags before it
    dec_mpls_ttl,
    copy_ttl_out,
    copy_ttl_in,
    set_tunnel,  ///< to `low`
    group,       ///< the rest is done by a bucket of group `value`, chosen by the flow's hash; the last action
    output,      ///< by port `value`, unless the packet came in there
    output_set,  ///< by the ports with a bit in `value` save where it came in; there too if `high` is not 0; `low`: how
                 ///< it was written
    controller,
    // What instructions are but actions; Pipeline alone does these, too.
    meter,     ///< `value`
    clear,     ///< the action set
    write,     ///< puts the action that follows into the action set, in place `value`
    metadata,  ///< the bits of `high` to those of `low`
    go_to,     ///< table `value`; the last one
};
/// Whether what an action does changes bytes of the packet.
MILLRACE_DEVICE constexpr bool changes_bytes(ActionKind kind) { return kind < ActionKind::set_tunnel; }
/// Whether Switch itself knows the action.
MILLRACE_DEVICE constexpr bool is_plain(ActionKind kind) {
    return kind < ActionKind::set_sctp_src || (kind >= ActionKind::group && kind <= ActionKind::controller);
}

struct Action {
    ActionKind kind = ActionKind::output;
    uint32_t value = 0;
    uint64_t high = 0, low = 0;

    friend bool operator==(const Action&, const Action&) = default;
};

/// The changes of bytes; each is called by one lane. Checksums follow (RFC 1624).
struct Edit {
    MILLRACE_DEVICE static void set_mac(uint8_t* at, uint64_t mac) {
        store_be16(at, static_cast<uint16_t>(mac >> 32));
        store_be32(at + 2, static_cast<uint32_t>(mac));
    }

    /// A word of an IP header that IPv4's checksum covers, and that of L4 where it is part of the pseudo header.
    MILLRACE_DEVICE static void set_ip_word(Packet& packet, uint32_t offset, uint16_t to, bool in_pseudo_header) {
        uint8_t* header = packet.l3();
        const uint16_t from = load_be16(header + offset);
        store_be16(header + offset, to);
        if (packet.layers().is_ipv4()) store_be16(header + 10, checksum_update(load_be16(header + 10), from, to));
        if (in_pseudo_header) update_l4(packet, from, to, packet.layers().is_ipv6());
    }

    MILLRACE_DEVICE static void set_address(Packet& packet, const Action& action, bool src) {
        if (packet.layers().is_ipv4() && action.value == 4) {
            const uint32_t at = src ? 12 : 16;
            set_ip_word(packet, at, static_cast<uint16_t>(action.high >> 48), true);
            set_ip_word(packet, at + 2, static_cast<uint16_t>(action.high >> 32), true);
        } else if (packet.layers().is_ipv6() && action.value == 6) {
            for (uint32_t i = 0; i < 8; ++i) {
                const uint64_t half = i < 4 ? action.high : action.low;
                set_ip_word(packet, (src ? 8 : 24) + 2 * i, static_cast<uint16_t>(half >> (48 - 16 * (i % 4))), true);
            }
        }
    }

    MILLRACE_DEVICE static void set_tos(Packet& packet, uint8_t tos, uint8_t mask) {
        if (!packet.layers().is_ip()) return;
        uint8_t* header = packet.l3();
        const uint16_t word = load_be16(header);
        // IPv4: the second byte; IPv6: the four bits behind the version, and four more (RFC 8200 section 3).
        const unsigned shift = packet.layers().is_ipv4() ? 0 : 4;
        set_ip_word(packet, 0, static_cast<uint16_t>((word & ~(mask << shift)) | ((tos & mask) << shift)), false);
    }

    MILLRACE_DEVICE static void set_ttl(Packet& packet, uint8_t ttl) {
        if (packet.layers().is_ipv4()) set_ip_word(packet, 8, static_cast<uint16_t>(ttl << 8 | packet.l3()[9]), false);
        if (packet.layers().is_ipv6()) packet.l3()[7] = ttl;
    }

    MILLRACE_DEVICE static void set_port(Packet& packet, uint32_t offset, uint16_t to) {
        if (!packet.layers().has_ports()) return;
        const uint16_t from = load_be16(packet.l4() + offset);
        store_be16(packet.l4() + offset, to);
        update_l4(packet, from, to, false);
    }

    MILLRACE_DEVICE static void set_tag(Packet& packet, uint16_t mask, uint16_t to) {
        if (packet.layers().vlan_count == 0) return;
        uint8_t* tag = packet.data() + eth::kHeaderBytes;
        store_be16(tag, static_cast<uint16_t>((load_be16(tag) & ~mask) | (to & mask)));
    }

    /// Fills the four bytes that `grow_front` made room for.
    MILLRACE_DEVICE static void fill_tag(Packet& packet, uint16_t type, bool tagged) {
        uint8_t* frame = packet.data();
        move_bytes_down(frame, frame + eth::kVlanBytes, 12);
        const uint16_t tag = tagged ? load_be16(frame + 18) : uint16_t{0};
        store_be16(frame + 12, type);
        store_be16(frame + 14, tag);
    }
    /// Moves the addresses over the tag, from the last byte to the first: the two places overlap.
    MILLRACE_DEVICE static void close_tag(Packet& packet) {
        uint8_t* frame = packet.data();
        for (uint32_t i = 12; i-- > 0;) frame[i + eth::kVlanBytes] = frame[i];
    }

    /// The checksum of TCP, UDP or (`with_icmp`) ICMPv6 after a word that it covers has changed.
    MILLRACE_DEVICE static void update_l4(Packet& packet, uint16_t from, uint16_t to, bool with_icmp) {
        const Layers& layers = packet.layers();
        uint32_t offset = 0;
        if (layers.is_tcp()) offset = 16;
        else if (layers.is_udp()) offset = 6;
        else if (with_icmp && layers.is_icmp()) offset = 2;
        if (offset == 0) return;
        uint8_t* at = packet.l4() + offset;
        const uint16_t before = load_be16(at);
        if (layers.is_udp() && before == 0) return;  // RFC 768: the sender has not computed one
        uint16_t after = checksum_update(before, from, to);
        if (layers.is_udp() && after == 0) after = 0xffff;
        store_be16(at, after);
    }
};

}  // namespace millrace::nf::flow_switch
