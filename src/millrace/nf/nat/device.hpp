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

#include "millrace/nf/nat/port_group.hpp"
#include "millrace/nf/nat/translate.hpp"

namespace millrace::nf::nat {

struct Nat {
    enum Outcome : uint32_t {
        kOutbound,
        kInbound,
        kHairpin,
        kOther,
        kNoMapping,
        kExhausted,
        kFragment,
        kUntranslatable
    };

    static constexpr Fields reads = field::headers | field::payload;
    static constexpr Fields writes = field::ip_src | field::ip_dst | field::ip_checksum | field::l4_ports |
                                     field::l4_checksum | field::icmp_rest | field::payload;
    static constexpr unsigned lanes = 1;

    using Tables = NatTables;

    MILLRACE_DEVICE static Lookup key(const Packet& packet, const Tables& tables, GroupKey& key) {
        const Plan plan = plan_for(packet, tables);
        if (plan.lookup != Lookup::none) key = plan.key;
        return plan.lookup;
    }

    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, KeyedEntry<PortGroup> entry) {
        Plan plan = plan_for(packet, tables);
        if (!plan.from_inside && !plan.to_external) return {kNoDetail, plan.outcome};
        if (plan.lookup != Lookup::none) {
            if (!entry) return {kNoDetail, entry.refused() ? kExhausted : kNoMapping};
            plan.outcome = plan.is_error ? meet_error(packet, *entry, plan) : meet(packet, tables, *entry, plan);
        }
        if (plan.outcome > kHairpin) return {kNoDetail, plan.outcome};
        // An error went the other way than what it quotes.
        if (plan.is_error) {
            if (plan.to_external) replace_quoted(packet, plan.quoted, false, plan.to);
            if (plan.from_inside) replace_quoted(packet, plan.quoted, true, plan.from);
        } else {
            if (plan.from_inside) replace(packet, false, plan.from);
            if (plan.to_external) replace(packet, true, plan.to);
        }
        return {plan.number, plan.outcome};
    }

private:
    /// What is to become of a packet, as far as that can be known without state.
    struct Plan {
        Outcome outcome = kOther;
        Lookup lookup = Lookup::none;
        GroupKey key{};
        /// Its ends: what the packet says, then what is put there. Of an error those of what it quotes, exchanged.
        End from{}, to{};
        bool from_inside = false, to_external = false;      ///< what is to be replaced
        bool from_is_mapped = false, to_is_mapped = false;  ///< by a mapping, not by a port forward
        bool is_error = false;
        uint32_t number = kNoDetail;  ///< of a port forward
        Quoted quoted{};
    };
    MILLRACE_DEVICE static Plan ends_with(Outcome outcome) {
        Plan plan;
        plan.outcome = outcome;
        return plan;
    }

    MILLRACE_DEVICE static Plan plan_for(const Packet& packet, const Tables& tables) {
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
                if (!read_quoted(packet, plan.quoted)) return ends_with(kUntranslatable);
                // To whom it is told has sent what it quotes.
                if (plan.quoted.from.address != plan.to.address) return ends_with(kUntranslatable);
                plan.from = plan.quoted.to;
                plan.to = plan.quoted.from;
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
        return with_key(tables, plan);
    }

    /// Puts in what port forwards say, and finds the group that knows the rest.
    MILLRACE_DEVICE static Plan with_key(const Tables& tables, Plan plan) {
        if (plan.to_external) {
            const Forward* const forward = find_forward(tables.by_external, plan.to);
            plan.to_is_mapped = forward == nullptr;
            if (plan.to_is_mapped && !group_of(tables, plan.to, plan.key)) return ends_with(kNoMapping);
            if (!plan.to_is_mapped) {
                plan.to = forward->to;
                plan.number = forward->number;
            }
            plan.lookup = plan.to_is_mapped ? Lookup::find : Lookup::none;
        }
        if (plan.from_inside) {
            if (plan.is_error && !is_inside(tables, plan.from.address)) return ends_with(kUntranslatable);
            const Forward* const forward = find_forward(tables.by_inside, plan.from);
            plan.from_is_mapped = forward == nullptr;
            if (!plan.from_is_mapped) {
                plan.from = forward->to;
                plan.number = forward->number;
            } else if (!plan.to_is_mapped) {
                if (tables.groups == 0) return ends_with(kExhausted);
                plan.key = home_of(tables, plan.from);
                plan.lookup = plan.is_error ? Lookup::find : Lookup::create;
            }
        }
        return plan;
    }

    MILLRACE_DEVICE static End inside_of(const Mapping& mapping, uint8_t protocol) {
        return {mapping.address, mapping.port, protocol};
    }
    /// The mapping that an external port stands for; null: there is none.
    MILLRACE_DEVICE static Mapping* mapping_of(PortGroup& group, const Plan& plan, uint64_t now) {
        const uint32_t slot = plan.to.port % kGroupPorts;
        if (!is_live(group, slot, now)) return nullptr;
        Mapping& mapping = group.mappings[slot];
        return (mapping.bits & Mapping::kGuest) != 0 && !plan.from_inside ? nullptr : &mapping;
    }

    /// Puts what mappings say into `plan`, gives a port to who has none, and takes down what the packet means to them.
    MILLRACE_DEVICE static Outcome meet(const Packet& packet, const Tables& tables, PortGroup& group, Plan& plan) {
        const uint64_t now = packet.time_ns();
        const uint8_t protocol = plan.from.protocol;
        Mapping* const to = plan.to_is_mapped ? mapping_of(group, plan, now) : nullptr;
        if (plan.to_is_mapped && to == nullptr) return kNoMapping;
        const End to_external = plan.to;
        if (plan.from_is_mapped) {
            uint32_t slot = find_inside(group, plan.from, now);
            if (slot == kNoSlot) slot = give_port(tables, group, plan.key, plan.from, now);
            if (slot == kNoSlot) return kExhausted;
            Mapping& from = group.mappings[slot];
            if (protocol == ip::kProtocolTcp) follow_sent(from, to_external, packet.tcp_flags());
            from.peer = to_external.address;
            from.peer_port = to_external.port;
            // Who is outside can't keep a mapping (RFC 4787, REQ-6).
            from.deadline_ns = deadline(tables, now, kept_of(protocol, from));
            count(packet, from, 0);
            plan.from = external_of(plan.key, slot);
        }
        if (to != nullptr) {
            if (to->peer == plan.from.address && (to->peer_port == plan.from.port || protocol == ip::kProtocolIcmp)) {
                if (protocol == ip::kProtocolTcp) follow_came(*to, packet.tcp_flags());
                else to->bits |= Mapping::kAnswered;
                if (to->is_over())
                    to->deadline_ns = smaller(to->deadline_ns, deadline(tables, now, kept_of(protocol, *to)));
            }
            count(packet, *to, 1);
            plan.to = inside_of(*to, protocol);
        }
        return plan.outcome;
    }

    /// The same of an ICMP error, which neither keeps a mapping nor ends one (RFC 4787, REQ-12; RFC 5508, REQ-6).
    MILLRACE_DEVICE static Outcome meet_error(const Packet& packet, PortGroup& group, Plan& plan) {
        const uint64_t now = packet.time_ns();
        if (plan.to_is_mapped) {
            const Mapping* const to = mapping_of(group, plan, now);
            if (to == nullptr) return kNoMapping;
            plan.to = inside_of(*to, plan.to.protocol);
        }
        if (plan.from_is_mapped) {
            const uint32_t slot = find_inside(group, plan.from, now);
            if (slot == kNoSlot) return kNoMapping;
            plan.from = external_of(plan.key, slot);
        }
        return plan.outcome;
    }

    MILLRACE_DEVICE static uint64_t deadline(const Tables& tables, uint64_t now, Kept kept) {
        return KeyedEntry<PortGroup>::later(now, tables.kept_ns[static_cast<uint32_t>(kept)]);
    }
    MILLRACE_DEVICE static void count(const Packet& packet, Mapping& mapping, uint32_t side) {
        mapping.packets[side] += packet.wire_frames();
        mapping.bytes[side] += packet.wire_bytes();
    }
};

}  // namespace millrace::nf::nat
