// IPFIX: counts the packets of each flow, and tells of flows that end (RFC 7011, RFC 5470).
#pragma once

#include "millrace/nf/state/keyed_state.hpp"
#include "millrace/packet/counter.hpp"
#include "millrace/packet/headers.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::nf::ipfix {

/// Packets that have all of it alike are a flow: one direction of a connection.
struct FlowKey {
    uint32_t source[4], destination[4];  ///< as they lie in the packet
    uint16_t source_port, destination_port;
    uint16_t icmp;  ///< type and code
    uint16_t vlan;
    uint16_t in_port;
    uint8_t protocol, is_ipv6;
};
static_assert(sizeof(FlowKey) == 44);

/// What is counted of a flow since its last record.
struct FlowCount {
    uint64_t packets, octets;  ///< octets of IP
    uint64_t first_ns, last_ns;
    uint16_t out_port;  ///< of its first packet, as far as it was known here
    uint8_t tos;        ///< of its first packet
    uint8_t tcp_flags;  ///< of all
    uint8_t ended;      ///< TCP has said that nothing follows
    uint8_t reserved[3];
};
static_assert(sizeof(FlowCount) == 40);

/// Why a record is told (flowEndReason, RFC 5102, section 5.11.3).
enum class EndReason : uint32_t { idle = 1, active, end_of_flow, forced, resources };

/// A record, as it leaves the device (Packet::emit_note).
struct Note {
    FlowCount count;
    FlowKey key;
    EndReason reason;
};
static_assert(sizeof(Note) == 2 * Event::kNoteBytes);

/// What is counted of records for which a batch had no room.
enum class NotTold : uint32_t { records, packets, octets, count };

struct Ipfix {
    enum Outcome : uint32_t { kCounted, kFull, kUncounted };

    static constexpr Fields reads = field::five_tuple | field::vlan | field::ip_tos | field::ip_length |
                                    field::ip_fragment | field::tcp_flags | field::icmp_type;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 1;
    /// A flow that TCP has ended waits so long for what is late.
    static constexpr uint64_t kLingerNs = 2'000'000'000;

    struct Tables {
        KeyedState<FlowKey, FlowCount> state;
        MutableView<uint64_t> not_told;  ///< by NotTold
        uint64_t active_ns = 0;          ///< a flow is told of after so long, though it goes on
        uint64_t linger_ns = 0;          ///< kLingerNs, or the time-out of idle flows if that is less
    };

    MILLRACE_DEVICE static Lookup key(const Packet& packet, const Tables&, FlowKey& key) {
        const Layers& layers = packet.layers();
        if (!layers.is_ip() || layers.malformed != Malformed::no) return Lookup::none;
        const uint32_t words = layers.is_ipv6() ? 4 : 1;
        const uint8_t* const addresses = packet.l3() + (layers.is_ipv6() ? 8 : 12);
        for (uint32_t i = 0; i < words; ++i) {
            key.source[i] = load_raw<uint32_t>(addresses + 4 * i);
            key.destination[i] = load_raw<uint32_t>(addresses + 4 * (words + i));
        }
        key.protocol = layers.protocol;
        key.is_ipv6 = layers.is_ipv6();
        key.vlan = layers.vlan_id;
        key.in_port = packet.in_port();
        // Only the first fragment has what lies behind the IP header.
        if ((layers.flags & Layers::kLaterFragment) != 0) return Lookup::create;
        key.source_port = packet.l4_src_port();
        key.destination_port = packet.l4_dst_port();
        if (layers.is_icmp()) key.icmp = load_be16(packet.l4());
        return Lookup::create;
    }

    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, KeyedEntry<FlowCount> entry) {
        if (!entry) return {kNoDetail, entry.refused() ? kFull : kUncounted};
        const Layers& layers = packet.layers();
        const bool has_flags = layers.is_tcp() && (layers.flags & Layers::kLaterFragment) == 0;
        const uint8_t flags = has_flags ? packet.tcp_flags() : 0;
        const uint64_t now = packet.time_ns();
        FlowCount& count = *entry;
        if (!entry.is_new()) tell_before(packet, tables, flags, now, count);
        if (count.packets == 0) {
            count.first_ns = count.last_ns = now;
            count.out_port = packet.out_port();
            count.tos = layers.is_ipv4() ? packet.l3()[1] : static_cast<uint8_t>(load_be16(packet.l3()) >> 4);
        }
        // Packets of another queue may be older than what has come already.
        if (now < count.first_ns) count.first_ns = now;
        if (now > count.last_ns) count.last_ns = now;
        count.packets += packet.wire_frames();
        count.octets += uint64_t{packet.wire_frames()} * (layers.payload_offset - layers.l3_offset) +
                        packet.payload_bytes();
        count.tcp_flags |= flags;
        if ((flags & (tcp::kFin | tcp::kRst)) != 0) count.ended = 1;
        if (count.ended != 0) entry.expire_after(tables.linger_ns);
        return {kNoDetail, kCounted};
    }

    MILLRACE_DEVICE static bool ended(Packet& teller, const Tables& tables, const FlowKey& key, const FlowCount& count,
                                      Ended how) {
        const EndReason reason = count.ended != 0        ? EndReason::end_of_flow
                                 : how == Ended::evicted ? EndReason::resources
                                                         : EndReason::idle;
        const bool told = teller.emit_note(Note{count, key, reason});
        if (!told && how != Ended::swept) lose(tables, count);
        return told;
    }

private:
    /// Tells of the flow as it was before this packet, where that begins another one, or it has lasted so long.
    MILLRACE_DEVICE static void tell_before(Packet& packet, const Tables& tables, uint8_t flags, uint64_t now,
                                            FlowCount& count) {
        const bool begins = count.ended != 0 && (flags & tcp::kSyn) != 0;
        const bool is_long = now > count.first_ns && now - count.first_ns >= tables.active_ns;
        if (!begins && !is_long) return;
        FlowKey own{};
        key(packet, tables, own);
        const bool told = packet.emit_note(Note{count, own, begins ? EndReason::end_of_flow : EndReason::active});
        if (!told && !begins) return;  // with the next packet
        if (!told) lose(tables, count);
        const uint8_t still_ended = begins ? 0 : count.ended;
        count = {};
        count.ended = still_ended;
    }
    MILLRACE_DEVICE static void lose(const Tables& tables, const FlowCount& count) {
        add(tables, NotTold::records, 1);
        add(tables, NotTold::packets, count.packets);
        add(tables, NotTold::octets, count.octets);
    }
    MILLRACE_DEVICE static void add(const Tables& tables, NotTold what, uint64_t n) {
        add_atomically(tables.not_told[static_cast<uint32_t>(what)], n);
    }
};

}  // namespace millrace::nf::ipfix
