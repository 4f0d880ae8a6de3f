// OpenFlow switch (GSwitch: Varvello et al., CoNEXT 2014, section 5): the first flow that matches says what becomes of
// a packet.
#pragma once

#include "millrace/nf/classify/wide_fields.hpp"
#include "millrace/nf/classify/search.hpp"
#include "millrace/nf/switch/actions/action.hpp"
#include "millrace/packet/counter.hpp"

namespace millrace::nf::flow_switch {

/// One table, and the fields and actions that OpenFlow 1.0 has: for switches that ask for no more (pipeline.hpp).
struct Switch {
    enum Outcome : uint32_t {
        kForward,
        kDrop,
        kController,
        kMiss,
        kTtlExpired,
        kNoRoom,
        kMalformed,
        kMetered,
        kTwoVersions,
    };

    /// Tags come and go, so whole frames must be there.
    static constexpr Fields reads = field::everything;
    static constexpr Fields writes = field::ethernet | field::ip | field::l4 | field::length;
    static constexpr unsigned lanes = 8;

    struct Flow {
        uint32_t first_action, actions;
        uint32_t number;   ///< the decision's detail
        uint32_t counter;  ///< of packets in `counters`; that of bytes follows
    };
    struct Bucket {
        uint32_t first_action, actions;
    };
    struct Group {
        uint32_t first_bucket, buckets;
    };
    /// Flows that are searched together.
    struct Part {
        classify::Search<9>::Tables flows;  ///< for all packets but those of IPv6
        classify::Search<15>::Tables ipv6_flows;
        /// In place of both, where some flow looks at more.
        classify::Search<classify::kWideWords>::Tables wide_flows;
        View<Flow> entries;  ///< by position, shared by all
        View<Action> actions;
        View<uint64_t> orders;     ///< by position: of flows in several parts the one with the lowest comes first
        classify::Positions gone;  ///< flows that went, or are others now, in another part
    };
    static constexpr unsigned kParts = 4;
    struct Band {
        uint32_t counters;    ///< in Tables::meter_counters: units used, then packets and bytes that met the band
        uint32_t precedence;  ///< by how much it raises the drop precedence of DSCP; 0: it drops
    };
    struct Meter {
        uint32_t first_band, bands;  ///< the highest rate first; none: there is no such meter
        uint32_t counters;           ///< in Tables::meter_counters: packets, bytes
        uint32_t by_packets;         ///< 1: units are packets, else bytes
    };
    struct Tables {
        Part parts[kParts];  ///< flows as they were at some time, and what has changed since
        uint32_t used_parts;
        uint32_t wide;  ///< 1: flows are searched by long keys
        View<Group> groups;
        View<Bucket> buckets;        ///< as often as their weights say
        View<Action> group_actions;  ///< of buckets
        MutableView<uint64_t> counters;
        View<uint32_t> misses;  ///< by table: where in `counters` packets are counted that found no flow there
        View<Meter> meters;     ///< by slot
        View<Band> bands;
        View<uint64_t> allowed;  ///< by band: units that may be used
        MutableView<uint64_t> meter_counters;
    };

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        // Chains drop malformed packets first; should one come, its headers are not to be trusted.
        if (packet.layers().malformed != Malformed::no) return {kNoDetail, kMalformed};
        const classify::FlowFields fields = classify::flow_fields_of(packet);
        const Found found = packet.layers().is_ipv6() ? find<15>(tables, fields, lanes)
                                                      : find<9>(tables, fields, lanes);
        if (found.position == classify::kNoRule) return {kNoDetail, kMiss};
        const Part& part = tables.parts[found.part];
        const Flow flow = part.entries[found.position];
        count(packet, tables, flow, lanes);
        return {flow.number, run(packet, tables, part.actions, flow.first_action, flow.actions, lanes)};
    }

    /// Does what `count` of `actions` say, from `first` on, and returns the outcome.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t run(Packet& packet, const Tables& tables, View<Action> actions, uint32_t first,
                                        uint32_t count, Lanes lanes) {
        uint32_t outcome = kDrop;  // where nothing sends it on
        for (uint32_t i = 0; i < count; ++i) {
            const Action action = actions[first + i];
            switch (action.kind) {
                case ActionKind::group: {
                    const Group group = tables.groups[action.value];
                    if (group.buckets == 0) return kDrop;
                    // The high bits of the product spread a hash over any count without a division.
                    const uint64_t product = static_cast<uint64_t>(bucket_hash(packet)) * group.buckets;
                    const Bucket bucket = tables.buckets[group.first_bucket + static_cast<uint32_t>(product >> 32)];
                    actions = tables.group_actions;
                    first = bucket.first_action;
                    count = bucket.actions;
                    i = 0xffffffffu;  // the bucket's first action comes next
                    break;
                }
                case ActionKind::output:
                    if (action.value != packet.in_port()) {
                        packet.set_out_port(static_cast<uint16_t>(action.value));
                        outcome = kForward;
                    }
                    break;
                case ActionKind::output_set:
                    if (send_by_all(packet, action)) outcome = kForward;
                    break;
                case ActionKind::controller:
                    if (outcome == kForward) punt_too(packet);
                    else outcome = kController;
                    break;
                case ActionKind::push_vlan:
                    if (action.high != 0 && packet.layers().vlan_count > 0) break;
                    if (!push_vlan(packet, static_cast<uint16_t>(action.value), lanes)) return kNoRoom;
                    break;
                case ActionKind::pop_vlan: pop_vlan(packet, lanes); break;
                case ActionKind::set_vlan_id:
                case ActionKind::set_vlan_pcp:
                    lanes.once([&] { change(packet, action); });
                    packet.parse();
                    break;
                case ActionKind::dec_ttl:
                    if (!packet.layers().is_ip()) break;
                    if (packet.ip_ttl() <= 1) return kTtlExpired;
                    [[fallthrough]];
                default: lanes.once([&] { change(packet, action); });
            }
        }
        return outcome;
    }

protected:
    struct Found {
        uint32_t part, position;
    };

    /// The flow that is first in order of match, or kNoRule.
    template <unsigned Words, class FieldsOf, class Lanes>
    MILLRACE_DEVICE static Found find(const Tables& tables, const FieldsOf& fields, Lanes lanes) {
        const classify::TernaryKey<Words> key = classify::ternary_key<Words>(fields);
        Found best{0, classify::kNoRule};
        uint64_t best_order = ~uint64_t{0};
        // One search in the code for all parts: it is long.
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (uint32_t i = 0; i < tables.used_parts; ++i) {
            const Part& part = tables.parts[i];
            const uint32_t position = classify::Search<Words>::find(search_of<Words>(part), key, lanes, part.gone);
            if (tables.used_parts == 1) return {0, position};
            if (position == classify::kNoRule || part.orders[position] > best_order) continue;
            best = {i, position};
            best_order = part.orders[position];
        }
        return best;
    }
    /// A packet meets this flow.
    template <class Lanes>
    MILLRACE_DEVICE static void count(const Packet& packet, const Tables& tables, const Flow& flow, Lanes lanes) {
        const uint64_t bytes = packet.length();
        lanes.once([&] {
            add_atomically(tables.counters[flow.counter], 1);
            add_atomically(tables.counters[flow.counter + 1], bytes);
        });
    }
    template <unsigned Words>
    MILLRACE_DEVICE static const typename classify::Search<Words>::Tables& search_of(const Part& part) {
        if constexpr (Words == 9) return part.flows;
        else if constexpr (Words == 15) return part.ipv6_flows;
        else return part.wide_flows;
    }

    /// What a bucket is chosen by: addresses and type of Ethernet, the VLAN and, of IP, the five-tuple; of ARP the
    /// protocol addresses. All packets of a flow have the same; others are told apart by what they have.
    MILLRACE_DEVICE static uint32_t bucket_hash(const Packet& packet) {
        const Layers& layers = packet.layers();
        uint64_t hash = static_cast<uint64_t>(flow_hash(packet)) << 32 | static_cast<uint64_t>(layers.ether_type) << 16;
        if (layers.vlan_count > 0) hash |= 0x1000u | (load_be16(packet.data() + eth::kHeaderBytes) & 0x0fffu);
        if (layers.ether_type == eth::kTypeArp && packet.present() >= layers.l3_offset + 28u) {
            hash ^= static_cast<uint64_t>(load_be32(packet.l3() + 14)) << 16 ^ load_be32(packet.l3() + 24);
            hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
        }
        for (unsigned at = 0; at < 12; at += 6) {
            hash ^= static_cast<uint64_t>(load_be32(packet.data() + at)) << 16 | load_be16(packet.data() + at + 4);
            hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
        }
        hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53ull;
        return static_cast<uint32_t>(hash >> 32);
    }

    /// Chooses the ports; false when none is left.
    MILLRACE_DEVICE static bool send_by_all(Packet& packet, const Action& action) {
        const uint32_t in_port = packet.in_port() < kPortSetPorts ? 1u << packet.in_port() : 0;
        const uint32_t ports = (action.value & ~in_port) | (action.high != 0 ? in_port : 0);
        if (ports == 0) return false;
        if ((ports & (ports - 1)) == 0) {
            uint16_t port = 0;
            while (ports >> port != 1) ++port;
            packet.set_out_port(port);
        } else {
            packet.set_out_port(static_cast<uint16_t>(kPortSet | ports));
        }
        return true;
    }

    /// The packet leaves by ports of a set, or one that could be in one, and is punted besides.
    MILLRACE_DEVICE static void punt_too(Packet& packet) {
        const uint16_t port = packet.out_port();
        packet.set_out_port(static_cast<uint16_t>((is_port_set(port) ? port : kPortSet | 1u << port) | kPortSetPunt));
    }

    template <class Lanes>
    MILLRACE_DEVICE static bool push_vlan(Packet& packet, uint16_t type, Lanes lanes) {
        const uint8_t tags = packet.layers().vlan_count;
        if (tags == kMaxVlanTags || !packet.grow_front(eth::kVlanBytes)) return false;
        lanes.once([&] { Edit::fill_tag(packet, type, tags > 0); });
        packet.parse();
        return true;
    }

    template <class Lanes>
    MILLRACE_DEVICE static void pop_vlan(Packet& packet, Lanes lanes) {
        if (packet.layers().vlan_count == 0) return;
        lanes.once([&] { Edit::close_tag(packet); });
        packet.shrink_front(eth::kVlanBytes);
        packet.parse();
    }

    MILLRACE_DEVICE static void change(Packet& packet, const Action& action) {
        switch (action.kind) {
            case ActionKind::set_eth_dst: return Edit::set_mac(packet.data(), action.low);
            case ActionKind::set_eth_src: return Edit::set_mac(packet.data() + 6, action.low);
            case ActionKind::set_vlan_id: return Edit::set_tag(packet, 0x0fff, static_cast<uint16_t>(action.value));
            case ActionKind::set_vlan_pcp:
                return Edit::set_tag(packet, 0xe000, static_cast<uint16_t>(action.value << 13));
            case ActionKind::set_ip_src: return Edit::set_address(packet, action, true);
            case ActionKind::set_ip_dst: return Edit::set_address(packet, action, false);
            case ActionKind::set_tos:
                return Edit::set_tos(packet, static_cast<uint8_t>(action.value), static_cast<uint8_t>(action.high));
            case ActionKind::set_ttl: return Edit::set_ttl(packet, static_cast<uint8_t>(action.value));
            case ActionKind::dec_ttl: return Edit::set_ttl(packet, static_cast<uint8_t>(packet.ip_ttl() - 1));
            case ActionKind::set_l4_src: return Edit::set_port(packet, 0, static_cast<uint16_t>(action.value));
            case ActionKind::set_l4_dst: return Edit::set_port(packet, 2, static_cast<uint16_t>(action.value));
            default: return;
        }
    }
};

}  // namespace millrace::nf::flow_switch
