#include "millrace/openflow/session/session.hpp"

#include <algorithm>
#include <utility>

#include "millrace/openflow/wire/match.hpp"

namespace millrace::openflow {
namespace {

constexpr size_t kErrorData = 64;           // of the message that was wrong, at least
constexpr uint16_t kVersionBitmap = 1;      // OFPHET_VERSIONBITMAP
constexpr uint32_t kCapabilities = 0b1111;  // flow, table, port and group statistics

}  // namespace

/// What takes a message. Shorter ones are refused, and longer ones where the length is exact.
struct Session::Handler {
    Type type;
    size_t bytes;
    bool exact;
    bool changes;  ///< slaves may not
    void (Session::*handle)(const Message&);
};

const Session::Handler* Session::handler_of(uint8_t type) {
    static constexpr Handler kHandlers[] = {
        {Type::error, 12, false, false, &Session::on_error},
        {Type::echo_request, 8, false, false, &Session::on_echo_request},
        {Type::echo_reply, 8, false, false, &Session::on_echo_reply},
        {Type::experimenter, 16, false, false, &Session::on_experimenter},
        {Type::features_request, 8, true, false, &Session::on_features_request},
        {Type::get_config_request, 8, true, false, &Session::on_get_config},
        {Type::set_config, 12, true, false, &Session::on_set_config},
        {Type::packet_out, 24, false, true, &Session::on_packet_out},
        {Type::flow_mod, 56, false, true, &Session::on_change},
        {Type::group_mod, 16, false, true, &Session::on_change},
        {Type::meter_mod, 16, false, true, &Session::on_change},
        {Type::port_mod, 40, true, true, &Session::on_port_mod},
        {Type::table_mod, 16, true, true, &Session::on_table_mod},
        {Type::multipart_request, 16, false, false, &Session::on_multipart},
        {Type::barrier_request, 8, true, false, &Session::on_barrier},
        {Type::queue_get_config_request, 16, true, false, &Session::on_queue_get_config},
        {Type::role_request, 24, true, false, &Session::on_role_request},
        {Type::get_async_request, 8, true, false, &Session::on_get_async},
        {Type::set_async, 32, true, false, &Session::on_set_async},
    };
    const auto found = std::find_if(std::begin(kHandlers), std::end(kHandlers),
                                    [&](const Handler& handler) { return static_cast<uint8_t>(handler.type) == type; });
    return found == std::end(kHandlers) ? nullptr : found;
}

bool Session::is_long_enough(const Message& message) {
    return message.whole.size() >= handler_of(static_cast<uint8_t>(message.type))->bytes;
}

Session::Session(Datapath& datapath, Roles& roles) : datapath_(datapath), roles_(roles), bundles_(roles.bundles) {
    send(Type::hello, next_xid_++, [](Writer& writer) { writer.u16(kVersionBitmap).u16(8).u32(1u << kVersion); });
}

Session::~Session() {
    if (roles_.master == this) roles_.master = nullptr;
}

bool Session::receive(ByteView bytes) {
    input_.insert(input_.end(), bytes.begin(), bytes.end());
    return parse();
}

bool Session::iterate() {
    constexpr unsigned kBarriersAtOnce = 256;  // other controllers want their turn, too
    for (unsigned i = 0; i < kBarriersAtOnce; ++i) {
        settle_changes();
        if (output_.size() > kMaxUnsent) return false;
        if (!barrier_) return true;
        const auto progress = datapath_.control().progress(barrier_->version);
        if (progress == flow_switch::Control::Progress::waits) return true;
        std::exchange(barrier_, std::nullopt)->answer(progress);
        if (!parse()) return false;
    }
    return true;
}

/// Takes all whole messages, up to a barrier.
bool Session::parse() {
    bool alive = true;
    while (alive && !barrier_ && input_.size() - done_ >= kHeaderBytes) {
        const size_t length = static_cast<size_t>(input_[done_ + 2]) << 8 | input_[done_ + 3];
        // Nobody can tell where the next message begins behind one without a length.
        if (length < kHeaderBytes) {
            refuse({static_cast<Type>(input_[done_ + 1]), 0, ByteView(input_).subspan(done_, kHeaderBytes), {}},
                   error::bad_length);
            alive = false;
            break;
        }
        if (input_.size() - done_ < length) break;
        alive = handle(ByteView(input_).subspan(done_, length));
        done_ += length;
    }
    // What is left moves to the front now and then only: a barrier may stand behind every message.
    if (done_ > input_.size() / 2) {
        input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(done_));
        done_ = 0;
    }
    return alive;
}

bool Session::refuse(const Message& message, Error error) {
    send(Type::error, message.xid, [&](Writer& writer) {
        writer.u16(error.type).u16(error.code);
        if (error.type == error::kExperimenter) writer.u32(kOnf);
        writer.bytes(message.whole.first(std::min(message.whole.size(), kErrorData)));
    });
    return true;
}

bool Session::handle(ByteView bytes) {
    Reader header(bytes, error::bad_length);
    const uint8_t version = header.u8(), type = header.u8();
    header.skip(2);
    const uint32_t xid = header.u32();
    const Message message{static_cast<Type>(type), xid, bytes, header.rest()};
    if (message.type == Type::hello) return greet(message);
    if (!greeted_) {
        refuse(message, error::hello_incompatible);
        return false;
    }
    if (version != kVersion) return refuse(message, error::bad_version);
    const Handler* const handler = handler_of(type);
    if (handler == nullptr) return refuse(message, error::bad_type);
    if (bytes.size() < handler->bytes || (handler->exact && bytes.size() != handler->bytes))
        return refuse(message, error::bad_length);
    if (handler->changes && role_ == Role::slave) return refuse(message, error::is_slave);
    try {
        (this->*handler->handle)(message);
    } catch (const Error& error) {
        refuse(message, error);
    }
    return true;
}

/// Section 6.3.1: the highest version that both have, by the bitmaps if both sent one, else the smaller of the two.
bool Session::greet(const Message& message) {
    bool common = message.whole[0] >= kVersion;
    try {
        Reader elements(message.body, error::bad_length);
        while (elements.left() >= 4) {
            const uint16_t type = elements.u16(), length = elements.u16();
            if (length < 4) throw error::bad_length;
            Reader element = elements.part(length - 4u, error::bad_length);
            elements.skip(std::min<size_t>(elements.left(), (8 - length % 8) % 8));
            if (type == kVersionBitmap && element.left() >= 4) common = (element.u32() >> kVersion & 1) != 0;
        }
    } catch (const Error& error) {
        refuse(message, error);
        return false;
    }
    if (!common) {
        send(Type::error, message.xid, [](Writer& writer) {
            writer.u16(error::hello_incompatible.type)
                .u16(error::hello_incompatible.code)
                .bytes("this switch speaks OpenFlow 1.3");
        });
        return false;
    }
    greeted_ = true;
    return true;
}

/// Tells of changes that could not be brought to work.
void Session::settle_changes() {
    using Progress = flow_switch::Control::Progress;
    while (!pending_.empty()) {
        const Pending& change = pending_.front();
        const Progress progress = datapath_.control().progress(change.version);
        if (progress == Progress::waits) return;
        if (progress == Progress::refused)
            refuse({Type::flow_mod, change.xid, change.message, {}}, error::flow_table_full);
        pending_.pop_front();
    }
}

void Session::reply(const Message& message, Type type, ByteView body) {
    send(type, message.xid, [&](Writer& writer) { writer.bytes(body); });
}

void Session::echo_request() {
    send(Type::echo_request, next_xid_++, [](Writer&) {});
}

void Session::on_error(const Message&) {}  // the controller's trouble is its own

void Session::on_echo_request(const Message& message) { reply(message, Type::echo_reply, message.body); }

void Session::on_experimenter(const Message& message) {
    Reader body(message.body, error::bad_length);
    if (body.u32() != kOnf) throw error::bad_experimenter;
    const uint32_t type = body.u32();
    if (type != kBundleControl && type != kBundleAddMessage) throw error::bad_experimenter_type;
    if (role_ == Role::slave) throw error::is_slave;
    if (type == kBundleControl) control_bundle(message, body);
    else add_to_bundle(message, body);
}

void Session::on_features_request(const Message& message) {
    const uint64_t datapath = datapath_.control().address().datapath;
    const unsigned tables = tables_of(datapath_.control());
    // No buffers: packets come whole. The only connection.
    send(Type::features_reply, message.xid,
         [&](Writer& writer) { writer.u64(datapath).u32(0).u8(tables).u8(0).zeros(2).u32(kCapabilities).u32(0); });
}

void Session::on_get_config(const Message& message) {
    send(Type::get_config_reply, message.xid, [&](Writer& writer) { writer.u16(0).u16(miss_send_bytes_); });
}

void Session::on_set_config(const Message& message) {
    Reader body(message.body, error::bad_length);
    if (body.u16() != 0) throw error::config_flags;  // fragments are treated as any other packet
    miss_send_bytes_ = body.u16();
}

/// Behind all that came before it.
void Session::on_barrier(const Message& message) {
    barrier_ = Barrier{datapath_.control().version(),
                       [this, xid = message.xid](auto) { send(Type::barrier_reply, xid, [](Writer&) {}); }};
    wait_for_changes();
}

/// Nothing behind this message is read until all changes so far are at work.
void Session::wait_for_changes() {
    if (datapath_.control().progress(barrier_->version) == flow_switch::Control::Progress::waits) datapath_.hurry();
}

void Session::on_queue_get_config(const Message& message) {
    const uint32_t number = Reader(message.body, error::bad_length).u32();
    const flow_switch::PortNumbers ports = datapath_.control().ports();
    if (number != port::kAny && !ports.by_number().contains(number)) throw error::queue_port;
    send(Type::queue_get_config_reply, message.xid, [&](Writer& writer) { writer.u32(number).zeros(4); });
}

void Session::on_role_request(const Message& message) {
    Reader body(message.body, error::bad_length);
    const uint32_t role = body.u32();
    body.skip(4);
    const uint64_t generation = body.u64();
    if (role > static_cast<uint32_t>(Role::slave)) throw error::role_bad;
    const auto wanted = static_cast<Role>(role);
    if (wanted == Role::master || wanted == Role::slave) {
        // Section 6.3.5: generations go round.
        if (roles_.generation && static_cast<int64_t>(generation - *roles_.generation) < 0) throw error::role_stale;
        roles_.generation = generation;
    }
    if (wanted != Role::no_change) become(wanted);
    send(Type::role_reply, message.xid, [&](Writer& writer) {
        writer.u32(static_cast<uint32_t>(role_)).zeros(4).u64(roles_.generation.value_or(~uint64_t{0}));
    });
}

void Session::become(Role role) {
    if (role == Role::master && roles_.master != nullptr && roles_.master != this) roles_.master->role_ = Role::slave;
    if (roles_.master == this || role == Role::master) roles_.master = role == Role::master ? this : nullptr;
    role_ = role;
}

void Session::on_get_async(const Message& message) {
    send(Type::get_async_reply, message.xid, [&](Writer& writer) {
        for (const auto* masks : {async_.packet_in, async_.port_status, async_.flow_removed})
            writer.u32(masks[0]).u32(masks[1]);
    });
}

void Session::on_set_async(const Message& message) {
    Reader body(message.body, error::bad_length);
    for (uint32_t* masks : {async_.packet_in, async_.port_status, async_.flow_removed})
        for (unsigned i = 0; i < 2; ++i) masks[i] = body.u32();
}

bool Session::wants(const uint32_t (&masks)[2], unsigned reason) const {
    return greeted_ && (masks[role_ == Role::slave ? 1 : 0] >> reason & 1) != 0;
}

bool Session::packet_in(const PacketIn& packet) {
    constexpr size_t kMaxFrame = 65000;  // a message has 65,535 bytes at most
    if (!wants(async_.packet_in, static_cast<unsigned>(packet.reason)) || output_.size() > kMaxWaiting ||
        packet.frame.size() > kMaxFrame)
        return false;
    // Section 7.4.1: without buffers the packet comes whole, whatever max_len says.
    send(Type::packet_in, 0, [&](Writer& writer) {
        writer.u32(kNoBuffer)
            .u16(packet.frame.size())
            .u8(static_cast<uint8_t>(packet.reason))
            .u8(packet.table)
            .u64(packet.cookie);
        write_in_port(writer, packet.in_port);
        writer.zeros(2).bytes(packet.frame);
    });
    return true;
}

void Session::flow_removed(const flow_switch::RemovedFlow& removed) {
    using namespace std::chrono;
    if (!wants(async_.flow_removed, static_cast<unsigned>(removed.reason))) return;
    const uint64_t age = static_cast<uint64_t>(duration_cast<nanoseconds>(removed.age).count());
    const flow_switch::Flow& flow = removed.flow;
    send(Type::flow_removed, 0, [&](Writer& writer) {
        writer.u64(flow.cookie)
            .u16(flow.priority)
            .u8(static_cast<uint8_t>(removed.reason))
            .u8(flow.table())
            .u32(age / 1'000'000'000)
            .u32(age % 1'000'000'000);
        writer.u16(flow.idle_timeout).u16(flow.hard_timeout).u64(removed.counts.packets).u64(removed.counts.bytes);
        write_match(writer, flow.match, datapath_.control().ports());
    });
}

void Session::port_changed(const PortView& port, PortChange change) {
    const auto reason = static_cast<uint8_t>(change);
    if (!wants(async_.port_status, reason)) return;
    send(Type::port_status, 0, [&](Writer& writer) {
        writer.u8(reason).zeros(7);
        write_port(writer, port);
    });
}

void Session::on_multipart(const Message& message) { answer_multipart(datapath_, message.xid, message.body, output_); }

}  // namespace millrace::openflow
