// A group of external ports, for the one packet that has it: ports are found, given away, kept and forgotten.
#pragma once

#include "millrace/nf/mappings/tables.hpp"
#include "millrace/packet/bits.hpp"

namespace millrace::nf::mappings {

inline constexpr uint32_t kNoSlot = kGroupPorts;

/// Whether a mapping is there, and has not timed out at `now`. One that has is forgotten.
template <class Address>
MILLRACE_DEVICE bool is_live(PortGroup<Address>& group, uint32_t slot, uint64_t now) {
    const uint64_t bit = uint64_t{1} << slot;
    if ((group.used & bit) == 0) return false;
    if (group.mappings[slot].deadline_ns >= now) return true;
    group.used &= ~bit;
    return false;
}

/// The port of an inside endpoint, or kNoSlot. It is looked for first where it would have been put.
template <class Address>
MILLRACE_DEVICE uint32_t find_inside(PortGroup<Address>& group, const EndOf<Address>& inside, uint64_t now) {
    const auto is_its = [&](uint32_t slot) {
        const Mapping<Address>& mapping = group.mappings[slot];
        return mapping.address == inside.address && mapping.port == inside.port;
    };
    const uint32_t first = inside.port % kGroupPorts;
    if ((group.used >> first & 1) != 0 && is_its(first)) return is_live(group, first, now) ? first : kNoSlot;
    for (uint64_t left = group.used; left != 0; left &= left - 1) {
        const uint32_t slot = lowest_bit(left);
        if (is_its(slot)) return is_live(group, slot, now) ? slot : kNoSlot;
    }
    return kNoSlot;
}

/// Gives an inside endpoint a port of the group `key`; kNoSlot: all are taken. Ports go to ports of the same parity
/// while there are some (RFC 4787, REQ-4), and none is given away that is forwarded.
template <class Address, class Own>
MILLRACE_DEVICE uint32_t give_port(const PortTables<Address, Own>& tables, PortGroup<Address>& group,
                                   const GroupKey& key, const EndOf<Address>& inside, uint64_t now) {
    const uint32_t first = inside.port % kGroupPorts, half = kGroupPorts / 2;
    for (uint32_t i = 0; i < kGroupPorts; ++i) {
        const uint32_t slot = first ^ (i < half ? 2 * i : 2 * (i - half) + 1);
        if (is_live(group, slot, now)) continue;
        if (find_forward(tables.by_external, external_of(key, slot)) != nullptr) continue;
        Mapping<Address>& mapping = group.mappings[slot];
        mapping = {};
        mapping.begun_ns = now;
        mapping.address = inside.address;
        mapping.port = inside.port;
        if (!(home_of(tables, inside) == key)) mapping.bits = Mapping<Address>::kGuest;
        group.used |= uint64_t{1} << slot;
        return slot;
    }
    return kNoSlot;
}

/// How long a mapping of TCP is kept (RFC 5382, REQ-5): long while a connection is open, and briefly before and behind.
template <class Address>
MILLRACE_DEVICE Kept kept_of(uint8_t protocol, const Mapping<Address>& mapping) {
    if (protocol == ip::kProtocolUdp) return Kept::udp;
    if (protocol == ip::kProtocolIcmp) return Kept::icmp;
    return mapping.is_open() && !mapping.is_over() ? Kept::tcp : Kept::tcp_transitory;
}

/// The device that had the group has gone: nobody knows which packets have kept its mappings since they were written
/// down, so each is kept as if one had come at `now`.
template <class Address, class Own>
MILLRACE_DEVICE void resume(const PortTables<Address, Own>& tables, const GroupKey& key, PortGroup<Address>& group,
                            uint64_t now) {
    for (uint64_t left = group.used; left != 0; left &= left - 1) {
        Mapping<Address>& mapping = group.mappings[lowest_bit(left)];
        const uint64_t kept =
            tables.kept_ns[static_cast<uint32_t>(kept_of(static_cast<uint8_t>(key.group >> 16), mapping))];
        mapping.deadline_ns = larger(mapping.deadline_ns, KeyedEntry<PortGroup<Address>>::later(now, kept));
    }
}

/// Takes in a segment that an endpoint sends to `peer`. An endpoint may have several connections by its one port; then
/// no end of one of them shortens how long it is kept.
template <class Address>
MILLRACE_DEVICE void follow_sent(Mapping<Address>& mapping, const End& peer, uint8_t flags) {
    const bool is_first = (mapping.bits & ~Mapping<Address>::kGuest) == 0;
    const bool same = mapping.peer == peer.address && mapping.peer_port == peer.port;
    const bool opens = (flags & (tcp::kSyn | tcp::kAck)) == tcp::kSyn;
    if (mapping.is_over() && (!same || opens)) mapping.bits &= Mapping<Address>::kGuest;
    else if (!same && !is_first) mapping.bits |= Mapping<Address>::kSeveral;
    if ((flags & tcp::kRst) != 0) {
        mapping.bits |= Mapping<Address>::kReset;
        return;
    }
    // Who still sends has not believed a reset, which anybody may have made up.
    if ((flags & tcp::kAck) != 0)
        mapping.bits = static_cast<uint16_t>((mapping.bits & ~Mapping<Address>::kReset) | Mapping<Address>::kSent);
    if ((flags & tcp::kFin) != 0) mapping.bits |= Mapping<Address>::kFinSent;
}
/// Takes in a segment that comes for it.
template <class Address>
MILLRACE_DEVICE void follow_came(Mapping<Address>& mapping, uint8_t flags) {
    if ((flags & tcp::kRst) != 0) mapping.bits |= Mapping<Address>::kReset;
    else if ((flags & tcp::kAck) != 0) mapping.bits |= Mapping<Address>::kAnswered;
    if ((flags & tcp::kFin) != 0) mapping.bits |= Mapping<Address>::kFinCame;
}

}  // namespace millrace::nf::mappings
