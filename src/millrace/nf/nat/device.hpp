// NAT44: endpoints inside share the ports of external addresses, and some ports are forwarded to endpoints inside
// (RFC 4787, RFC 5382, RFC 5508).
//
// State per key gives a packet one key, and a mapping must be found from both sides. So the key is a group of external
// ports, and where an inside endpoint has its port is no free choice: a hash of the endpoint alone names the group.
// From outside the group is that of the destination's port. Both directions meet there, in order of arrival and one
// packet at a time, on every device, without a table for each direction that could disagree; and that a mapping does
// not depend on whom an endpoint talks to falls out. The price: a group may be full while others are not (README.md
// says at what load).
//
// A packet between two inside endpoints by their external addresses (hairpin) would need two groups. It gets the
// destination's. Its source is given a port there, too, as a guest whom nobody outside can reach.
#pragma once

#include "millrace/nf/nat/translate.hpp"

namespace millrace::nf::nat {

struct Nat {
    static constexpr Fields reads = field::headers | field::payload;
    static constexpr Fields writes = field::ip_src | field::ip_dst | field::ip_checksum | field::l4_ports |
                                     field::l4_checksum | field::icmp_rest | field::payload;
    static constexpr unsigned lanes = 1;

    using Tables = NatTables;
    using GroupKey = mappings::GroupKey;
    using PortGroup = mappings::PortGroup<uint32_t>;

    static constexpr auto& parts = mappings::kKeptParts<uint32_t>;
    static constexpr uint32_t journal_bytes = mappings::kJournalBytes<uint32_t>;

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
        const mappings::Outcome outcome = mappings::settle(packet, tables, entry, plan);
        if (outcome > mappings::kHairpin) return {kNoDetail, outcome};
        // An error went the other way than what it quotes.
        if (plan.is_error) {
            if (plan.to_external) replace_quoted(packet, quoted, false, plan.inside_to);
            if (plan.from_inside) replace_quoted(packet, quoted, true, plan.from);
        } else {
            if (plan.from_inside) replace(packet, false, plan.from);
            if (plan.to_external) replace(packet, true, plan.inside_to);
        }
        return {plan.number, outcome};
    }

    static uint64_t resume(const Tables& tables, const GroupKey& key, PortGroup& group, uint64_t now) {
        mappings::resume(tables, key, group, now);
        return tables.state.timeout_ns;
    }

    /// The address by which those inside know a peer.
    static uint32_t peer_inside(const Tables&, uint32_t peer) { return peer; }

private:
    using Plan = mappings::Plan<uint32_t>;
    MILLRACE_DEVICE static Plan ends_with(mappings::Outcome outcome) { return mappings::ends_with<uint32_t>(outcome); }

    /// What is to become of a packet, as far as that can be known without state. `quoted`: of an error.
    MILLRACE_DEVICE static Plan plan_for(const Packet& packet, const Tables& tables, Quoted& quoted) {
        using namespace mappings;
        const Layers& layers = packet.layers();
        Plan plan;
        if (!layers.is_ipv4() || layers.malformed != Malformed::no) return plan;
        const uint8_t* const header = packet.l3();
        plan.from = {load_raw<uint32_t>(header + 12), 0, layers.protocol};
        plan.to = {load_raw<uint32_t>(header + 16), 0, layers.protocol};
        const bool from_inside = is_inside(tables, plan.from.address);
        const bool to_external = external_kind(tables, plan.to.address) != External::kFree;
        // Among those inside nothing is translated, nor what goes to many at once.
        if (!to_external && (!from_inside || is_inside(tables, plan.to.address) || header[16] >= 224)) return plan;
        plan.outcome = !from_inside ? kInbound : to_external ? kHairpin : kOutbound;
        if (layers.is_fragment()) return ends_with(kFragment);
        if (!layers.has_ports() && !layers.is_icmp()) return ends_with(kUntranslatable);
        if (layers.is_icmp()) {
            const uint8_t type = packet.l4()[0];
            if (icmp::is_error(type, false)) {
                plan.is_error = true;
                if (!read_quoted(packet, quoted)) return ends_with(kUntranslatable);
                // To whom it is told has sent what it quotes.
                if (quoted.from.address != plan.to.address) return ends_with(kUntranslatable);
                plan.from = quoted.to;
                plan.to = quoted.from;
                if (from_inside && !is_inside(tables, plan.from.address)) return ends_with(kUntranslatable);
            } else {
                // Who is outside asks nobody inside, and an external address is not there to answer.
                if (to_external && !icmp::is_reply(type, false)) return ends_with(kNoMapping);
                if (!to_external && !icmp::is_query(type, false)) return ends_with(kUntranslatable);
                plan.from.port = plan.to.port = load_be16(packet.l4() + 4);
            }
        } else {
            plan.from.port = packet.l4_src_port();
            plan.to.port = packet.l4_dst_port();
        }
        plan.from_inside = from_inside;
        plan.to_external = to_external;
        plan.inside_from = plan.from;
        return with_key(tables, plan);
    }
};

}  // namespace millrace::nf::nat
