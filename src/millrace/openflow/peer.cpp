#include "millrace/openflow/peer.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace millrace::openflow {
namespace {

constexpr int kBacklog = 64;

struct FreeAddresses {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// Null with the reason where there are none.
Addresses resolve(const std::string& host, const std::string& port, bool passive, std::string& reason) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = (passive ? AI_PASSIVE : 0) | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    const int failed = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list);
    if (failed != 0) reason = ::gai_strerror(failed);
    return Addresses(failed == 0 ? list : nullptr);
}

void send_at_once(int socket) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Socket::~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Peer::Peer(const flow_switch::ControllerAddress& address, Datapath& datapath, Roles& roles,
           std::shared_ptr<const TlsContext> tls)
    : address_(address), datapath_(datapath), roles_(roles), tls_(address.tls ? std::move(tls) : nullptr) {
    if (address.tls && tls_ == nullptr) throw std::runtime_error("controller '" + address.text + "': no certificates");
    if (!address.listens) return;
    std::string reason;
    const Addresses found = resolve(address.host.empty() ? "127.0.0.1" : address.host, address.port, true, reason);
    if (found == nullptr) throw std::runtime_error("controller '" + address.text + "': " + reason);
    listener_ = Socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(listener_.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(listener_.get(), kBacklog) != 0)
        throw std::runtime_error("controller '" + address.text + "': " + std::strerror(errno));
}

uint16_t Peer::listens_on() const {
    sockaddr_storage own{};
    socklen_t bytes = sizeof own;
    if (!listener_ || ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return 0;
    return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(own).sin_port);
}

std::string Peer::listens_at() const {
    sockaddr_storage own{};
    socklen_t bytes = sizeof own;
    char text[NI_MAXHOST];
    if (!listener_ || ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return {};
    return ::getnameinfo(reinterpret_cast<sockaddr*>(&own), bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0
               ? text
               : std::string{};
}

bool Peer::prepare(Clock::time_point now, std::vector<pollfd>& sockets) {
    if (!listener_ && links_.empty() && now >= next_try_) connect(now);
    if (listener_ && (has_room(now) || full())) sockets.push_back({listener_.get(), POLLIN, 0});
    bool connected = false;
    for (const Link& link : links_) {
        const bool receives = link.connected && !link.leaving && (link.session == nullptr || !link.session->busy());
        sockets.push_back(
            {link.socket.get(), static_cast<short>((receives ? POLLIN : 0) | (waits_to_send(link) ? POLLOUT : 0)), 0});
        connected |= link.session != nullptr;
    }
    return connected;
}

bool Peer::waits_to_send(const Link& link) const {
    if (!link.connected || (link.tls != nullptr && link.tls->waits_to_send())) return true;
    return link.session != nullptr && !link.session->output().empty();
}

void Peer::connect(Clock::time_point now) {
    next_try_ = now + wait_;
    wait_ = std::min<std::chrono::milliseconds>(2 * wait_, kLongestWait);
    std::string reason;
    const Addresses found = resolve(address_.host, address_.port, false, reason);
    if (found != nullptr) {
        Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        send_at_once(socket.get());
        if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS) {
            links_.push_back(
                {.socket = std::move(socket), .tls = nullptr, .session = nullptr, .begun = now, .heard = now});
            return;
        }
        reason = std::strerror(errno);
    }
    tell_once(reason);
}

/// Why there is no connection to a controller that we go to.
void Peer::tell_once(const std::string& why) {
    if (!std::exchange(told_, true)) spdlog::warn("controller {}: {}; trying on", address_.text, why);
}

namespace {

/// Tells a controller that comes when there are enough, and hangs up.
void turn_away(const Socket& socket) {
    Bytes bytes;
    Writer writer(bytes);
    const std::string_view why = "this switch has as many controllers as it takes";
    writer.u8(kVersion).u8(static_cast<uint8_t>(Type::hello)).u16(kHeaderBytes).u32(0);
    writer.u8(kVersion).u8(static_cast<uint8_t>(Type::error)).u16(kHeaderBytes + 4 + why.size()).u32(0);
    writer.u16(error::hello_refused.type).u16(error::hello_refused.code).bytes(why);
    ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(socket.get(), SHUT_WR);
    // What is left unread would have the kernel take back what was sent.
    uint8_t unread[256];
    while (::recv(socket.get(), unread, sizeof unread, 0) > 0) {
    }
}

}  // namespace

void Peer::accept(Clock::time_point now) {
    constexpr unsigned kTurnedAwayAtOnce = 16;
    for (unsigned i = 0; i < kTurnedAwayAtOnce && full(); ++i) {
        const Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) return;
        // Who comes by TLS would have to be known first to be told.
        if (tls_ == nullptr) turn_away(socket);
        if (log_limit_.allows(now))
            spdlog::warn("controller {}: another one came, and there are {} already{}", address_.text, kMaxConnections,
                         log_limit_.left_out());
    }
    while (has_room(now)) {
        Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) return;
        if (links_.size() == kMaxConnections) links_.erase(stranger());
        send_at_once(socket.get());
        Link& link = links_.emplace_back();
        link.socket = std::move(socket);
        link.begun = link.heard = now;
        link.connected = true;
        if (tls_ != nullptr) link.tls = std::make_unique<TlsStream>(*tls_, link.socket.get(), TlsStream::Side::server);
        else link.session = std::make_unique<Session>(datapath_, roles_);
    }
}

/// Whether another connection can be taken. A stranger that has just come gets a chance to speak.
bool Peer::has_room(Clock::time_point now) {
    if (links_.size() < kMaxConnections) return true;
    const auto oldest = stranger();
    return oldest != links_.end() && now - oldest->begun >= kGrace;
}

/// All connections are those of controllers that have said HELLO.
bool Peer::full() { return links_.size() >= kMaxConnections && stranger() == links_.end(); }

/// The oldest connection whose controller has not said HELLO.
std::vector<Peer::Link>::iterator Peer::stranger() {
    return std::find_if(links_.begin(), links_.end(),
                        [](const Link& link) { return link.session == nullptr || !link.session->greeted(); });
}

void Peer::work(Clock::time_point now, const std::vector<pollfd>& sockets) {
    const auto events_of = [&](int descriptor) {
        const auto found = std::find_if(sockets.begin(), sockets.end(),
                                        [&](const pollfd& one) { return one.fd == descriptor; });
        return found == sockets.end() ? short{0} : found->revents;
    };
    std::erase_if(links_, [&](Link& link) {
        if (serve(link, now, events_of(link.socket.get()))) return false;
        lost(link, now);
        return true;
    });
    if (listener_ && events_of(listener_.get()) != 0) accept(now);
}

/// False: the connection is over.
bool Peer::serve(Link& link, Clock::time_point now, short events) {
    if (link.session == nullptr) {
        if (events != 0 && !link.connected && !finish_connecting(link)) return false;
        if (link.connected && !begin_session(link, now)) return false;
        if (link.session == nullptr) return now - link.begun < kHandshake;
    }
    const bool more = (events & (POLLIN | POLLERR | POLLHUP)) != 0 || (link.tls != nullptr && link.tls->has_more());
    if (more && !link.leaving && !receive(link, now)) return false;
    if (!link.leaving && !link.session->iterate()) link.leaving = true;
    if (now - link.heard >= kTooSilent || (!link.session->greeted() && now - link.begun >= kHandshake)) return false;
    if (now - link.heard >= kSilence && !std::exchange(link.asked, true) && link.session->greeted())
        link.session->echo_request();
    if (!send(link)) return false;
    // What is leaving goes once it has said why.
    return !link.leaving || !link.session->output().empty();
}

bool Peer::finish_connecting(Link& link) {
    int failed = 0;
    socklen_t bytes = sizeof failed;
    ::getsockopt(link.socket.get(), SOL_SOCKET, SO_ERROR, &failed, &bytes);
    if (failed != 0) {
        tell_once(std::strerror(failed));
        return false;
    }
    link.connected = true;
    if (tls_ != nullptr) link.tls = std::make_unique<TlsStream>(*tls_, link.socket.get(), TlsStream::Side::client);
    return true;
}

/// Once hands are shaken. False: the other side cannot be trusted, or does not trust us.
bool Peer::begin_session(Link& link, Clock::time_point now) {
    if (link.tls != nullptr) {
        const TlsStream::Progress progress = link.tls->shake_hands();
        if (progress == TlsStream::Progress::waits) return true;
        if (progress == TlsStream::Progress::over) {
            if (!listener_) tell_once(link.tls->trouble());
            else if (log_limit_.allows(now))
                spdlog::warn("controller {}: {}{}", address_.text, link.tls->trouble(), log_limit_.left_out());
            return false;
        }
    }
    link.begun = link.heard = now;
    link.session = std::make_unique<Session>(datapath_, roles_);
    return true;
}

/// How many bytes have come; 0: it is over; -1: no more for now.
ssize_t Peer::receive_some(Link& link, std::span<uint8_t> buffer) {
    if (link.tls != nullptr) return link.tls->receive(buffer);
    const ssize_t got = ::recv(link.socket.get(), buffer.data(), buffer.size(), 0);
    return got >= 0 ? got : errno == EAGAIN || errno == EINTR ? -1 : 0;
}

/// How many bytes have gone; -1: no room; -2: it is over.
ssize_t Peer::send_some(Link& link, std::span<const uint8_t> bytes) {
    if (link.tls != nullptr) return link.tls->send(bytes);
    const ssize_t sent = ::send(link.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent >= 0 ? sent : errno == EAGAIN || errno == EINTR ? -1 : -2;
}

bool Peer::receive(Link& link, Clock::time_point now) {
    uint8_t buffer[65536];
    for (unsigned i = 0; i < 16 && !link.session->busy(); ++i) {  // others want their turn, too
        const ssize_t got = receive_some(link, buffer);
        if (got < 0) return true;
        if (got == 0) return false;
        const bool greeted = link.session->greeted();
        link.heard = now;
        link.asked = false;
        if (!link.session->receive({buffer, static_cast<size_t>(got)})) {
            link.leaving = true;
            return true;
        }
        if (greeted || !link.session->greeted()) continue;
        if (log_limit_.allows(now)) spdlog::info("controller {}: connected{}", address_.text, log_limit_.left_out());
        wait_ = kFirstWait;
        told_ = false;
    }
    return true;
}

bool Peer::send(Link& link) {
    Bytes& output = link.session->output();
    while (link.sent < output.size()) {
        const ssize_t sent = send_some(link, std::span(output).subspan(link.sent));
        if (sent == -2) return false;
        if (sent == -1) break;
        link.sent += static_cast<size_t>(sent);
    }
    // What is left moves to the front now and then only: it may be much, and go bit by bit.
    if (link.sent > output.size() / 2) {
        output.erase(output.begin(), output.begin() + static_cast<ptrdiff_t>(link.sent));
        link.sent = 0;
    }
    return true;
}

void Peer::lost(const Link& link, Clock::time_point now) {
    if (link.session != nullptr && link.session->greeted() && log_limit_.allows(now))
        spdlog::warn("controller {}: the connection is over{}{}", address_.text, listener_ ? "" : "; trying on",
                     log_limit_.left_out());
    next_try_ = std::max(next_try_, now + kFirstWait);
}

}  // namespace millrace::openflow
