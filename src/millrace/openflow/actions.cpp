#include "millrace/openflow/actions.hpp"

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

/// The length of an action, by its type, where all are alike; SET_FIELD's are not.
constexpr struct {
    uint16_t type, bytes;
} kLengths[] = {{action::kOutput, 16}, {action::kPushVlan, 8}, {action::kPopVlan, 8},
                {action::kGroup, 8},   {action::kSetNwTtl, 8}, {action::kDecNwTtl, 8}};

constexpr uint16_t kActions[] = {action::kOutput,   action::kPushVlan, action::kPopVlan, action::kGroup,
                                 action::kSetNwTtl, action::kDecNwTtl, action::kSetField};
constexpr uint16_t kInstructions[] = {instruction::kWriteActions, instruction::kApplyActions,
                                      instruction::kClearActions};

std::vector<RawAction> split_actions(ByteView bytes) {
    Reader reader(bytes, error::action_length);
    std::vector<RawAction> actions;
    while (reader.left() > 0) {
        const uint16_t type = reader.u16();
        const uint16_t length = reader.u16();
        if (length < 8 || length % 8 != 0) throw error::action_length;
        const ByteView body = reader.take(length - 4u);
        if (type == action::kExperimenter) throw error::action_experimenter;
        const auto known = std::find_if(std::begin(kLengths), std::end(kLengths),
                                        [&](const auto& entry) { return entry.type == type; });
        if (known == std::end(kLengths) && type != action::kSetField) throw error::action_type;
        if (known != std::end(kLengths) && length != known->bytes) throw error::action_length;
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
        case action::kPushVlan: return list.change({ActionKind::push_vlan, reader.u16(), 0, 0});
        case action::kPopVlan: return list.change({ActionKind::pop_vlan, 0, 0, 0});
        case action::kGroup: return list.group(reader.u32());
        case action::kSetNwTtl: return list.change({ActionKind::set_ttl, reader.u8(), 0, 0});
        case action::kDecNwTtl: return list.change({ActionKind::dec_ttl, 0, 0, 0});
        default: return set_field(raw.body, list);
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

/// The actions of a set: of each kind the last, in the order of section 5.10.
std::vector<RawAction> in_order_of_sets(const std::vector<RawAction>& written) {
    constexpr uint16_t kOrder[] = {action::kPopVlan,  action::kPushVlan, action::kDecNwTtl, action::kSetNwTtl,
                                   action::kSetField, action::kGroup,    action::kOutput};
    std::map<std::pair<size_t, uint32_t>, RawAction> set;
    for (const RawAction& raw : written) {
        const size_t rank = static_cast<size_t>(std::find(std::begin(kOrder), std::end(kOrder), raw.type) - kOrder);
        // Each field is set for itself: its class and number come first.
        const uint32_t field = raw.type == action::kSetField
                                   ? static_cast<uint32_t>(Reader(raw.body, error::action_set_length).u32() >> 9)
                                   : 0;
        set.insert_or_assign({rank, field}, raw);
    }
    // With a group the output is ignored.
    const bool grouped = std::any_of(set.begin(), set.end(),
                                     [](const auto& entry) { return entry.second.type == action::kGroup; });
    std::vector<RawAction> actions;
    for (const auto& [rank, raw] : set)
        if (!grouped || raw.type != action::kOutput) actions.push_back(raw);
    return actions;
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
    for (const MatchField& field : flow_switch::match_fields()) {
        if (field.set == nullptr ||
            (match != nullptr && !flow_switch::meets(field.need, *match) && field.need != flow_switch::FieldNeed::tag))
            continue;
        Action like = field.set({});
        if (like.kind == ActionKind::set_l4_src || like.kind == ActionKind::set_l4_dst) like.high = 0;
        if (like.kind != wanted.kind) continue;
        flow_switch::FieldValue value;
        switch (wanted.kind) {
            case ActionKind::set_eth_dst:
            case ActionKind::set_eth_src: value.low = wanted.low; break;
            case ActionKind::set_ip_src:
            case ActionKind::set_ip_dst:
                if (like.value != wanted.value) continue;
                value = wanted.value == 6 ? flow_switch::FieldValue{wanted.high, wanted.low}
                                          : flow_switch::FieldValue{0, wanted.high >> 32};
                break;
            case ActionKind::set_tos:
                if (like.high != wanted.high) continue;
                value.low = wanted.high == 3 ? wanted.value : wanted.value >> 2;
                break;
            case ActionKind::set_vlan_id: value.low = wanted.value | nf::classify::FlowFields::kTagged; break;
            default: value.low = wanted.value;
        }
        return write_set_field(writer, field, value);
    }
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
        case ActionKind::push_vlan: writer.u16(action::kPushVlan).u16(8).u16(wanted.value).zeros(2); return;
        case ActionKind::pop_vlan: writer.u16(action::kPopVlan).u16(8).zeros(4); return;
        case ActionKind::set_ttl: writer.u16(action::kSetNwTtl).u16(8).u8(wanted.value).zeros(3); return;
        case ActionKind::dec_ttl: writer.u16(action::kDecNwTtl).u16(8).zeros(4); return;
        default: return write_change(writer, wanted, match);
    }
}

}  // namespace

std::vector<Action> read_actions(ByteView bytes, const FlowMatch* match, const PortNumbers& ports, bool* to_table) {
    return make_list(split_actions(bytes), match, ports, to_table);
}

std::vector<Action> read_instructions(ByteView bytes, const FlowMatch& match, const PortNumbers& ports) {
    Reader reader(bytes, error::instruction_length);
    std::vector<RawAction> applied, written;
    while (reader.left() > 0) {
        const uint16_t type = reader.u16();
        const uint16_t length = reader.u16();
        if (length < 8 || length % 8 != 0) throw error::instruction_length;
        Reader body = reader.part(length - 4u, error::instruction_length);
        switch (type) {
            case instruction::kApplyActions:
                body.skip(4);
                applied = split_actions(body.rest());
                break;
            case instruction::kWriteActions:
                body.skip(4);
                written = split_actions(body.rest());
                break;
            case instruction::kClearActions: break;  // the set is empty before the only table
            case instruction::kGotoTable: throw error::instruction_table;
            case instruction::kWriteMetadata: throw error::instruction_metadata;
            case instruction::kMeter: throw error::instruction_unsupported;
            case instruction::kExperimenter: throw error::instruction_experimenter;
            default: throw error::instruction_unknown;
        }
    }
    const std::vector<RawAction> set = in_order_of_sets(written);
    applied.insert(applied.end(), set.begin(), set.end());
    return make_list(applied, &match, ports, nullptr);
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
        bucket.skip(12);  // what to watch is for groups of type fast failover
        const std::vector<Action> actions = read_actions(bucket.rest(), nullptr, ports);
        for (const Action& each : actions)
            if (each.kind == ActionKind::group) throw error::group_chaining;
        group.buckets.push_back({group.indirect ? uint16_t{1} : weight, actions});
        weights += group.buckets.back().weight;
    }
    if (group.indirect && group.buckets.size() != 1) throw error::group_invalid;
    if (weights > Group::kMaxWeight) throw error::group_out_of_buckets;
}

void write_instructions(Writer& writer, const flow_switch::Flow& flow, const PortNumbers& ports) {
    if (flow.file == flow_switch::Flow::kFromController) {
        writer.bytes(flow.instructions);
        return;
    }
    if (flow.actions.empty()) return;
    const size_t begin = writer.size();
    writer.u16(instruction::kApplyActions).u16(0).zeros(4);
    for (const Action& each : flow.actions) write_action(writer, each, &flow.match, ports);
    writer.set_u16(begin + 2, writer.size() - begin);
}

void write_buckets(Writer& writer, const Group& group, const PortNumbers& ports) {
    if (group.from_controller) {
        writer.bytes(group.wire);
        return;
    }
    for (const Group::Bucket& bucket : group.buckets) {
        const size_t begin = writer.size();
        writer.u16(0).u16(group.indirect ? 0 : bucket.weight).u32(port::kAny).u32(group::kAny).zeros(4);
        for (const Action& each : bucket.actions) write_action(writer, each, nullptr, ports);
        writer.set_u16(begin, writer.size() - begin);
    }
}

std::span<const uint16_t> known_actions() { return kActions; }
std::span<const uint16_t> known_instructions() { return kInstructions; }

}  // namespace millrace::openflow
