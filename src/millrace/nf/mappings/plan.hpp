// What is to become of a packet between inside and outside: which group of ports decides, and what that says.
#pragma once

#include "millrace/nf/mappings/port_group.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::mappings {

/// Of NAT44 and NAT64, in this order; each may have more.
enum Outcome : uint32_t {
    kOutbound,
    kInbound,
    kHairpin,
    kOther,
    kNoMapping,
    kExhausted,
    kFragment,
    kUntranslatable,
    kOutcomes
};

template <class Address>
struct Plan {
    Outcome outcome = kOther;
    Lookup lookup = Lookup::none;
    GroupKey key{};
    /// The packet's ends; of an ICMP error those of what it quotes, exchanged. `inside_from` and `to` are what the
    /// packet says where it comes from inside, and where it goes to an external port; what they become is `from` and
    /// `inside_to`. Else `from` and `to` are its ends as they are.
    EndOf<Address> inside_from{}, inside_to{};
    End from{}, to{};
    bool from_inside = false, to_external = false;      ///< what is to be replaced
    bool from_is_mapped = false, to_is_mapped = false;  ///< by a mapping, not by a port forward
    bool is_error = false;
    uint32_t number = kNoDetail;  ///< of a port forward
};

/// Of a packet that is left as it is.
template <class Address>
MILLRACE_DEVICE Plan<Address> ends_with(Outcome outcome) {
    Plan<Address> plan;
    plan.outcome = outcome;
    return plan;
}

/// Puts in what port forwards say, and finds the group that knows the rest.
template <class Address, class Own>
MILLRACE_DEVICE Plan<Address> with_key(const PortTables<Address, Own>& tables, Plan<Address> plan) {
    if (plan.to_external) {
        const Forward<uint32_t, Address>* const forward = find_forward(tables.by_external, plan.to);
        plan.to_is_mapped = forward == nullptr;
        if (plan.to_is_mapped && !group_of(tables, plan.to, plan.key)) return ends_with<Address>(kNoMapping);
        if (!plan.to_is_mapped) {
            plan.inside_to = forward->to;
            plan.number = forward->number;
        }
        plan.lookup = plan.to_is_mapped ? Lookup::find : Lookup::none;
    }
    if (plan.from_inside) {
        const Forward<Address, uint32_t>* const forward = find_forward(tables.by_inside, plan.inside_from);
        plan.from_is_mapped = forward == nullptr;
        if (!plan.from_is_mapped) {
            plan.from = forward->to;
            plan.number = forward->number;
        } else if (!plan.to_is_mapped) {
            if (tables.groups == 0) return ends_with<Address>(kExhausted);
            plan.key = home_of(tables, plan.inside_from);
            plan.lookup = plan.is_error ? Lookup::find : Lookup::create;
        }
    }
    return plan;
}

/// The mapping that an external port stands for; null: there is none.
template <class Address>
MILLRACE_DEVICE Mapping<Address>* mapping_of(PortGroup<Address>& group, const Plan<Address>& plan, uint64_t now) {
    const uint32_t slot = plan.to.port % kGroupPorts;
    if (!is_live(group, slot, now)) return nullptr;
    Mapping<Address>& mapping = group.mappings[slot];
    return (mapping.bits & Mapping<Address>::kGuest) != 0 && !plan.from_inside ? nullptr : &mapping;
}

template <class Address>
MILLRACE_DEVICE void count(const Packet& packet, Mapping<Address>& mapping, uint32_t side) {
    mapping.packets[side] += packet.wire_frames();
    mapping.bytes[side] += packet.wire_bytes();
}

/// What a packet lets outlive a device, at most: which ports are taken, and two mappings.
template <class Address>
inline constexpr uint32_t kJournalBytes = JournalRecord::bytes_with(sizeof(PortGroup<Address>::used)) +
                                          2 * JournalRecord::bytes_with(sizeof(Mapping<Address>));

/// Puts what mappings say into `plan`, gives a port to who has none, and takes down what the packet means to them.
template <class Address, class Own>
MILLRACE_DEVICE Outcome meet(const Packet& packet, const PortTables<Address, Own>& tables,
                             const KeyedEntry<PortGroup<Address>>& entry, Plan<Address>& plan) {
    PortGroup<Address>& group = *entry;
    const uint64_t now = packet.time_ns();
    const auto deadline = [&](uint8_t protocol, const Mapping<Address>& mapping) {
        const uint64_t kept = tables.kept_ns[static_cast<uint32_t>(kept_of(protocol, mapping))];
        return KeyedEntry<PortGroup<Address>>::later(now, kept);
    };
    Mapping<Address>* const to = plan.to_is_mapped ? mapping_of(group, plan, now) : nullptr;
    if (plan.to_is_mapped && to == nullptr) return kNoMapping;
    if (plan.from_is_mapped) {
        const uint8_t protocol = plan.inside_from.protocol;
        uint32_t slot = find_inside(group, plan.inside_from, now);
        const bool is_new = slot == kNoSlot;
        if (is_new) slot = give_port(tables, group, plan.key, plan.inside_from, now);
        if (slot == kNoSlot) return kExhausted;
        Mapping<Address>& from = group.mappings[slot];
        const uint16_t bits = from.bits;
        if (protocol == ip::kProtocolTcp) follow_sent(from, plan.to, packet.tcp_flags());
        from.peer = plan.to.address;
        from.peer_port = plan.to.port;
        // Who is outside can't keep a mapping (RFC 4787, REQ-6).
        from.deadline_ns = deadline(protocol, from);
        count(packet, from, 0);
        if (is_new || from.bits != bits) entry.keep(from);
        plan.from = external_of(plan.key, slot);
    }
    if (to != nullptr) {
        const uint8_t protocol = plan.to.protocol;
        const uint16_t bits = to->bits;
        if (to->peer == plan.from.address && (to->peer_port == plan.from.port || protocol == ip::kProtocolIcmp)) {
            if (protocol == ip::kProtocolTcp) follow_came(*to, packet.tcp_flags());
            else to->bits |= Mapping<Address>::kAnswered;
            if (to->is_over()) to->deadline_ns = smaller(to->deadline_ns, deadline(protocol, *to));
        }
        count(packet, *to, 1);
        if (to->bits != bits) entry.keep(*to);
        plan.inside_to = {to->address, to->port, protocol};
    }
    return plan.outcome;
}

/// The same of an ICMP error, which neither keeps a mapping nor ends one (RFC 4787, REQ-12; RFC 5508, REQ-6).
template <class Address>
MILLRACE_DEVICE Outcome meet_error(const Packet& packet, PortGroup<Address>& group, Plan<Address>& plan) {
    const uint64_t now = packet.time_ns();
    if (plan.to_is_mapped) {
        const Mapping<Address>* const to = mapping_of(group, plan, now);
        if (to == nullptr) return kNoMapping;
        plan.inside_to = {to->address, to->port, plan.to.protocol};
    }
    if (plan.from_is_mapped) {
        const uint32_t slot = find_inside(group, plan.inside_from, now);
        if (slot == kNoSlot) return kNoMapping;
        plan.from = external_of(plan.key, slot);
    }
    return plan.outcome;
}

/// Either of them, with the entry of the plan's key, where it has one.
template <class Address, class Own>
MILLRACE_DEVICE Outcome settle(const Packet& packet, const PortTables<Address, Own>& tables,
                               KeyedEntry<PortGroup<Address>> entry, Plan<Address>& plan) {
    if (plan.lookup == Lookup::none) return plan.outcome;
    if (!entry) return entry.refused() ? kExhausted : kNoMapping;
    const uint64_t used = entry->used;
    const Outcome outcome = plan.is_error ? meet_error(packet, *entry, plan) : meet(packet, tables, entry, plan);
    if (entry->used != used) entry.keep(entry->used);
    return outcome;
}

}  // namespace millrace::nf::mappings
