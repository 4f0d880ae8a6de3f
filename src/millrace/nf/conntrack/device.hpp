// Connection tracking: finds the connection of a packet, follows its state, and says what the packet is to it.
#pragma once

#include "millrace/nf/conntrack/flow.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::nf::conntrack {

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

    /// What a packet does to its connection, if it does no more than that (nf/state/prefix_scan.hpp).
    struct Effect {
        flows::TcpRaised raised;
        uint32_t packets[2], bytes[2];  ///< as of the tally, up to some thousand packets

        MILLRACE_DEVICE static bool by(const Packet& packet, const Noted& noted, const Flow& flow, Effect& effect) {
            constexpr uint32_t kMaxBytes = 1 << 20;
            const bool from_originator = (flow.low_began != 0) == noted.named.from_low;
            const uint32_t side = from_originator ? 0 : 1, bytes = packet.wire_bytes();
            if (!packet.layers().is_tcp() || noted.named.is_error || (flow.answered == 0 && !from_originator) ||
                bytes > kMaxBytes)
                return false;
            effect.packets[side] = packet.wire_frames();
            effect.bytes[side] = bytes;
            return flows::TcpRaised::by(noted.segment, flow.tcp, from_originator, effect.raised);
        }
        MILLRACE_DEVICE bool lets(const Packet&, const Noted& noted, const Flow& flow) const {
            return raised.lets(noted.segment, flow.tcp, (flow.low_began != 0) == noted.named.from_low);
        }
        MILLRACE_DEVICE void append(const Effect& next) {
            raised.append(next.raised);
            for (uint32_t side = 0; side < 2; ++side) {
                packets[side] += next.packets[side];
                bytes[side] += next.bytes[side];
            }
        }
        MILLRACE_DEVICE void apply(Flow& flow) const {
            raised.apply(flow.tcp);
            for (uint32_t side = 0; side < 2; ++side) {
                flow.tally.packets[side] += packets[side];
                flow.tally.bytes[side] += bytes[side];
            }
        }
        MILLRACE_DEVICE static uint64_t kept_ns(const Tables& tables, const FlowKey& key, const Flow& flow) {
            return tables.kept_ns[static_cast<uint32_t>(kept_of(key.kind & 0xff, flow))];
        }
        MILLRACE_DEVICE static Decision decide(Packet& packet, const Flow& flow) {
            return decision_of(packet, outcome_of(flow));
        }
    };

    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, KeyedEntry<Flow> entry,
                                            const FlowKey& key, const Noted& noted) {
        const Outcome outcome = entry                                ? follow(packet, tables, noted, key, entry)
                                : entry.refused()                    ? kFull
                                : noted.named.lookup == Lookup::none ? kUntracked
                                                                     : kInvalid;
        return decision_of(packet, outcome);
    }

    /// Where a connection is; what its windows are, and how much it has carried, may go with a device.
    MILLRACE_DEVICE static uint32_t lasting(const Flow& flow) {
        return uint32_t{static_cast<uint8_t>(flow.tcp.state)} | uint32_t{flow.answered} << 8 |
               uint32_t{flow.low_began} << 9 | uint32_t{flow.tcp.was_picked_up} << 10;
    }
    /// Its device has gone: it is met in its midst, whoever may begin there.
    static uint64_t resume(const Tables& tables, const FlowKey& key, uint32_t lasting, Flow& flow, uint64_t now_ns) {
        flow = {};
        flow.tcp.state = static_cast<flows::Tcp>(lasting & 0xff);
        flow.answered = lasting >> 8 & 1;
        flow.low_began = lasting >> 9 & 1;
        flow.tcp.was_picked_up = 1;
        flow.begun_ns = now_ns;
        return Effect::kept_ns(tables, key, flow);
    }

private:
    MILLRACE_DEVICE static Outcome outcome_of(const Flow& flow) { return flow.answered != 0 ? kEstablished : kNew; }
    MILLRACE_DEVICE static Decision decision_of(Packet& packet, Outcome outcome) {
        constexpr Connection kConnections[] = {Connection::opening, Connection::established, Connection::related,
                                               Connection::invalid, Connection::untracked,   Connection::invalid};
        packet.set_connection(kConnections[outcome]);
        return {kNoDetail, outcome};
    }
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
        flow.tally.add(from_originator, packet.wire_frames(), packet.wire_bytes());
        entry.expire_after(Effect::kept_ns(tables, key, flow));
        return outcome_of(flow);
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
};

}  // namespace millrace::nf::conntrack
