// One address under `controller`, and the connections that come of it.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/tls.hpp"
#include "millrace/openflow/log_limit.hpp"
#include "millrace/openflow/session/session.hpp"

namespace millrace::openflow {

/// A file descriptor that is closed with its owner.
class Socket {
public:
    explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
    Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~Socket();
    int get() const { return descriptor_; }
    explicit operator bool() const { return descriptor_ >= 0; }

private:
    int descriptor_;
};

/// Used by one thread.
class Peer {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr auto kFirstWait = std::chrono::milliseconds(250), kLongestWait = std::chrono::milliseconds(8000);
    /// A controller that says nothing for so long is asked whether it is there, and then given up.
    static constexpr auto kSilence = std::chrono::seconds(5), kTooSilent = std::chrono::seconds(15);
    /// Whoever has not said HELLO after so long is given up.
    static constexpr auto kHandshake = std::chrono::seconds(5);
    /// Connections to one port. The oldest one without a HELLO makes room for another, but has at least so long to say
    /// it. Where all have said it, others are told that there is no room.
    static constexpr auto kGrace = std::chrono::milliseconds(5);
    static constexpr size_t kMaxConnections = 8;

    /// Throws std::runtime_error for an address that cannot be listened on.
    Peer(const flow_switch::ControllerAddress& address, Datapath& datapath, Roles& roles,
         std::shared_ptr<const TlsContext> tls = nullptr);

    /// Begins what is due, and appends the sockets to be watched; true when somebody is connected.
    bool prepare(Clock::time_point now, std::vector<pollfd>& sockets);
    /// Takes what has come, and sends what there is.
    void work(Clock::time_point now, const std::vector<pollfd>& sockets);
    uint16_t listens_on() const;
    /// The address, in figures; empty where it does not listen.
    std::string listens_at() const;
    size_t connections() const { return links_.size(); }

    template <class F>
    void for_each_session(F&& f) {
        for (Link& link : links_)
            if (link.session != nullptr) f(*link.session);
    }

private:
    struct Link {
        Socket socket;
        std::unique_ptr<TlsStream> tls;    ///< null: without
        std::unique_ptr<Session> session;  ///< null while it is being connected, or shakes hands
        Clock::time_point begun, heard;
        size_t sent = 0;         ///< of the session's output
        bool connected = false;  ///< the socket is
        bool asked = false;      ///< whether it is there
        bool leaving = false;    ///< once it has been told why
    };
    void connect(Clock::time_point now);
    void accept(Clock::time_point now);
    bool has_room(Clock::time_point now);
    bool full();
    std::vector<Link>::iterator stranger();
    bool finish_connecting(Link& link);
    bool begin_session(Link& link, Clock::time_point now);
    bool waits_to_send(const Link& link) const;
    void tell_once(const std::string& why);
    static ssize_t receive_some(Link& link, std::span<uint8_t> buffer);
    static ssize_t send_some(Link& link, std::span<const uint8_t> bytes);
    bool serve(Link& link, Clock::time_point now, short events);
    bool receive(Link& link, Clock::time_point now);
    bool send(Link& link);
    void lost(const Link& link, Clock::time_point now);

    flow_switch::ControllerAddress address_;
    Datapath& datapath_;
    Roles& roles_;
    std::shared_ptr<const TlsContext> tls_;
    Socket listener_;
    std::vector<Link> links_;
    Clock::time_point next_try_{};
    std::chrono::milliseconds wait_ = kFirstWait;
    bool told_ = false;  // that nobody answers
    LogLimit log_limit_;
};

}  // namespace millrace::openflow
