#include "millrace/openflow/wire/actions.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "millrace/packet/headers.hpp"

namespace millrace::openflow {
namespace {

using flow_switch::Action;
using flow_switch::ActionKind;
using flow_switch::ActionList;
using flow_switch::ActionMistake;
using flow_switch::FlowMatch;
using flow_switch::Group;
using flow_switch::MatchField;
using flow_switch::PortNumbers;

constexpr uint16_t kActionCodes = 2;       // OFPET_BAD_ACTION
constexpr uint16_t kNoMaxLength = 0xffff;  // OFPCML_NO_BUFFER: whole packets
constexpr size_t kBucketBytes = 16;

/// An action with its bytes, the header of 4 left out.
struct RawAction {
    uint16_t type;
    ByteView body;
};

/// Actions by type: their length, where all are alike (SET_FIELD's are not), what they are to the switch, and whether
/// only a pipeline has them.
constexpr struct KnownAction {
    uint16_t type, bytes;
    ActionKind kind;
    bool pipeline;
} kActions[] = {
    {action::kOutput, 16, ActionKind::output, false},         {action::kCopyTtlOut, 8, ActionKind::copy_ttl_out, true},
    {action::kCopyTtlIn, 8, ActionKind::copy_ttl_in, true},   {action::kSetMplsTtl, 8, ActionKind::set_mpls, true},
    {action::kDecMplsTtl, 8, ActionKind::dec_mpls_ttl, true}, {action::kPushVlan, 8, ActionKind::push_vlan, false},
    {action::kPopVlan, 8, ActionKind::pop_vlan, false},       {action::kPushMpls, 8, ActionKind::push_mpls, true},
    {action::kPopMpls, 8, ActionKind::pop_mpls, true},        {action::kGroup, 8, ActionKind::group, false},
    {action::kSetNwTtl, 8, ActionKind::set_ttl, false},       {action::kDecNwTtl, 8, ActionKind::dec_ttl, false},
    {action::kSetField, 0, ActionKind::output, false},        {action::kPushPbb, 8, ActionKind::push_pbb, true},
    {action::kPopPbb, 8, ActionKind::pop_pbb, true}};

const KnownAction* find_action(uint16_t type) {
    const auto known = std::find_if(std::begin(kActions), std::end(kActions),
                                    [&](const auto& entry) { return entry.type == type; });
    return known == std::end(kActions) ? nullptr : known;
}

std::vector<RawAction> split_actions(ByteView bytes) {
    Reader reader(bytes, error::action_length);
    std::vector<RawAction> actions;
    while (reader.left() > 0) {
        const uint16_t type = reader.u16();
        const uint16_t length = reader.u16();
        if (length < 8 || length % 8 != 0) throw error::action_length;
        const ByteView body = reader.take(length - 4u);
        if (type == action::kExperimenter) throw error::action_experimenter;
        const KnownAction* const known = find_action(type);
        if (known == nullptr) throw error::action_type;
        if (known->bytes != 0 && length != known->bytes) throw error::action_length;
        actions.push_back({type, body});
    }
    return actions;
}

void set_field(ByteView body, ActionList& list) {
    Reader reader(body, error::action_set_length);
    const OxmField oxm = read_oxm(reader, error::action_set_type, error::action_set_length);
    if (oxm.field->set == nullptr) throw error::action_set_type;
    if (oxm.mask != oxm.field->all_ones() || (oxm.value & ~oxm.field->all_ones()).any())
        throw error::action_set_argument;
    const Action made = oxm.field->set(oxm.value);
    if (made.kind == ActionKind::set_vlan_id && (oxm.value.low & nf::classify::FlowFields::kTagged) == 0)
        throw error::action_set_argument;
    list.change(made);
}

void output(uint32_t to, ActionList& list, const PortNumbers& ports, bool* to_table) {
    switch (to) {
        case port::kController: return list.controller();
        case port::kInPort: return list.in_port();
        case port::kFlood: return list.flood();
        case port::kAll: return list.all();
        case port::kTable:
            if (to_table == nullptr) throw error::action_port;
            *to_table = true;
            return;
        default:
            const auto found = ports.by_number().find(to);
            if (found == ports.by_number().end()) throw error::action_port;
            list.output(found->second);
    }
}

void add(const RawAction& raw, ActionList& list, const PortNumbers& ports, bool* to_table) {
    Reader reader(raw.body, error::action_length);
    switch (raw.type) {
        case action::kOutput: return output(reader.u32(), list, ports, to_table);
        case action::kGroup: return list.group(reader.u32());
        case action::kSetField: return set_field(raw.body, list);
        default: break;
    }
    const ActionKind kind = find_action(raw.type)->kind;
    switch (raw.type) {
        case action::kPushVlan:
        case action::kPushMpls:
        case action::kPopMpls:
        case action::kPushPbb: return list.change({kind, reader.u16(), 0, 0});
        case action::kSetNwTtl: return list.change({kind, reader.u8(), 0, 0});
        case action::kSetMplsTtl: return list.change({kind, reader.u8(), 0xff, 0});
        default: return list.change({kind, 0, 0, 0});
    }
}

std::vector<Action> make_list(const std::vector<RawAction>& actions, const FlowMatch* match, const PortNumbers& ports,
                              bool* to_table) {
    try {
        ActionList list(match, ports.count());
        for (const RawAction& raw : actions) add(raw, list, ports, to_table);
        return list.finish();
    } catch (const ActionMistake& mistake) {
        throw Error{kActionCodes, static_cast<uint16_t>(mistake.code)};
    }
}

/// What is written into the action set, each action alone. Together, in the order of the set and behind what is
/// applied, they show whether each gets what it works on.
std::vector<Action> make_set(const std::vector<RawAction>& written, const std::vector<RawAction>& applied,
                             const FlowMatch& match, const PortNumbers& ports) {
    std::map<unsigned, RawAction> in_order;
    std::vector<Action> set;
    for (const RawAction& raw : written) {
        const std::vector<Action> one = make_list({raw}, nullptr, ports, nullptr);
        if (one.empty()) continue;
        in_order.insert_or_assign(flow_switch::place_in_set(one.front()), raw);
        set.insert(set.end(), one.begin(), one.end());
    }
    std::vector<RawAction> together;
    const auto add = [&](const RawAction& raw) {
        if (raw.type != action::kGroup && raw.type != action::kOutput) together.push_back(raw);
    };
    for (const RawAction& raw : applied) add(raw);
    for (const auto& [place, raw] : in_order) add(raw);
    make_list(together, &match, ports, nullptr);
    return set;
}

void write_output(Writer& writer, uint32_t port) {
    writer.u16(action::kOutput).u16(16).u32(port).u16(port == port::kController ? kNoMaxLength : 0).zeros(6);
}

void write_set_field(Writer& writer, const MatchField& field, flow_switch::FieldValue value) {
    const size_t begin = writer.size();
    writer.u16(action::kSetField).u16(0);
    write_oxm(writer, {&field, value, field.all_ones()});
    writer.pad_to_8(begin);
    writer.set_u16(begin + 2, writer.size() - begin);
}

/// The field that an action sets, and to what; with TCP and UDP the match says which it is.
void write_change(Writer& writer, const Action& wanted, const FlowMatch* match) {
    const auto find = [&](bool met) -> bool {
        for (const MatchField& field : flow_switch::match_fields()) {
            const auto value = flow_switch::value_set(field, wanted);
            if (!value) continue;
            if (met && match != nullptr && !flow_switch::meets(field.need, *match)) continue;
            write_set_field(writer, field, *value);
            return true;
        }
        return false;
    };
    // Behind an action that changes the type the match says no more what there is.
    if (!find(true)) find(false);
}

void write_action(Writer& writer, const Action& wanted, const FlowMatch* match, const PortNumbers& ports) {
    switch (wanted.kind) {
        case ActionKind::output: return write_output(writer, ports.number(static_cast<uint16_t>(wanted.value)));
        case ActionKind::output_set:
            for (uint16_t port = 0; port < kPortSetPorts; ++port)
                if ((wanted.low >> port & 1) != 0) write_output(writer, ports.number(port));
            if ((wanted.low & flow_switch::WrittenOutputs::kFlood) != 0) write_output(writer, port::kFlood);
            if ((wanted.low & flow_switch::WrittenOutputs::kAll) != 0) write_output(writer, port::kAll);
            if (wanted.high != 0) write_output(writer, port::kInPort);
            return;
        case ActionKind::controller: return write_output(writer, port::kController);
        case ActionKind::group: writer.u16(action::kGroup).u16(8).u32(wanted.value); return;
        case ActionKind::set_ttl: writer.u16(action::kSetNwTtl).u16(8).u8(wanted.value).zeros(3); return;
        case ActionKind::set_mpls:
            if (wanted.high != 0xff) return write_change(writer, wanted, match);
            writer.u16(action::kSetMplsTtl).u16(8).u8(wanted.value).zeros(3);
            return;
        default: break;
    }
    for (const KnownAction& known : kActions) {
        if (known.kind != wanted.kind) continue;
        const bool typed = wanted.kind == ActionKind::push_vlan || wanted.kind == ActionKind::push_mpls ||
                           wanted.kind == ActionKind::pop_mpls || wanted.kind == ActionKind::push_pbb;
        writer.u16(known.type).u16(8).u16(typed ? wanted.value : 0).zeros(2);
        return;
    }
    write_change(writer, wanted, match);
}

/// An instruction with actions.
void write_actions(Writer& writer, uint16_t type, const std::vector<Action>& actions, const FlowMatch* match,
                   const PortNumbers& ports) {
    if (actions.empty()) return;
    const size_t begin = writer.size();
    writer.u16(type).u16(0).zeros(4);
    for (const Action& each : actions) write_action(writer, each, match, ports);
    writer.set_u16(begin + 2, writer.size() - begin);
}

/// What decides whether a bucket is live.
void read_watched(uint32_t port, uint32_t group, const PortNumbers& ports, Group::Bucket& bucket) {
    if (port == port::kAny && group == group::kAny) throw error::group_watch;
    if (port != port::kAny) {
        const auto found = ports.by_number().find(port);
        if (found == ports.by_number().end()) throw error::group_bad_watch;
        bucket.watch_port = found->second;
    }
    if (group != group::kAny) bucket.watch_group = group;
}

}  // namespace

std::vector<Action> read_actions(ByteView bytes, const FlowMatch* match, const PortNumbers& ports, bool* to_table) {
    return make_list(split_actions(bytes), match, ports, to_table);
}

std::vector<Action> read_instructions(ByteView bytes, uint8_t table, const FlowMatch& match, const PortNumbers& ports) {
    Reader reader(bytes, error::instruction_length);
    flow_switch::Instructions made;
    std::vector<RawAction> applied, written;
    while (reader.left() > 0) {
        const uint16_t type = reader.u16();
        const uint16_t length = reader.u16();
        if (length < 8 || length % 8 != 0) throw error::instruction_length;
        Reader body = reader.part(length - 4u, error::instruction_length);
        const auto exactly = [&](uint16_t wanted) {
            if (length != wanted) throw error::instruction_length;
        };
        switch (type) {
            case instruction::kApplyActions:
                body.skip(4);
                applied = split_actions(body.rest());
                break;
            case instruction::kWriteActions:
                body.skip(4);
                written = split_actions(body.rest());
                break;
            case instruction::kClearActions: made.clears = true; break;
            case instruction::kGotoTable:
                exactly(8);
                made.next_table = body.u8();
                if (*made.next_table <= table || *made.next_table >= flow_switch::Flow::kTables)
                    throw error::instruction_table;
                break;
            case instruction::kWriteMetadata: {
                exactly(24);
                body.skip(4);
                const uint64_t bits = body.u64();
                made.metadata = {bits, body.u64()};
                break;
            }
            case instruction::kMeter:
                exactly(8);
                made.meter = body.u32();
                break;
            case instruction::kExperimenter: throw error::instruction_experimenter;
            default: throw error::instruction_unknown;
        }
    }
    made.applied = make_list(applied, &match, ports, nullptr);
    made.written = make_set(written, applied, match, ports);
    try {
        return flow_switch::compile(made, table, match, ports.count());
    } catch (const ActionMistake& mistake) {
        throw Error{kActionCodes, static_cast<uint16_t>(mistake.code)};
    }
}

void read_buckets(ByteView bytes, Group& group, const PortNumbers& ports) {
    group.from_controller = true;
    group.wire.assign(bytes.begin(), bytes.end());
    Reader reader(bytes, error::group_bucket);
    uint64_t weights = 0;
    while (reader.left() > 0) {
        const uint16_t length = reader.u16();
        if (length < kBucketBytes || length % 8 != 0) throw error::group_bucket;
        Reader bucket = reader.part(length - 2u, error::group_bucket);
        const uint16_t weight = bucket.u16();
        Group::Bucket made;
        const uint32_t watch_port = bucket.u32(), watch_group = bucket.u32();
        bucket.skip(4);
        made.weight = group.type == Group::Type::select ? weight : uint16_t{1};
        if (group.type == Group::Type::fast_failover) read_watched(watch_port, watch_group, ports, made);
        made.actions = read_actions(bucket.rest(), nullptr, ports);
        for (const Action& each : made.actions)
            if (each.kind == ActionKind::group) throw error::group_chaining;
        weights += made.weight;
        group.buckets.push_back(std::move(made));
    }
    if (group.type == Group::Type::indirect && group.buckets.size() != 1) throw error::group_invalid;
    if (weights > Group::kMaxWeight) throw error::group_out_of_buckets;
    if (group.type != Group::Type::all) return;
    try {
        flow_switch::merge_buckets(group, ports.count());
    } catch (const ActionMistake& mistake) {
        throw Error{kActionCodes, static_cast<uint16_t>(mistake.code)};
    }
}

void write_instructions(Writer& writer, const flow_switch::Flow& flow, const PortNumbers& ports) {
    if (flow.file == flow_switch::Flow::kFromController) {
        writer.bytes(flow.instructions);
        return;
    }
    const flow_switch::Instructions parts = flow_switch::instructions_of(flow.actions);
    if (parts.meter) writer.u16(instruction::kMeter).u16(8).u32(*parts.meter);
    write_actions(writer, instruction::kApplyActions, parts.applied, &flow.match, ports);
    if (parts.clears) writer.u16(instruction::kClearActions).u16(8).zeros(4);
    write_actions(writer, instruction::kWriteActions, parts.written, &flow.match, ports);
    if (parts.metadata)
        writer.u16(instruction::kWriteMetadata).u16(24).zeros(4).u64(parts.metadata->first).u64(parts.metadata->second);
    if (parts.next_table) writer.u16(instruction::kGotoTable).u16(8).u8(*parts.next_table).zeros(3);
}

void write_buckets(Writer& writer, const Group& group, const PortNumbers& ports) {
    if (group.from_controller) {
        writer.bytes(group.wire);
        return;
    }
    for (const Group::Bucket& bucket : group.buckets) {
        const size_t begin = writer.size();
        writer.u16(0)
            .u16(group.type == Group::Type::select ? bucket.weight : 0)
            .u32(bucket.watch_port ? ports.number(*bucket.watch_port) : port::kAny)
            .u32(bucket.watch_group.value_or(group::kAny))
            .zeros(4);
        for (const Action& each : bucket.actions) write_action(writer, each, nullptr, ports);
        writer.set_u16(begin, writer.size() - begin);
    }
}

std::vector<uint16_t> known_actions(bool pipeline) {
    std::vector<uint16_t> all;
    for (const KnownAction& known : kActions)
        if (pipeline || !known.pipeline) all.push_back(known.type);
    return all;
}

std::vector<uint16_t> known_instructions(bool pipeline) {
    std::vector<uint16_t> all = {instruction::kWriteActions, instruction::kApplyActions, instruction::kClearActions};
    if (pipeline) all.insert(all.end(), {instruction::kGotoTable, instruction::kWriteMetadata, instruction::kMeter});
    return all;
}

}  // namespace millrace::openflow
