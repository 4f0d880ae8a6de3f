// Connection tracking: finds the connection of a packet, follows its state, and says what the packet is to it.
#pragma once

#include "millrace/nf/flows/flow_key.hpp"
#include "millrace/nf/flows/tcp.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::nf::conntrack {

using flows::FlowKey;

struct Flow {
    flows::TcpConnection tcp;
    uint8_t low_began;  ///< the originator is FlowKey::low
    uint8_t answered;   ///< packets have come from both ends
    uint8_t reserved[2];
    uint64_t begun_ns;
    /// By whether they are the originator's (0) or the other's.
    struct Tally {
        uint64_t packets[2], bytes[2];
    } tally;
};
static_assert(sizeof(Flow) % 8 == 0);

/// How long a connection is remembered, by kind: TCP's by state, then the others.
enum class Kept : uint8_t { tcp, udp = flows::kTcpStates, udp_answered, icmp, other, count };
inline constexpr unsigned kKept = static_cast<unsigned>(Kept::count);
MILLRACE_DEVICE Kept kept_of(uint32_t protocol, const Flow& flow) {
    const bool icmp = protocol == ip::kProtocolIcmp || protocol == ip::kProtocolIcmpv6;
    return protocol == ip::kProtocolTcp   ? static_cast<Kept>(flow.tcp.state)
           : protocol == ip::kProtocolUdp ? (flow.answered != 0 ? Kept::udp_answered : Kept::udp)
           : icmp                         ? Kept::icmp
                                          : Kept::other;
}

struct Conntrack {
    enum Outcome : uint32_t { kNew, kEstablished, kRelated, kInvalid, kUntracked, kFull };

    static constexpr Fields reads = field::five_tuple | field::vlan | field::ip_fragment | field::tcp_seq |
                                    field::tcp_ack | field::tcp_flags | field::tcp_window | field::tcp_options |
                                    field::icmp_type | field::icmp_rest | field::payload;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 1;
    static constexpr bool decides_ahead = true;

    struct Tables {
        KeyedState<FlowKey, Flow> state;
        uint64_t kept_ns[kKept] = {};
        uint32_t by_vlan = 0;      ///< zones are VLANs
        uint32_t may_pick_up = 0;  ///< TCP connections may be met in their midst
        uint32_t checks_window = 0;
        uint32_t reserved = 0;
    };

    /// What a packet says without its connection.
    struct Noted {
        flows::Named named;
        flows::TcpSegment segment;  ///< of TCP
    };

    MILLRACE_DEVICE static Lookup key(const Packet& packet, const Tables& tables, FlowKey& key, Noted& noted) {
        noted.named = flows::name_flow(packet, tables.by_vlan != 0, key);
        const Layers& layers = packet.layers();
        if (layers.is_tcp() && noted.named.lookup == Lookup::create)
            noted.segment = flows::read_segment(packet.l4(), layers.payload_offset - uint32_t{layers.l4_offset},
                                                packet.payload_bytes());
        return noted.named.lookup;
    }

    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, KeyedEntry<Flow> entry,
                                            const FlowKey& key, const Noted& noted) {
        const Outcome outcome = entry                                ? follow(packet, tables, noted, key, entry)
                                : entry.refused()                    ? kFull
                                : noted.named.lookup == Lookup::none ? kUntracked
                                                                     : kInvalid;
        constexpr Connection kConnections[] = {Connection::opening, Connection::established, Connection::related,
                                               Connection::invalid, Connection::untracked,   Connection::invalid};
        packet.set_connection(kConnections[outcome]);
        return {kNoDetail, outcome};
    }

private:
    MILLRACE_DEVICE static Outcome follow(const Packet& packet, const Tables& tables, const Noted& noted,
                                          const FlowKey& key, const KeyedEntry<Flow>& entry) {
        Flow& flow = *entry;
        const flows::Named& named = noted.named;
        if (named.is_error) {
            entry.do_not_count();
            return kRelated;
        }
        if (entry.is_new()) {
            flow.low_began = named.from_low;
            flow.begun_ns = packet.time_ns();
        }
        bool from_originator = (flow.low_began != 0) == named.from_low;
        if (packet.layers().is_tcp() && !follow_tcp(packet, tables, noted.segment, from_originator, flow)) {
            if (entry.is_new()) entry.remove();
            else entry.do_not_count();
            return kInvalid;
        }
        if (!from_originator) flow.answered = 1;
        const uint32_t side = from_originator ? 0 : 1;
        flow.tally.packets[side] += packet.wire_frames();
        flow.tally.bytes[side] += packet.wire_bytes();
        keep(tables, flow, key, entry);
        return flow.answered != 0 ? kEstablished : kNew;
    }

    /// False: the segment is none of the connection's.
    MILLRACE_DEVICE static bool follow_tcp(const Packet& packet, const Tables& tables, const flows::TcpSegment& segment,
                                           bool& from_originator, Flow& flow) {
        const bool from_low = (flow.low_began != 0) == from_originator;
        const flows::Taken taken = flow.tcp.take(segment, from_originator, tables.may_pick_up != 0,
                                                 tables.checks_window != 0);
        if (taken == flows::Taken::reopens) {
            flow.low_began = from_low;
            flow.answered = 0;
            flow.begun_ns = packet.time_ns();
            flow.tally = {};
        }
        return taken != flows::Taken::invalid;
    }

    /// Sets the time-out that the connection's state has.
    MILLRACE_DEVICE static void keep(const Tables& tables, const Flow& flow, const FlowKey& key,
                                     const KeyedEntry<Flow>& entry) {
        entry.expire_after(tables.kept_ns[static_cast<uint32_t>(kept_of(key.kind & 0xff, flow))]);
    }
};

}  // namespace millrace::nf::conntrack
