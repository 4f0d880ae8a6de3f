// Whether a packet's headers are those that a rule asks for.
#pragma once

#include "millrace/nf/nids/payload_buffers.hpp"

namespace millrace::nf::nids {

/// The tables that headers are checked against; a part of Nids::Tables.
struct HeaderTables {
    View<RuleHeader> headers;
    View<AddressSet> address_sets;
    View<Range4> ranges4;
    View<Range6> ranges6;
    View<PortSet> port_sets;
    View<PortRange> port_ranges;
    View<uint16_t> port_classes;  ///< by port, see PortClasses
    View<uint32_t> class_bits;    ///< by class, `class_words` each: of each header its port_bits
    uint32_t class_words = 0;
    uint32_t classed_headers = 0;  ///< headers that have bits
};

/// The classes of a packet's ports.
struct PortPair {
    uint16_t src = 0, dst = 0;
};

namespace detail {

/// An IPv6 address as two numbers.
struct Address6 {
    uint64_t part[2];
};
MILLRACE_DEVICE bool operator<(const Address6& a, const Address6& b) {
    return a.part[0] != b.part[0] ? a.part[0] < b.part[0] : a.part[1] < b.part[1];
}
/// The ranges of an IPv6 set in the shape that first_range_reaching takes.
struct Ranges6 {
    struct Bounds {
        Address6 high;
    };
    const View<Range6>& ranges;
    MILLRACE_DEVICE Bounds operator[](uint32_t i) const { return {{{ranges[i].high[0], ranges[i].high[1]}}}; }
};

/// `address`: where the packet holds it. A call, as four of them in a row take more of a GPU's instruction cache than
/// all else that is asked of a rule.
MILLRACE_DEVICE_CALL bool is_in_set(const HeaderTables& tables, uint32_t set, const uint8_t* address, bool ipv6) {
    const AddressSet& addresses = tables.address_sets[set];
    if (!ipv6) {
        const uint32_t value = load_be32(address);
        const uint32_t i = first_range_reaching(tables.ranges4, addresses.first4, addresses.count4, value);
        return i < addresses.count4 && tables.ranges4[addresses.first4 + i].low <= value;
    }
    const Address6 value{{load_be64(address), load_be64(address + 8)}};
    const uint32_t i = first_range_reaching(Ranges6{tables.ranges6}, addresses.first6, addresses.count6, value);
    if (i == addresses.count6) return false;
    const Range6& range = tables.ranges6[addresses.first6 + i];
    return !(value < Address6{{range.low[0], range.low[1]}});
}

MILLRACE_DEVICE bool has_address(const HeaderTables& tables, uint32_t set, const uint8_t* address, bool ipv6) {
    return set == 0 || is_in_set(tables, set, address, ipv6);
}

MILLRACE_DEVICE_CALL bool is_in_ranges(const HeaderTables& tables, uint32_t set, uint32_t port) {
    const PortSet& ports = tables.port_sets[set];
    const uint32_t i = first_range_reaching(tables.port_ranges, ports.first, ports.count, port);
    return i < ports.count && tables.port_ranges[ports.first + i].low <= port;
}
MILLRACE_DEVICE bool has_port(const HeaderTables& tables, uint32_t set, uint32_t port) {
    return set == 0 || is_in_ranges(tables, set, port);
}

/// The port_bits of a header for a port of that class.
MILLRACE_DEVICE uint32_t bits_of(const HeaderTables& tables, uint32_t header, uint16_t port_class) {
    const uint32_t row = port_class * tables.class_words;
    return tables.class_bits[row + header / port_bits::kInWord] >> header % port_bits::kInWord * port_bits::kBits &
           port_bits::kAll;
}
/// The same for a header that has none.
MILLRACE_DEVICE_CALL uint32_t bits_by_ranges(const HeaderTables& tables, const RuleHeader& header, uint32_t port) {
    return (has_port(tables, header.src_ports, port) ? port_bits::kSrc : 0) |
           (has_port(tables, header.dst_ports, port) ? port_bits::kDst : 0) |
           (has_port(tables, header.application_ports, port) ? port_bits::kApplication : 0);
}
/// Whether ports with these bits are those that a header asks for, or `turned` the other way round.
MILLRACE_DEVICE bool are_ports(uint32_t src, uint32_t dst, bool turned) {
    const uint32_t from = turned ? dst : src, to = turned ? src : dst;
    return (from & port_bits::kSrc) != 0 && (to & port_bits::kDst) != 0 && ((src | dst) & port_bits::kApplication) != 0;
}

MILLRACE_DEVICE bool has_addresses(const RuleHeader& header, const HeaderTables& tables, const Packet& packet,
                                   bool turned) {
    if (header.src == 0 && header.dst == 0) return true;
    const bool ipv6 = packet.layers().is_ipv6();
    const uint8_t* src = packet.l3() + (ipv6 ? 8 : 12);
    const uint8_t* dst = packet.l3() + (ipv6 ? 24 : 16);
    return has_address(tables, header.src, turned ? dst : src, ipv6) &&
           has_address(tables, header.dst, turned ? src : dst, ipv6);
}

MILLRACE_DEVICE uint16_t protocol_of(const Layers& layers) {
    if (layers.is_tcp()) return RuleHeader::kTcp;
    if (layers.is_udp()) return RuleHeader::kUdp;
    return layers.is_icmp() ? RuleHeader::kIcmp : RuleHeader::kOther;
}

/// What one packet tells of its flow; see README.md. Of equal ports neither direction is ruled out.
MILLRACE_DEVICE uint16_t flow_of(const Packet& packet) {
    const uint16_t src = packet.l4_src_port(), dst = packet.l4_dst_port();
    bool to_server = dst <= src, to_client = src <= dst, established = true, not_established = true;
    if (packet.layers().is_tcp()) {
        const uint8_t flags = packet.tcp_flags();
        const bool syn = flags & tcp::kSyn, ack = flags & tcp::kAck;
        established = !syn && ack;
        not_established = !established;
        if (syn) {
            to_server = !ack;
            to_client = ack;
        }
    }
    return static_cast<uint16_t>((to_server ? RuleHeader::kToServer : 0) | (to_client ? RuleHeader::kToClient : 0) |
                                 (established ? RuleHeader::kEstablished : 0) |
                                 (not_established ? RuleHeader::kNotEstablished : 0));
}

}  // namespace detail

/// What a packet has of the flags of headers: its protocol's, and every condition that it meets. Never 0. `flow`: what
/// is known of its flow; 0: what it tells of it by itself.
template <class Lanes, bool kOfMessages>
MILLRACE_DEVICE_CALL uint16_t header_flags(const Packet& packet, PayloadBuffers<Lanes, kOfMessages>& buffers,
                                           uint16_t flow = 0) {
    const Layers& layers = packet.layers();
    uint16_t flags = detail::protocol_of(layers) | (flow != 0 ? flow : detail::flow_of(packet));
    flags |= layers.is_ipv4() ? RuleHeader::kIpv4Only : RuleHeader::kIpv6Only;
    flags |= layers.is_fragment() ? RuleHeader::kOnlyFragments : RuleHeader::kNoFragments;
    if (buffers.http_kind() != HttpHead::Kind::none) flags |= RuleHeader::kHttp;
    if (buffers.is_tls()) flags |= RuleHeader::kTls;
    return flags;
}

/// Whether a packet that has these flags is one for headers with the flags `wanted`, but for addresses and ports.
MILLRACE_DEVICE bool has_flags(uint16_t wanted, uint16_t has) {
    return (wanted & has & RuleHeader::kAnyProtocol) != 0 && (wanted & RuleHeader::kConditions & ~has) == 0;
}

MILLRACE_DEVICE PortPair ports_of(const HeaderTables& tables, const Packet& packet) {
    return {tables.port_classes[packet.l4_src_port()], tables.port_classes[packet.l4_dst_port()]};
}

/// False where flags or ports tell that the packet is not one for what a list names. `has`: its flags. No branches, as
/// most are refused, and no look at the packet.
MILLRACE_DEVICE bool may_be_for(const Listed& listed, const HeaderTables& tables, uint16_t has, PortPair ports) {
    const bool classed = listed.header < tables.classed_headers;
    const uint32_t header = classed ? listed.header : 0;
    const uint32_t src = detail::bits_of(tables, header, ports.src), dst = detail::bits_of(tables, header, ports.dst);
    const uint32_t both_ways = (listed.flags & RuleHeader::kBothWays) != 0;
    const uint32_t straight = detail::are_ports(src, dst, false), turned = detail::are_ports(src, dst, true);
    return has_flags(listed.flags, has) && ((straight | (turned & both_ways)) || !classed);
}

/// Whether that leaves nothing of the header to be asked.
MILLRACE_DEVICE bool tells_all(const Listed& listed, const HeaderTables& tables) {
    return (listed.flags & RuleHeader::kEndpoints) == 0 && listed.header < tables.classed_headers;
}

/// Whether its addresses and ports are those that the header `number` asks for.
MILLRACE_DEVICE_CALL bool has_endpoints(uint32_t number, const HeaderTables& tables, const Packet& packet,
                                        PortPair ports) {
    const RuleHeader& header = tables.headers[number];
    const bool classed = number < tables.classed_headers;
    const uint32_t src = classed ? detail::bits_of(tables, number, ports.src)
                                 : detail::bits_by_ranges(tables, header, packet.l4_src_port());
    const uint32_t dst = classed ? detail::bits_of(tables, number, ports.dst)
                                 : detail::bits_by_ranges(tables, header, packet.l4_dst_port());
    for (uint32_t turned = 0; turned < ((header.flags & RuleHeader::kBothWays) ? 2 : 1); ++turned)
        if (detail::are_ports(src, dst, turned) && detail::has_addresses(header, tables, packet, turned)) return true;
    return false;
}

/// Reads a field; false where the packet has none.
MILLRACE_DEVICE bool read_field(const Packet& packet, Field field, uint32_t& value) {
    const Layers& layers = packet.layers();
    const uint8_t* l3 = packet.l3();
    const uint8_t* l4 = packet.l4();
    const bool ipv4 = layers.is_ipv4();
    switch (field) {
        case Field::payload_bytes: value = packet.payload_bytes(); return true;
        case Field::ip_ttl: value = packet.ip_ttl(); return true;
        case Field::ip_tos: value = ipv4 ? l3[1] : (load_be16(l3) >> 4) & 0xffu; return true;
        case Field::ip_id: value = ipv4 ? load_be16(l3 + 4) : 0u; return ipv4;
        case Field::ip_protocol: value = layers.protocol; return true;
        case Field::ip_fragment_offset: value = ipv4 ? load_be16(l3 + 6) & 0x1fffu : 0u; return ipv4;
        case Field::ip_fragment_bits: value = ipv4 ? static_cast<uint32_t>(l3[6] >> 5) : 0u; return ipv4;
        default: break;
    }
    if (field >= Field::tcp_seq && field <= Field::tcp_flags) {
        if (!layers.is_tcp()) return false;
        switch (field) {
            case Field::tcp_seq: value = load_be32(l4 + 4); break;
            case Field::tcp_ack: value = load_be32(l4 + 8); break;
            case Field::tcp_window: value = load_be16(l4 + 14); break;
            default: value = packet.tcp_flags(); break;
        }
        return true;
    }
    if (!layers.is_icmp()) return false;
    switch (field) {
        case Field::icmp_type: value = l4[0]; return true;
        case Field::icmp_code: value = l4[1]; return true;
        default: break;
    }
    // Only echoes, timestamps, information and address mask messages have an identifier (RFC 792, RFC 950, RFC 4443).
    const uint8_t type = l4[0];
    const bool has_id = ipv4 ? type == 0 || type == 8 || (type >= 13 && type <= 18) : type == 128 || type == 129;
    if (!has_id) return false;
    value = load_be16(l4 + (field == Field::icmp_id ? 4 : 6));
    return true;
}

}  // namespace millrace::nf::nids
