// NAT64: endpoints inside, which have IPv6, share the ports of external IPv4 addresses (RFC 6146, RFC 7915). How ports
// are found and kept is NAT44's way (nf/mappings).
#pragma once

#include "millrace/nf/nat64/errors.hpp"
#include "millrace/packet/icmp_error.hpp"

namespace millrace::nf::nat64 {

struct Nat64 {
    /// Behind the outcomes of mappings::Outcome.
    enum Outcome : uint32_t { kTooBig = mappings::kOutcomes, kTooBigAnswered, kNoRoom };

    static constexpr Fields reads = field::everything;
    static constexpr Fields writes = field::everything | field::length;
    static constexpr unsigned lanes = 1;

    using Tables = Nat64Tables;
    using GroupKey = mappings::GroupKey;
    using PortGroup = mappings::PortGroup<Ipv6Address>;

    static constexpr auto& parts = mappings::kKeptParts<Ipv6Address>;
    static constexpr uint32_t journal_bytes = mappings::kJournalBytes<Ipv6Address>;

    MILLRACE_DEVICE static Lookup key(const Packet& packet, const Tables& tables, GroupKey& key) {
        Quoted quoted;
        const Plan plan = plan_for(packet, tables, quoted);
        if (plan.lookup != Lookup::none) key = plan.key;
        return plan.lookup;
    }

    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, KeyedEntry<PortGroup> entry) {
        Quoted quoted;
        Plan plan = plan_for(packet, tables, quoted);
        if (!plan.from_inside && !plan.to_external) return {kNoDetail, plan.outcome};
        const Layers& layers = packet.layers();
        if (is_too_big(packet, plan, tables.own.mtu)) return answer_too_big(packet, tables.own.mtu);
        const uint32_t grown = layers.l3_offset + ip_bytes(plan.to_external) +
                               (plan.is_error ? ip_bytes(plan.to_external) + icmp::kHeaderBytes : 0);
        const uint32_t from = plan.is_error ? quoted.l4 : layers.l4_offset;
        if (grown > from + packet.headroom()) return {kNoDetail, kNoRoom};
        const mappings::Outcome outcome = mappings::settle(packet, tables, entry, plan);
        if (outcome > mappings::kHairpin) return {kNoDetail, outcome};
        if (plan.is_error) translate_error(packet, tables.own, plan, quoted);
        else translate(packet, tables.own, plan);
        return {plan.number, outcome};
    }

    static uint64_t resume(const Tables& tables, const GroupKey& key, PortGroup& group, uint64_t now) {
        mappings::resume(tables, key, group, now);
        return tables.state.timeout_ns;
    }

    /// The address by which those inside know a peer.
    MILLRACE_DEVICE static Ipv6Address peer_inside(const Tables& tables, uint32_t peer) {
        return embedded(tables.own, peer);
    }

private:
    using Plan = mappings::Plan<Ipv6Address>;
    MILLRACE_DEVICE static Plan ends_with(mappings::Outcome outcome) {
        return mappings::ends_with<Ipv6Address>(outcome);
    }

    /// What is to become of a packet, as far as that can be known without state. `quoted`: of an error.
    MILLRACE_DEVICE static Plan plan_for(const Packet& packet, const Tables& tables, Quoted& quoted) {
        using namespace mappings;
        const Layers& layers = packet.layers();
        Plan plan;
        if (!layers.is_ip() || layers.malformed != Malformed::no) return plan;
        const uint8_t* const header = packet.l3();
        const bool from_inside = layers.is_ipv6();
        const uint8_t protocol = layers.is_icmp() ? ip::kProtocolIcmp : layers.protocol;
        if (from_inside) {
            plan.inside_from = {load_address(header + 8), 0, protocol};
            plan.to = {0, 0, protocol};
            if (!find_embedded(tables.own, header + 24, plan.to.address)) return plan;
            if (!is_inside(tables.own, plan.inside_from.address)) return plan;
        } else {
            plan.from = {load_raw<uint32_t>(header + 12), 0, protocol};
            plan.to = {load_raw<uint32_t>(header + 16), 0, protocol};
        }
        const bool to_external = external_kind(tables, plan.to.address) != External::kFree;
        if (!from_inside && !to_external) return plan;
        plan.outcome = !from_inside ? kInbound : to_external ? kHairpin : kOutbound;
        if (layers.is_fragment()) return ends_with(kFragment);
        if (!is_translatable(packet, tables.own, plan.to.address)) return ends_with(kUntranslatable);
        if (layers.is_icmp()) {
            const uint8_t type = packet.l4()[0];
            if (icmp::is_error(type, from_inside)) {
                if (!plan_for_error(packet, tables.own, from_inside, plan, quoted)) return ends_with(kUntranslatable);
            } else {
                const bool is_request = type == (from_inside ? kEchoRequest6 : kEchoRequest);
                const bool is_reply = type == (from_inside ? kEchoReply6 : kEchoReply);
                // Who is outside asks nobody inside, and an external address is not there to answer.
                if (to_external && !is_reply) return ends_with(kNoMapping);
                if (!to_external && !is_request) return ends_with(kUntranslatable);
                plan.inside_from.port = plan.from.port = plan.to.port = load_be16(packet.l4() + 4);
            }
        } else {
            plan.inside_from.port = plan.from.port = packet.l4_src_port();
            plan.to.port = packet.l4_dst_port();
        }
        plan.from_inside = from_inside;
        plan.to_external = to_external;
        return with_key(tables, plan);
    }

    /// Whether a packet that must not be fragmented finds no way inside, as it is longer there. Others may have come in
    /// fragments, and are cut again where they leave.
    MILLRACE_DEVICE static bool is_too_big(const Packet& packet, const Plan& plan, uint32_t mtu) {
        const Layers& layers = packet.layers();
        if (plan.is_error || !layers.is_ipv4() || (packet.l3()[6] & 0x40) == 0) return false;
        return ip::kIpv6Bytes + layers.end - layers.l4_offset > mtu;
    }

    /// The error comes from the external address that the packet was for: nobody else is here for its sender.
    MILLRACE_DEVICE static Decision answer_too_big(Packet& packet, uint32_t mtu) {
        const uint32_t fits = mtu - (ip::kIpv6Bytes - ip::kIpv4Bytes);
        const bool told = icmp::may_tell_too_big(packet) &&
                          icmp::tell(packet, packet.l3() + 16, icmp::too_big(false, fits), Lanes<1>());
        return {kNoDetail, told ? kTooBigAnswered : kTooBig};
    }

    /// Whether a packet is of what the other family has, and between single addresses.
    MILLRACE_DEVICE static bool is_translatable(const Packet& packet, const OwnTables& tables, uint32_t to) {
        const Layers& layers = packet.layers();
        if (!layers.has_ports() && !layers.is_icmp()) return false;
        // ICMP of the other family has no meaning (RFC 7915, sections 4.2 and 5.2).
        if (layers.is_icmp() && (layers.protocol == ip::kProtocolIcmpv6) != layers.is_ipv6()) return false;
        if (!is_way_over(packet) || layers.end - layers.l4_offset > kMaxCarried) return false;
        if (layers.is_ipv4()) return true;
        const uint32_t first = swap32(to) >> 24;
        if (first == 0 || first == 127 || first >= 224) return false;
        const uint8_t* const source = packet.l3() + 8;
        uint32_t embedded_source = 0;  // from outside, by IPv6 (RFC 6146, section 3.5)
        const bool is_unicast = source[0] != 0xff && !(source[0] == 0xfe && (source[1] & 0xc0) == 0x80);
        return is_unicast && !find_embedded(tables, source, embedded_source);
    }

    /// The ends of what an ICMP error quotes, exchanged: it goes the other way. False: nobody can be found by it.
    MILLRACE_DEVICE static bool plan_for_error(const Packet& packet, const OwnTables& tables, bool from_inside,
                                               Plan& plan, Quoted& quoted) {
        plan.is_error = true;
        ErrorFields error;
        if (!is_error_intact(packet) || !read_quoted(packet, quoted)) return false;
        if (!find_error(packet, from_inside, quoted, error)) return false;
        const uint8_t* const header = packet.data() + quoted.at;
        // To whom it is told has sent what it quotes.
        uint32_t sender = 0;
        if (!from_inside) sender = load_raw<uint32_t>(header + 12);
        else if (!find_embedded(tables, header + 8, sender)) return false;
        if (sender != plan.to.address) return false;
        plan.to = {sender, quoted.source_port, quoted.protocol};
        if (from_inside) plan.inside_from = {load_address(header + 24), quoted.destination_port, quoted.protocol};
        else plan.from = {load_raw<uint32_t>(header + 16), quoted.destination_port, quoted.protocol};
        return !from_inside || is_inside(tables, plan.inside_from.address);
    }
    MILLRACE_DEVICE static bool find_error(const Packet& packet, bool from_inside, const Quoted& quoted,
                                           ErrorFields& error) {
        return from_inside ? error_in_ipv4(packet.l4(), error)
                           : error_in_ipv6(packet.l4(), quoted.carried + quoted.l4 - quoted.at, error);
    }

    MILLRACE_DEVICE static void put_l2(const Packet& packet, bool ipv6, Head& head) {
        head.size = packet.layers().l3_offset;
        copy_bytes(head.bytes, packet.data(), head.size);
        store_be16(head.bytes + head.size - 2, ipv6 ? eth::kTypeIpv6 : eth::kTypeIpv4);
    }
    /// Of the packet, or the quoted one, at `header`.
    MILLRACE_DEVICE static IpFields fields_of(const Packet& packet, const uint8_t* header, uint8_t protocol,
                                              bool ipv6) {
        IpFields fields{};
        const bool was_ipv6 = packet.layers().is_ipv6();
        fields.traffic_class = static_cast<uint8_t>(was_ipv6 ? load_be16(header) >> 4 : header[1]);
        fields.ttl = header[was_ipv6 ? 7 : 8];
        fields.protocol = protocol;
        // No two that may meet for a while are alike (RFC 6864): flows differ, and packets of one by their time.
        fields.identification = static_cast<uint16_t>(flow_hash(packet) + (packet.time_ns() >> 10));
        fields.ipv6 = ipv6;
        return fields;
    }

    MILLRACE_DEVICE static void translate(Packet& packet, const OwnTables& tables, const Plan& plan) {
        const Layers layers = packet.layers();
        const bool ipv6 = plan.to_external;
        const uint32_t carried = layers.end - layers.l4_offset;
        const uint8_t protocol = plan.to.protocol;
        Head head;
        put_l2(packet, ipv6, head);
        IpFields fields = fields_of(packet, packet.l3(), protocol, ipv6);
        fields.source = plan.from.address;
        fields.destination = plan.to.address;
        if (ipv6) {
            fields.ipv6_source = embedded(tables, plan.from.address);
            fields.ipv6_destination = plan.inside_to.address;
        }
        put_ip(head, fields, carried, tables.mtu);
        uint8_t* const l4 = packet.l4();
        const uint8_t* const header = head.bytes + layers.l3_offset;
        const uint32_t gained = gain(pseudo_sum(packet.l3(), layers.is_ipv6(), protocol, carried),
                                     pseudo_sum(header, ipv6, protocol, carried));
        replace_ports(l4, carried, protocol, ipv6, plan.from.port, ipv6 ? plan.inside_to.port : plan.to.port, gained);
        if (ipv6 && layers.is_ipv4() && protocol == ip::kProtocolUdp && load_be16(l4 + 6) == 0)
            give_udp_checksum(l4, header);
        put_head(packet, head, layers.l4_offset, carried);
    }

    MILLRACE_DEVICE static void translate_error(Packet& packet, const OwnTables& tables, const Plan& plan,
                                                const Quoted& quoted) {
        constexpr uint32_t kMaxErrorBytes = 1280;  // of an IPv6 packet (RFC 4443, section 2.4)
        const Layers layers = packet.layers();
        const bool was_ipv6 = layers.is_ipv6(), ipv6 = plan.to_external;
        uint8_t* const l4 = packet.data() + quoted.l4;
        uint32_t left = quoted.end - quoted.l4;  // of what is quoted, behind its IP header
        const uint32_t before = 2 * ip_bytes(ipv6) + icmp::kHeaderBytes;
        if (ipv6) left = smaller(left, kMaxErrorBytes - before);
        Head head;
        put_l2(packet, ipv6, head);
        const uint32_t outer_at = head.size, icmp_at = outer_at + ip_bytes(ipv6);

        IpFields outer = fields_of(packet, packet.l3(), ip::kProtocolIcmp, ipv6);
        IpFields inner = fields_of(packet, packet.data() + quoted.at, quoted.protocol, ipv6);
        // A router inside has no address outside: it speaks for whom it is about (RFC 6146, section 3.4).
        outer.source = was_ipv6 ? plan.from.address : load_raw<uint32_t>(packet.l3() + 12);
        outer.destination = inner.source = plan.to.address;
        inner.destination = plan.from.address;
        if (ipv6) {
            outer.ipv6_source = embedded(tables, outer.source);
            outer.ipv6_destination = inner.ipv6_source = plan.inside_to.address;
            inner.ipv6_destination = embedded(tables, plan.from.address);
        }
        put_ip(head, outer, ip_bytes(ipv6) + icmp::kHeaderBytes + left, tables.mtu);
        ErrorFields error{packet.l4()[0], packet.l4()[1], load_be32(packet.l4() + 4)};
        if (was_ipv6 != ipv6) find_error(packet, was_ipv6, quoted, error);
        store_be32(head.bytes + icmp_at, uint32_t{error.type} << 24 | uint32_t{error.code} << 16);
        store_be32(head.bytes + icmp_at + 4, error.rest);
        head.size += icmp::kHeaderBytes;
        const uint32_t inner_at = head.size;
        put_ip(head, inner, quoted.carried, tables.mtu);

        const uint32_t gained = gain(pseudo_sum(packet.data() + quoted.at, was_ipv6, quoted.protocol, quoted.carried),
                                     pseudo_sum(head.bytes + inner_at, ipv6, quoted.protocol, quoted.carried));
        replace_ports(l4, left, quoted.protocol, ipv6, ipv6 ? plan.inside_to.port : plan.to.port, plan.from.port,
                      gained);
        uint32_t sum = pseudo_sum(head.bytes + outer_at, ipv6, ip::kProtocolIcmp, head.size - icmp_at + left);
        sum = checksum_add(sum, head.bytes + icmp_at, head.size - icmp_at);
        store_be16(head.bytes + icmp_at + 2, checksum_finish(checksum_add(sum, l4, left)));
        put_head(packet, head, quoted.l4, left);
    }
};

}  // namespace millrace::nf::nat64
