// One controller's conversation with the switch: bytes in, bytes out, no sockets (OpenFlow 1.3.5, sections 6 and 7).
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>

#include "millrace/openflow/datapath.hpp"
#include "millrace/openflow/session/bundles.hpp"

namespace millrace::openflow {

class Session;

/// What the sessions of one switch share: which of them is the master, by the newest generation of that choice, and
/// how much memory bundles take.
struct Roles {
    std::optional<uint64_t> generation;
    Session* master = nullptr;
    BundleMemory bundles;
};

/// What has become of a port (ofp_port_reason).
enum class PortChange : uint8_t { added, removed, modified };

/// A packet that a flow or a packet-out sent to the controller.
struct PacketIn {
    ByteView frame;
    uint32_t in_port = port::kAny;  ///< OpenFlow's number
    PacketInReason reason = PacketInReason::action;
    uint64_t cookie = 0;
    uint8_t table = 0;
};

/// Not for several threads at once.
class Session {
public:
    using Clock = std::chrono::steady_clock;
    /// Bytes that wait for a controller beyond which it gets no packets, and beyond which it is given up.
    static constexpr size_t kMaxWaiting = size_t{4} << 20, kMaxUnsent = size_t{64} << 20;

    /// Says HELLO.
    Session(Datapath& datapath, Roles& roles);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Takes what the controller sent. False: the conversation is over once `output` has gone out.
    bool receive(ByteView bytes);
    /// Goes on with what waited for changes to be at work.
    bool iterate();
    /// What is to be sent; the caller removes what it has sent.
    Bytes& output() { return output_; }
    /// So much waits for changes to be at work that no more should be received yet.
    bool busy() const { return input_.size() - done_ > kMaxWaiting; }
    /// Both have said HELLO.
    bool greeted() const { return greeted_; }

    void echo_request();
    /// False: it was not for this controller, or there was no room.
    bool packet_in(const PacketIn& packet);
    void flow_removed(const flow_switch::RemovedFlow& removed);
    void port_changed(const PortView& port, PortChange change = PortChange::modified);

private:
    /// A message with its header taken apart.
    struct Message {
        Type type;
        uint32_t xid;
        ByteView whole;  ///< with the header
        ByteView body;
    };
    struct Handler;
    static const Handler* handler_of(uint8_t type);
    static bool is_long_enough(const Message& message);

    bool parse();
    bool handle(ByteView bytes);
    bool greet(const Message& message);
    bool refuse(const Message& message, Error error);
    void settle_changes();

    /// Writes a message; `body` gets a writer behind the header.
    template <class Body>
    void send(Type type, uint32_t xid, Body&& body) {
        Writer writer(output_);
        const size_t begin = writer.size();
        writer.u8(kVersion).u8(static_cast<uint8_t>(type)).u16(0).u32(xid);
        body(writer);
        writer.set_u16(begin + 2, writer.size() - begin);
    }
    void reply(const Message& message, Type type, ByteView body = {});

    // By type of message; all throw Error.
    void on_error(const Message& message);
    void on_echo_request(const Message& message);
    void on_echo_reply(const Message&) {}
    void on_experimenter(const Message& message);
    void on_features_request(const Message& message);
    void on_get_config(const Message& message);
    void on_set_config(const Message& message);
    void on_packet_out(const Message& message);
    void on_change(const Message& message);
    void on_port_mod(const Message& message);
    void on_table_mod(const Message& message);
    void on_multipart(const Message& message);
    void on_barrier(const Message& message);
    void on_queue_get_config(const Message& message);
    void on_role_request(const Message& message);
    void on_get_async(const Message& message);
    void on_set_async(const Message& message);

    flow_switch::Change read_change(const Message& message) const;
    flow_switch::Change read_flow_mod(const Message& message) const;
    flow_switch::Change read_group_mod(const Message& message) const;
    flow_switch::Change read_meter_mod(const Message& message) const;
    void control_bundle(const Message& message, Reader& body);
    void add_to_bundle(const Message& message, Reader& body);
    void commit(const Message& message, uint32_t bundle, uint16_t flags);
    void reply_to_bundle(uint32_t xid, uint32_t bundle, uint16_t type, uint16_t flags);
    void wait_for_changes();

    void inject(ByteView frame, uint16_t in_port, uint16_t out_port);
    void send_out(Packet& packet, uint32_t in_port, uint32_t outcome);
    void become(Role role);
    bool wants(const uint32_t (&masks)[2], unsigned reason) const;
    uint16_t index_of_in_port(uint32_t number) const;

    struct AsyncMasks {
        // For master or equal, and for slave.
        uint32_t packet_in[2] = {0b011, 0};
        uint32_t port_status[2] = {0b111, 0b111};
        uint32_t flow_removed[2] = {0b1111, 0};
    };
    /// A change that is not at work yet, and the first bytes of its message.
    struct Pending {
        uint64_t version;
        uint32_t xid;
        Bytes message;
    };

    Datapath& datapath_;
    Roles& roles_;
    Bytes input_, output_;
    size_t done_ = 0;  // bytes of input_ that have been read
    bool greeted_ = false;
    Role role_ = Role::equal;
    uint16_t miss_send_bytes_ = 128;
    AsyncMasks async_;
    std::deque<Pending> pending_;
    /// Nothing behind it is read until all before it is at work.
    struct Barrier {
        uint64_t version;
        std::function<void(flow_switch::Control::Progress)> answer;
    };
    std::optional<Barrier> barrier_;
    Bundles bundles_;
    uint32_t next_xid_ = 1;
};

/// Answers a multipart request: appends the messages to `output`. Throws Error.
void answer_multipart(Datapath& datapath, uint32_t xid, ByteView body, Bytes& output);
/// How many tables the switch has.
unsigned tables_of(const flow_switch::Control& control);
/// Which flows a request or a change means, by OpenFlow's fields.
flow_switch::FlowFilter read_filter(uint32_t out_port, uint32_t out_group, uint64_t cookie, uint64_t mask,
                                    const flow_switch::PortNumbers& ports);
/// `ofp_port`.
void write_port(Writer& writer, const PortView& port);

}  // namespace millrace::openflow
