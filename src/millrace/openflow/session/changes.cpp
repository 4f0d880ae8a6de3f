// The messages that change the switch, or send packets through it.
#include <algorithm>

#include "millrace/nf/switch/pipeline.hpp"
#include "millrace/openflow/session/session.hpp"
#include "millrace/openflow/wire/actions.hpp"

namespace millrace::openflow {
namespace {

using flow_switch::FlowChange;
using flow_switch::Refusal;
using flow_switch::TableChange;
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

/// What an error says of a message.
Bytes first_of(ByteView message) {
    const ByteView first = message.first(std::min<size_t>(message.size(), 64));
    return {first.begin(), first.end()};
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

flow_switch::Change Session::read_flow_mod(const Message& message) const {
    const Control& control = datapath_.control();
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
    return flow_switch::AskedFlowChange{std::move(change), check_overlap};
}

flow_switch::Change Session::read_group_mod(const Message& message) const {
    Reader body(message.body, error::bad_length);
    const uint16_t command = body.u16();
    const uint8_t type = body.u8();
    body.skip(1);
    flow_switch::Group made;
    made.id = body.u32();
    if (command > 2) throw error::group_command;
    const auto kind = static_cast<TableChange>(command);
    if (kind == TableChange::remove)
        return flow_switch::GroupChange{kind, {}, made.id == group::kAll ? std::nullopt : std::optional(made.id)};
    if (made.id > flow_switch::Group::kMaxId) throw error::group_invalid;
    if (type > 3) throw error::group_type;
    made.type = static_cast<flow_switch::Group::Type>(type);
    read_buckets(body.rest(), made, datapath_.control().ports());
    return flow_switch::GroupChange{kind, std::move(made), std::nullopt};
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

flow_switch::Change Session::read_meter_mod(const Message& message) const {
    constexpr uint16_t kPackets = 2, kKbps = 1, kAllFlags = 0xf;  // OFPMF_…
    const Control& control = datapath_.control();
    Reader body(message.body, error::bad_length);
    const uint16_t command = body.u16();
    flow_switch::Meter made;
    made.flags = body.u16();
    made.id = body.u32();
    made.from_controller = true;
    if (command > 2) throw error::meter_command;
    const auto kind = static_cast<TableChange>(command);
    if (kind == TableChange::remove)
        return flow_switch::MeterChange{kind, {}, made.id == meter::kAll ? std::nullopt : std::optional(made.id)};
    if ((made.flags & ~kAllFlags) != 0 || (made.flags & (kKbps | kPackets)) == (kKbps | kPackets))
        throw error::meter_flags;
    if (made.id == 0 || made.id > flow_switch::Meter::kMaxId || !control.pipeline()) throw error::meter_invalid;
    made.by_packets = (made.flags & kPackets) != 0;
    read_bands(body.rest(), made);
    return flow_switch::MeterChange{kind, std::move(made), std::nullopt};
}

flow_switch::Change Session::read_change(const Message& message) const {
    switch (message.type) {
        case Type::group_mod: return read_group_mod(message);
        case Type::meter_mod: return read_meter_mod(message);
        default: return read_flow_mod(message);
    }
}

void Session::on_change(const Message& message) {
    try {
        const uint64_t version = datapath_.control().make(read_change(message));
        if (message.type == Type::flow_mod) pending_.push_back({version, message.xid, first_of(message.whole)});
    } catch (const Refusal& refusal) {
        throw error_of(refusal);
    }
}

void Session::control_bundle(const Message& message, Reader& body) {
    const uint32_t id = body.u32();
    const uint16_t type = body.u16(), flags = body.u16();
    switch (type) {
        case bundle::kOpen: bundles_.open(id, flags); break;
        case bundle::kClose: bundles_.close(id, flags); break;
        case bundle::kCommit: return commit(message, id, flags);
        case bundle::kDiscard: bundles_.discard(id); break;
        default: throw error::bundle_bad_type;
    }
    reply_to_bundle(message.xid, id, type, flags);
}

void Session::reply_to_bundle(uint32_t xid, uint32_t id, uint16_t type, uint16_t flags) {
    send(Type::experimenter, xid,
         [&](Writer& writer) { writer.u32(kOnf).u32(kBundleControl).u32(id).u16(type + 1u).u16(flags); });
}

/// A message within this one is looked at now, as far as that can be; whether it fits the flows and groups that there
/// are then shows when the bundle is committed.
void Session::add_to_bundle(const Message& message, Reader& body) {
    const uint32_t id = body.u32();
    body.skip(2);
    const uint16_t flags = body.u16();
    const ByteView inner = body.rest();
    Reader header(inner, error::bundle_bad_length);
    const uint8_t version = header.u8(), type = header.u8();
    const uint16_t length = header.u16();
    const uint32_t xid = header.u32();
    if (version != kVersion) throw error::bad_version;
    if (length < kHeaderBytes || length > inner.size()) throw error::bundle_bad_length;
    if (xid != message.xid) throw error::bundle_bad_xid;
    const ByteView whole = inner.first(length);  // properties may follow, of which none is known
    const Message wrapped{static_cast<Type>(type), xid, whole, whole.subspan(kHeaderBytes)};
    if (wrapped.type != Type::flow_mod && wrapped.type != Type::group_mod && wrapped.type != Type::meter_mod)
        throw error::bundle_unsupported;
    if (!is_long_enough(wrapped)) throw error::bundle_bad_length;
    bundles_.add(id, flags, {read_change(wrapped), xid, first_of(whole)}, length);
}

/// All or nothing; what fails is told with the error that it would have been by itself.
void Session::commit(const Message& message, uint32_t id, uint16_t flags) {
    std::vector<BundledChange> bundled = bundles_.take(id, flags);
    std::vector<flow_switch::Change> changes;
    changes.reserve(bundled.size());
    for (BundledChange& change : bundled) changes.push_back(std::move(change.change));
    uint64_t version = 0;
    try {
        version = datapath_.control().make_all(std::move(changes));
    } catch (const flow_switch::RefusedChange& refused) {
        const BundledChange& change = bundled[refused.index];
        refuse({Type::flow_mod, change.xid, change.message, {}}, error_of(refused.refusal));
        throw error::bundle_failed;
    }
    barrier_ = Barrier{
        version, [this, xid = message.xid, first = first_of(message.whole), id, flags](Control::Progress progress) {
            if (progress == Control::Progress::at_work) return reply_to_bundle(xid, id, bundle::kCommit, flags);
            refuse({Type::experimenter, xid, first, {}}, error::bundle_failed);
        }};
    wait_for_changes();
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
    constexpr uint32_t kHeadroom = flow_switch::Pipeline::kMaxGrowth;
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
