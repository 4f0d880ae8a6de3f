// The messages that change the switch, or send packets through it.
#include <algorithm>

#include "millrace/nf/switch/pipeline.hpp"
#include "millrace/openflow/actions.hpp"
#include "millrace/openflow/session.hpp"

namespace millrace::openflow {
namespace {

using flow_switch::FlowChange;
using flow_switch::Refusal;
using nf::flow_switch::Control;

constexpr uint16_t kCheckOverlap = 2, kResetCounts = 4, kKnownFlags = 0x1f;  // OFPFF_…
constexpr uint8_t kAllTables = 0xff;                                         // OFPTT_ALL

Error error_of(Refusal refusal) {
    switch (refusal) {
        case Refusal::overlap: return error::flow_overlap;
        case Refusal::table_full: return error::flow_table_full;
        case Refusal::no_group: return error::action_group;
        case Refusal::group_exists: return error::group_exists;
        case Refusal::no_group_to_modify: return error::group_unknown;
        case Refusal::too_many_groups: return error::group_out_of_groups;
        case Refusal::no_meter: return error::meter_invalid;
        case Refusal::meter_exists: return error::meter_exists;
        case Refusal::no_meter_to_modify: return error::meter_unknown;
        case Refusal::too_many_meters: return error::meter_out_of_meters;
        case Refusal::no_pipeline: return error::instruction_unsupported;
    }
    return error::bad_type;
}

/// What `out_port` of a filter means: any, a port's index, a number that OpenFlow reserves, or one that no flow sends
/// to.
std::optional<uint32_t> filter_port(uint32_t number, const flow_switch::PortNumbers& ports) {
    if (number == port::kAny) return std::nullopt;
    using Filter = flow_switch::FlowFilter;
    static_assert(Filter::kToController == port::kController && Filter::kInPort == port::kInPort);
    static_assert(Filter::kFlood == port::kFlood && Filter::kAll == port::kAll);
    if (number == port::kController || number == port::kInPort || number == port::kFlood || number == port::kAll)
        return number;
    const auto found = ports.by_number().find(number);
    return found == ports.by_number().end() ? uint32_t{kNoPort} : found->second;
}

}  // namespace

unsigned tables_of(const Control& control) { return control.pipeline() ? flow_switch::Flow::kTables : 1; }

flow_switch::FlowFilter read_filter(uint32_t out_port, uint32_t out_group, uint64_t cookie, uint64_t mask,
                                    const flow_switch::PortNumbers& ports) {
    return {cookie, mask, filter_port(out_port, ports),
            out_group == group::kAny ? std::nullopt : std::optional(out_group)};
}

void Session::on_flow_mod(const Message& message) {
    Control& control = datapath_.control();
    const auto ports = control.ports();
    Reader body(message.body, error::bad_length);
    FlowChange change;
    change.flow.cookie = body.u64();
    const uint64_t cookie_mask = body.u64();
    const uint8_t table = body.u8(), command = body.u8();
    change.flow.idle_timeout = body.u16();
    change.flow.hard_timeout = body.u16();
    change.flow.priority = body.u16();
    const uint32_t buffer = body.u32(), out_port = body.u32(), out_group = body.u32();
    change.flow.flags = body.u16();
    body.skip(2);
    if (command > 4) throw error::flow_command;
    change.kind = static_cast<FlowChange::Kind>(command);
    const bool all_tables = table == kAllTables && change.removes();
    if (table >= tables_of(control) && !all_tables) throw error::flow_table_id;
    if ((change.flow.flags & ~kKnownFlags) != 0) throw error::flow_flags;
    if (buffer != kNoBuffer && !change.removes()) throw error::buffer_unknown;
    change.flow.match = read_match(body, ports);
    if (!all_tables) change.flow.set_table(table);
    change.flow.file = flow_switch::Flow::kFromController;
    if (!change.removes()) {
        const ByteView instructions = body.rest();
        change.flow.actions = read_instructions(instructions, table, change.flow.match, ports);
        change.flow.instructions.assign(instructions.begin(), instructions.end());
    }
    // To modify or remove by cookie, those bits; to add they are the new flow's.
    change.filter = read_filter(out_port, out_group, change.flow.cookie, cookie_mask, ports);
    if (!change.removes()) change.filter.out_port = change.filter.out_group = std::nullopt;
    change.reset_counts = (change.flow.flags & kResetCounts) != 0;
    const bool check_overlap = change.kind == FlowChange::Kind::add && (change.flow.flags & kCheckOverlap) != 0;
    try {
        const uint64_t version = control.change(std::move(change), check_overlap);
        const ByteView first = message.whole.first(std::min<size_t>(message.whole.size(), 64));
        pending_.push_back({version, message.xid, Bytes(first.begin(), first.end())});
    } catch (const Refusal& refusal) {
        throw error_of(refusal);
    }
}

void Session::on_group_mod(const Message& message) {
    Control& control = datapath_.control();
    Reader body(message.body, error::bad_length);
    const uint16_t command = body.u16();
    const uint8_t type = body.u8();
    body.skip(1);
    flow_switch::Group made;
    made.id = body.u32();
    try {
        if (command == 2) {  // delete
            control.remove_group(made.id == group::kAll ? std::nullopt : std::optional(made.id));
            return;
        }
        if (command > 2) throw error::group_command;
        if (made.id > flow_switch::Group::kMaxId) throw error::group_invalid;
        if (type > 3) throw error::group_type;
        made.type = static_cast<flow_switch::Group::Type>(type);
        read_buckets(body.rest(), made, control.ports());
        if (command == 0) control.add_group(std::move(made));
        else control.modify_group(std::move(made));
    } catch (const Refusal& refusal) {
        throw error_of(refusal);
    }
}

namespace {

/// The bands that fill `bytes`. Throws Error.
void read_bands(ByteView bytes, flow_switch::Meter& meter) {
    constexpr uint16_t kDrop = 1, kRemark = 2, kBandBytes = 16;  // OFPMBT_…
    meter.wire.assign(bytes.begin(), bytes.end());
    Reader reader(bytes, error::bad_length);
    while (reader.left() > 0) {
        const uint16_t type = reader.u16(), length = reader.u16();
        if (length != kBandBytes) throw error::bad_length;
        Reader body = reader.part(length - 4u, error::bad_length);
        flow_switch::Meter::Band band;
        band.rate = body.u32();
        band.burst = body.u32();
        if (type == kRemark) band.precedence = body.u8();
        if (type != kDrop && (type != kRemark || band.precedence == 0)) throw error::meter_band;
        if (band.rate == 0) throw error::meter_rate;
        meter.bands.push_back(band);
    }
    if (meter.bands.size() > flow_switch::Meter::kMaxBands) throw error::meter_out_of_bands;
}

}  // namespace

void Session::on_meter_mod(const Message& message) {
    constexpr uint16_t kAdd = 0, kModify = 1, kDelete = 2;        // OFPMC_…
    constexpr uint16_t kPackets = 2, kKbps = 1, kAllFlags = 0xf;  // OFPMF_…
    Control& control = datapath_.control();
    Reader body(message.body, error::bad_length);
    const uint16_t command = body.u16();
    flow_switch::Meter made;
    made.flags = body.u16();
    made.id = body.u32();
    made.from_controller = true;
    try {
        if (command == kDelete) {
            control.remove_meter(made.id == meter::kAll ? std::nullopt : std::optional(made.id));
            return;
        }
        if (command != kAdd && command != kModify) throw error::meter_command;
        if ((made.flags & ~kAllFlags) != 0 || (made.flags & (kKbps | kPackets)) == (kKbps | kPackets))
            throw error::meter_flags;
        if (made.id == 0 || made.id > flow_switch::Meter::kMaxId || !control.pipeline()) throw error::meter_invalid;
        made.by_packets = (made.flags & kPackets) != 0;
        read_bands(body.rest(), made);
        if (command == kAdd) control.add_meter(std::move(made));
        else control.modify_meter(std::move(made));
    } catch (const Refusal& refusal) {
        throw error_of(refusal);
    }
}

/// Ports are what the configuration says; only what changes nothing is accepted.
void Session::on_port_mod(const Message& message) {
    Reader body(message.body, error::bad_length);
    const uint32_t number = body.u32();
    body.skip(4);
    const ByteView mac = body.take(6);
    body.skip(2);
    body.skip(4);
    const uint32_t mask = body.u32();
    const std::vector<PortView> ports = datapath_.ports();
    const auto found = std::find_if(ports.begin(), ports.end(),
                                    [&](const PortView& port) { return port.number == number; });
    if (found == ports.end()) throw error::port_mod_port;
    if (!std::equal(mac.begin(), mac.end(), found->mac.begin())) throw error::port_mod_address;
    if (mask != 0) throw error::port_mod_config;
}

void Session::on_table_mod(const Message& message) {
    Reader body(message.body, error::bad_length);
    const uint8_t table = body.u8();
    if (table >= tables_of(datapath_.control()) && table != kAllTables) throw error::table_mod_table;
    body.skip(3);
    if (body.u32() != 0) throw error::table_mod_config;
}

uint16_t Session::index_of_in_port(uint32_t number) const {
    if (number == port::kController || number == port::kAny) return kNoPort;
    const auto ports = datapath_.control().ports();
    const auto found = ports.by_number().find(number);
    if (found == ports.by_number().end()) throw error::bad_port;
    return found->second;
}

void Session::on_packet_out(const Message& message) {
    constexpr uint32_t kHeadroom = flow_switch::Pipeline::kMostGrowth;
    Reader body(message.body, error::bad_length);
    const uint32_t buffer = body.u32(), in_port = body.u32();
    const uint16_t action_bytes = body.u16();
    body.skip(6);
    if (buffer != kNoBuffer) throw error::buffer_unknown;
    const uint16_t in_index = index_of_in_port(in_port);
    bool to_table = false;
    const std::vector<flow_switch::Action> actions = read_actions(body.take(action_bytes), nullptr,
                                                                  datapath_.control().ports(), &to_table);
    const ByteView frame = body.rest();
    if (frame.size() < eth::kHeaderBytes) throw error::bad_packet;
    Bytes room(kHeadroom + frame.size());
    std::copy(frame.begin(), frame.end(), room.begin() + kHeadroom);
    Packet packet;
    packet.attach(room.data() + kHeadroom, static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()),
                  kHeadroom, 0);
    packet.set_in_port(in_index);
    packet.parse();
    using flow_switch::ActionKind;
    const bool plain = std::all_of(actions.begin(), actions.end(),
                                   [](const auto& each) { return each.kind >= ActionKind::output; });
    if (!plain && packet.layers().malformed != Malformed::no) throw error::bad_packet;
    try {
        const uint32_t outcome = datapath_.control().run(packet, actions);
        send_out(packet, in_port, outcome);
    } catch (const Refusal& refusal) {
        throw error_of(refusal);
    }
    if (to_table) inject({packet.data(), packet.length()}, in_index, kNoPort);
}

void Session::inject(ByteView frame, uint16_t in_port, uint16_t out_port) {
    Control::Traffic& traffic = datapath_.control().traffic();
    ++(datapath_.inject(frame, in_port, out_port) ? traffic.packet_outs : traffic.lost_packet_outs);
}

/// A packet that the controller sends goes where its actions say: to ports, and back to the controller.
void Session::send_out(Packet& packet, uint32_t in_port, uint32_t outcome) {
    using flow_switch::Switch;
    const ByteView frame{packet.data(), packet.length()};
    uint16_t to = packet.out_port();
    const bool both = is_port_set(to) && (to & kPortSetPunt) != 0;
    if (both) to = static_cast<uint16_t>(to & ~kPortSetPunt);
    if (outcome == Switch::kForward) inject(frame, packet.in_port(), to);
    if (outcome == Switch::kController || (outcome == Switch::kForward && both))
        packet_in({frame, in_port, PacketInReason::action, ~uint64_t{0}});
}

}  // namespace millrace::openflow
