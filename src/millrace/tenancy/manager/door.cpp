#include "millrace/tenancy/manager/door.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "millrace/tenancy/exchange/message.hpp"

namespace millrace::tenancy {
namespace {

/// Sends a welcome, with descriptors where there are any. A guest that does not read it is its own loss.
bool send_welcome(int socket, const Welcome& welcome, std::span<const int> descriptors) {
    return send_message(socket, std::as_bytes(std::span(&welcome, 1)), descriptors, MSG_DONTWAIT) ==
           static_cast<ssize_t>(sizeof welcome);
}

}  // namespace

Door::Door(std::string path, std::map<std::string, Expected> expected, mode_t mode)
    : socket_(std::move(path)), expected_(std::move(expected)) {
    if (chmod(socket_.path().c_str(), mode) != 0)
        throw std::runtime_error(socket_.path() + ": its mode can't be set: " + std::strerror(errno));
}

void Door::accept_all(Clock::time_point now) {
    while (guests_.size() < kMaxGuests) {
        const int accepted = accept4(socket_.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted < 0) return;
        guests_.push_back({std::make_unique<Descriptor>(accepted), now, {}, 0});
    }
}

std::vector<std::unique_ptr<Attachment>> Door::let_in(Clock::time_point now, const IsThere& is_there,
                                                      const WhyNot& why_not) {
    accept_all(now);
    std::vector<std::unique_ptr<Attachment>> in;
    std::erase_if(guests_, [&](Guest& guest) {
        const ssize_t n = recv(guest.socket->get(), reinterpret_cast<char*>(&guest.hello) + guest.heard,
                               sizeof guest.hello - guest.heard, MSG_DONTWAIT);
        if (n > 0) guest.heard += static_cast<size_t>(n);
        const bool is_gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
        if (guest.heard == sizeof guest.hello) {
            const auto known = [&](const std::string& name) {
                return is_there(name) ||
                       std::any_of(in.begin(), in.end(), [&](const auto& other) { return other->name() == name; });
            };
            if (auto attachment = greet(guest, known, why_not)) in.push_back(std::move(attachment));
            return true;
        }
        return is_gone || now - guest.since > kGreeting;
    });
    return in;
}

std::unique_ptr<Attachment> Door::greet(Guest& guest, const IsThere& is_there, const WhyNot& why_not) {
    const Hello& hello = guest.hello;
    const auto refused = [&](const std::string& why) {
        refuse(guest, why);
        return nullptr;
    };
    if (hello.magic != kMagic) return refused("this is no tenant of Millrace");
    if (hello.version != kVersion)
        return refused("the tenant speaks version " + std::to_string(hello.version) + ", the manager " +
                       std::to_string(kVersion));
    if (std::memchr(hello.name, 0, sizeof hello.name) == nullptr) return refused("the name has no end");
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (getsockopt(guest.socket->get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return refused("nobody says whose process this is");
    // Who may not be it learns no more than that: not whether there is such a tenant.
    const std::string name(hello.name);
    const auto expected = expected_.find(name);
    if (expected == expected_.end() || expected->second.user != peer.uid)
        return refused("user " + std::to_string(peer.uid) + " may not be this tenant");
    if (is_there(name)) return refused("this tenant is attached already");
    if (const std::string why = why_not(name, peer.pid); !why.empty()) return refused(why);
    const Expected& own = expected->second;
    auto attachment = std::make_unique<Attachment>(name, peer.uid, peer.pid, std::move(guest.socket), own.shape,
                                                   own.terms, own.patience);
    const SharedMemory& memory = attachment->memory();
    Welcome welcome;
    welcome.shape = own.shape;
    welcome.terms = own.terms;
    own.architecture.copy(welcome.architecture, sizeof welcome.architecture - 1);
    const int descriptors[] = {memory.questions(), memory.answers(), memory.event()};
    if (!send_welcome(attachment->socket(), welcome, descriptors)) return nullptr;
    return attachment;
}

void Door::refuse(const Guest& guest, const std::string& why) {
    ++refused_;
    send_refusal(guest.socket->get(), why);
}

void send_refusal(int socket, const std::string& why) {
    Welcome welcome;
    welcome.refused = 1;
    why.copy(welcome.why, sizeof welcome.why - 1);
    send_welcome(socket, welcome, {});
}

}  // namespace millrace::tenancy
