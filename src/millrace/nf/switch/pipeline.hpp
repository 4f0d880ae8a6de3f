// The switch as OpenFlow 1.3 has it: several tables with metadata and an action set, meters, MPLS and PBB.
//
// What instructions say comes as a list of actions like any other: a meter, what is applied, what is put into the
// action set, metadata, the next table. All tables are searched as one: a key says which table it is looked up in.
#pragma once

#include "millrace/nf/switch/device.hpp"
#include "millrace/nf/switch/actions/edit_more.hpp"
#include "millrace/nf/switch/meters/metering.hpp"

namespace millrace::nf::flow_switch {

struct Pipeline : Switch {
    static constexpr Fields writes = field::everything | field::length;
    /// Bytes that a packet may grow by at its head on its way through all tables.
    static constexpr uint32_t kMaxGrowth = 40;
    /// Places of the action set; group and output are the last ones.
    static constexpr unsigned kPlaces = 64;
    static constexpr unsigned kIndexBits = 30;  ///< of the place of an action in its part
    static_assert(kParts <= 1u << (32 - kIndexBits));

    /// A packet's way through the tables.
    struct Path {
        uint64_t metadata = 0, tunnel = 0;
        uint64_t written = 0;         ///< places of the action set that are taken
        uint32_t set[kPlaces];        ///< where the action lies: its part in the upper bits, its index
        uint32_t ports = 0;           ///< it leaves by, as bits
        uint16_t far_port = kNoPort;  ///< the one it leaves by that no bit stands for
        bool controller = false;
        bool sent = false;  ///< by a port or to the controller: its bytes must not change any more
        uint8_t table = 0;
        uint8_t grown = 0;
    };

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        if (packet.layers().malformed != Malformed::no) return {kNoDetail, kMalformed};
        Path path;
        uint32_t detail = kNoDetail;
        for (;;) {
            const Found found = look_up(packet, tables, path, lanes);
            if (found.position == classify::kNoRule) {
                if (!tables.misses.empty())
                    lanes.once([&] { add_atomically(tables.counters[tables.misses[path.table]], 1); });
                return {detail, path.sent ? leave(packet, path) : uint32_t{kMiss}};
            }
            const Part& part = tables.parts[found.part];
            const Flow flow = part.entries[found.position];
            count(packet, tables, flow, lanes);
            detail = flow.number;
            const uint32_t next = run_list(packet, tables, path, {part.actions, found.part}, flow.first_action,
                                           flow.actions, lanes);
            if (next < kEnd) path.table = static_cast<uint8_t>(next);
            else if (next == kEnd) break;
            else return {detail, next - kOutcome};
        }
        const uint32_t next = run_set(packet, tables, path, lanes);
        return {detail, next == kEnd ? leave(packet, path) : next - kOutcome};
    }

    /// Does what a list says that is of no table, as process does; returns the outcome.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t run(Packet& packet, const Tables& tables, View<Action> actions, Lanes lanes) {
        Path path;
        const uint32_t next = run_list(packet, tables, path, {actions, 0}, 0, static_cast<uint32_t>(actions.size()),
                                       lanes);
        return next > kEnd ? next - kOutcome : leave(packet, path);
    }

private:
    /// What `run_list` returns: a table, kEnd, or an outcome behind kOutcome.
    static constexpr uint32_t kEnd = 256, kOutcome = 257;
    struct List {
        View<Action> actions;
        uint32_t part;
    };

    template <class Lanes>
    MILLRACE_DEVICE static Found look_up(const Packet& packet, const Tables& tables, const Path& path, Lanes lanes) {
        classify::WideFields fields = classify::wide_fields_of(packet);
        fields.table = path.table;
        if (tables.wide == 0)
            return packet.layers().is_ipv6() ? find<15>(tables, fields, lanes) : find<9>(tables, fields, lanes);
        fields.metadata = path.metadata;
        fields.tunnel = path.tunnel;
        classify::add_wide_fields(packet, fields);
        return find<classify::kWideWords>(tables, fields, lanes);
    }

    template <class Lanes>
    MILLRACE_DEVICE static uint32_t run_list(Packet& packet, const Tables& tables, Path& path, List list,
                                             uint32_t first, uint32_t count, Lanes lanes) {
        List own = list;  // and where to go on in it behind a group's bucket
        uint32_t back = 0, end = first + count;
        const uint32_t own_end = end;
        bool in_bucket = false;
        for (uint32_t i = first;; ++i) {
            if (i == end) {
                if (!in_bucket) return kEnd;
                in_bucket = false;
                list = own;
                i = back;
                end = own_end;
                continue;
            }
            const Action action = list.actions[i];
            switch (action.kind) {
                case ActionKind::group: {
                    const Group group = tables.groups[action.value];
                    if (group.buckets == 0 || in_bucket) break;
                    const Bucket bucket = choose(packet, tables, group);
                    back = i;
                    in_bucket = true;
                    list = {tables.group_actions, 0};
                    i = bucket.first_action - 1;
                    end = bucket.first_action + bucket.actions;
                    break;
                }
                case ActionKind::write:
                    path.written |= uint64_t{1} << action.value;
                    path.set[action.value] = ++i | list.part << kIndexBits;
                    break;
                case ActionKind::clear: path.written = 0; break;
                case ActionKind::metadata: path.metadata = (path.metadata & ~action.high) | action.low; break;
                case ActionKind::go_to: return action.value;
                case ActionKind::meter:
                    if (const uint32_t outcome = metered(packet, tables, path, action.value, lanes); outcome != kDone)
                        return kOutcome + outcome;
                    break;
                default:
                    if (const uint32_t outcome = run_one(packet, path, action, lanes); outcome != kDone)
                        return kOutcome + outcome;
            }
        }
    }

    /// The action set, in the order of its places (OpenFlow 1.3.5, section 5.10).
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t run_set(Packet& packet, const Tables& tables, Path& path, Lanes lanes) {
        constexpr uint64_t kGroup = uint64_t{1} << (kPlaces - 2), kOutput = uint64_t{1} << (kPlaces - 1);
        if ((path.written & kGroup) != 0) path.written &= ~kOutput;
        for (unsigned place = 0; path.written >> place != 0; ++place) {
            if ((path.written >> place & 1) == 0) continue;
            const uint32_t at = path.set[place];
            const uint32_t part = at >> kIndexBits;
            const uint32_t next = run_list(packet, tables, path, {tables.parts[part].actions, part},
                                           at & ((1u << kIndexBits) - 1), 1, lanes);
            if (next != kEnd) return next;
            if (place == kPlaces - 1) break;
        }
        return kEnd;
    }

    MILLRACE_DEVICE static Bucket choose(const Packet& packet, const Tables& tables, const Group& group) {
        const uint64_t product = static_cast<uint64_t>(bucket_hash(packet)) * group.buckets;
        return tables.buckets[group.first_bucket + static_cast<uint32_t>(product >> 32)];
    }

    static constexpr uint32_t kDone = 0xff;  ///< no outcome: the packet goes on

    /// An action that is not of the way itself.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t run_one(Packet& packet, Path& path, const Action& action, Lanes lanes) {
        if (changes_bytes(action.kind)) return path.sent ? uint32_t{kTwoVersions} : edit(packet, path, action, lanes);
        switch (action.kind) {
            case ActionKind::set_tunnel: path.tunnel = action.low; break;
            case ActionKind::output: return send(packet, path, action.value);
            case ActionKind::output_set: {
                const uint32_t in_port = packet.in_port() < kPortSetPorts ? 1u << packet.in_port() : 0;
                path.ports |= (action.value & ~in_port) | (action.high != 0 ? in_port : 0);
                // By the port where it came in alone, which no bit may stand for.
                if (action.high != 0 && in_port == 0 && packet.in_port() != kNoPort) {
                    if (path.far_port != kNoPort && path.far_port != packet.in_port()) return kTwoVersions;
                    path.far_port = packet.in_port();
                }
                path.sent = path.sent || path.ports != 0 || path.far_port != kNoPort;
                break;
            }
            case ActionKind::controller: path.controller = path.sent = true; break;
            default: break;
        }
        return kDone;
    }

    MILLRACE_DEVICE static uint32_t send(const Packet& packet, Path& path, uint32_t port) {
        if (port == packet.in_port()) return kDone;
        path.sent = true;
        if (port < kPortSetPorts) {
            path.ports |= 1u << port;
            return kDone;
        }
        if (path.far_port != kNoPort && path.far_port != port) return kTwoVersions;
        path.far_port = static_cast<uint16_t>(port);
        return kDone;
    }

    /// Has the packet leave by all that was chosen.
    MILLRACE_DEVICE static uint32_t leave(Packet& packet, const Path& path) {
        if (path.far_port != kNoPort) {
            if (path.ports != 0 || path.controller) return kTwoVersions;
            packet.set_out_port(path.far_port);
            return kForward;
        }
        if (path.ports == 0) return path.controller ? kController : kDrop;
        uint16_t port = 0;
        while ((path.ports >> port & 1) == 0) ++port;
        if (path.ports >> port == 1 && !path.controller) packet.set_out_port(port);
        else packet.set_out_port(static_cast<uint16_t>(kPortSet | path.ports | (path.controller ? kPortSetPunt : 0u)));
        return kForward;
    }

    /// A change of bytes.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t edit(Packet& packet, Path& path, const Action& action, Lanes lanes) {
        switch (action.kind) {
            case ActionKind::push_vlan:
                if (action.high != 0 && packet.layers().vlan_count > 0) return kDone;
                if (!may_grow(path, eth::kVlanBytes) || !push_vlan(packet, static_cast<uint16_t>(action.value), lanes))
                    return kNoRoom;
                return kDone;
            case ActionKind::pop_vlan: pop_vlan(packet, lanes); return kDone;
            case ActionKind::push_mpls: {
                const uint32_t at = packet.layers().l3_offset, entry = EditMore::new_entry(packet);
                if (!may_grow(path, eth::kMplsBytes) || !packet.grow_front(eth::kMplsBytes)) return kNoRoom;
                lanes.once([&] { EditMore::fill_mpls(packet, static_cast<uint16_t>(action.value), at, entry); });
                packet.parse();
                return kDone;
            }
            case ActionKind::pop_mpls:
                if (!EditMore::has_shim(packet)) return kDone;
                lanes.once([&] { EditMore::close_mpls(packet, static_cast<uint16_t>(action.value)); });
                packet.shrink_front(eth::kMplsBytes);
                packet.parse();
                return kDone;
            case ActionKind::push_pbb: {
                const uint32_t itag = EditMore::new_itag(packet);
                if (!may_grow(path, eth::kPbbBytes) || !packet.grow_front(eth::kPbbBytes)) return kNoRoom;
                lanes.once([&] { EditMore::fill_pbb(packet, itag); });
                packet.parse();
                return kDone;
            }
            case ActionKind::pop_pbb: {
                const uint32_t bytes = packet.layers().l3_offset + 4u;
                // What is inside must be a frame, too.
                if (!EditMore::has_itag(packet) || packet.present() < bytes + eth::kHeaderBytes) return kDone;
                packet.shrink_front(bytes);
                packet.parse();
                return kDone;
            }
            case ActionKind::dec_ttl:
                if (!packet.layers().is_ip()) return kDone;
                if (packet.ip_ttl() <= 1) return kTtlExpired;
                lanes.once([&] { change(packet, action); });
                return kDone;
            case ActionKind::dec_mpls_ttl:
                if (!EditMore::has_shim(packet)) return kDone;
                if (EditMore::mpls_ttl(packet) <= 1) return kTtlExpired;
                lanes.once([&] { EditMore::set_bits(packet.l3(), 0xffu, EditMore::mpls_ttl(packet) - 1u); });
                return kDone;
            case ActionKind::set_eth_type:
            case ActionKind::set_ip_protocol:
            case ActionKind::set_vlan_id:
            case ActionKind::set_vlan_pcp:
                lanes.once([&] { change_more(packet, action); });
                packet.parse();
                return kDone;
            default: lanes.once([&] { change_more(packet, action); }); return kDone;
        }
    }

    MILLRACE_DEVICE static bool may_grow(Path& path, uint32_t bytes) {
        if (path.grown + bytes > kMaxGrowth) return false;
        path.grown = static_cast<uint8_t>(path.grown + bytes);
        return true;
    }

    MILLRACE_DEVICE static void change_more(Packet& packet, const Action& action) {
        switch (action.kind) {
            case ActionKind::set_sctp_src:
                return EditMore::set_sctp_port(packet, 0, static_cast<uint16_t>(action.value));
            case ActionKind::set_sctp_dst:
                return EditMore::set_sctp_port(packet, 2, static_cast<uint16_t>(action.value));
            case ActionKind::set_eth_type: return EditMore::set_type(packet, static_cast<uint16_t>(action.value));
            case ActionKind::set_ip_protocol:
                return EditMore::set_ip_protocol(packet, static_cast<uint8_t>(action.value));
            case ActionKind::set_icmp: return EditMore::set_icmp(packet, action);
            case ActionKind::set_arp: return EditMore::set_arp(packet, action);
            case ActionKind::set_flow_label: return EditMore::set_flow_label(packet, action.value);
            case ActionKind::set_nd_target: return EditMore::set_nd_target(packet, action);
            case ActionKind::set_nd_option: return EditMore::set_nd_option(packet, action);
            case ActionKind::set_mpls:
                if (EditMore::has_shim(packet))
                    EditMore::set_bits(packet.l3(), static_cast<uint32_t>(action.high), action.value);
                return;
            case ActionKind::set_pbb:
                if (EditMore::has_itag(packet))
                    EditMore::set_bits(packet.l3(), static_cast<uint32_t>(action.high), action.value);
                return;
            case ActionKind::copy_ttl_out: return EditMore::copy_ttl_out(packet);
            case ActionKind::copy_ttl_in: return EditMore::copy_ttl_in(packet);
            default: return change(packet, action);
        }
    }

    /// Has a meter judge the packet.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t metered(Packet& packet, const Tables& tables, const Path& path, uint32_t slot,
                                            Lanes lanes) {
        if (slot >= tables.meters.size()) return kDone;
        const uint32_t band = Metering::band_of(tables, tables.meters[slot], packet.length(), lanes);
        if (band == Metering::kNone) return kDone;
        const uint32_t precedence = tables.bands[band].precedence;
        if (precedence == 0) return kMetered;
        if (path.sent) return kTwoVersions;
        lanes.once([&] { Metering::remark(packet, precedence); });
        return kDone;
    }
};

}  // namespace millrace::nf::flow_switch
