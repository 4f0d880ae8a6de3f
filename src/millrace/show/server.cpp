#include "millrace/show/server.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

namespace millrace::show {

Server::Server(std::string path, Answer answer, Refusal refusal, std::chrono::milliseconds patience)
    : answer_(std::move(answer)), refusal_(std::move(refusal)), patience_(patience), socket_(std::move(path)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (stop_.get() < 0) throw std::runtime_error(std::string("no event descriptor: ") + std::strerror(errno));
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "show");
}

Server::~Server() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
}

void Server::run() {
    // Whether the patience with somebody is at its end.
    const auto look_ms = static_cast<int>(std::min<int64_t>(patience_.count() / 4 + 1, 1000));
    std::vector<pollfd> waiting;
    while (true) {
        waiting = {{stop_.get(), POLLIN, 0}, {socket_.descriptor(), POLLIN, 0}};
        for (const Client& client : clients_)
            waiting.push_back({client.socket->get(), static_cast<short>(client.answer.empty() ? POLLIN : POLLOUT), 0});
        poll(waiting.data(), waiting.size(), clients_.empty() ? -1 : look_ms);
        if (waiting[0].revents != 0) return;
        for (size_t i = 0; i < clients_.size(); ++i) {
            Client& client = clients_[i];
            if (waiting[i + 2].revents == 0) continue;
            if (client.answer.empty()) receive(client);
            work(client);
        }
        const Clock::time_point now = Clock::now();
        std::erase_if(clients_, [&](const Client& client) { return client.is_gone || now - client.since > patience_; });
        // One a turn, so that whoever has come is heard before others push it out.
        if (waiting[1].revents != 0) accept_one();
    }
}

void Server::accept_one() {
    if (clients_.size() >= kMaxClients)
        clients_.erase(std::min_element(clients_.begin(), clients_.end(),
                                        [](const Client& a, const Client& b) { return a.since < b.since; }));
    const int accepted = accept4(socket_.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) {
        clients_.emplace_back(accepted);
        return;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
    // It would go on being asked to: somebody has to leave, or time to pass.
    if (!clients_.empty()) clients_.erase(clients_.begin());
    else std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

void Server::receive(Client& client) {
    char bytes[kMaxRequestBytes];
    const ssize_t n = recv(client.socket->get(), bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) {
        client.is_gone = true;
        return;
    }
    client.since = Clock::now();
    client.request.append(bytes, static_cast<size_t>(n));
    if (n == 0) {
        // Its last line may have no end. It may read still.
        client.is_leaving = true;
        if (!client.request.empty()) client.request += '\n';
    }
}

/// Takes the next request that is there; false when there is none.
bool Server::answer(Client& client) const {
    const size_t end = client.request.find('\n');
    if (end == std::string::npos && client.request.size() < kMaxRequestBytes) return false;
    if (end >= kMaxRequestBytes) {
        client.answer = refusal_("a request has at most " + std::to_string(kMaxRequestBytes) + " bytes") + '\n';
        client.is_leaving = true;
        client.request.clear();
        return true;
    }
    client.answer = answer_to(std::string_view(client.request).substr(0, end)) + '\n';
    client.request.erase(0, end + 1);
    return true;
}

/// Does what can be done without waiting.
void Server::work(Client& client) const {
    while (!client.is_gone && (!client.answer.empty() || answer(client)))
        if (!send(client)) return;
    client.is_gone |= client.is_leaving;
}

std::string Server::answer_to(std::string_view request) const {
    if (waiting_bytes() > kMaxWaitingBytes) return refusal_("busy: others do not read what they have asked for");
    try {
        return answer_(request);
    } catch (const std::exception& e) {
        return refusal_(e.what());
    }
}

size_t Server::waiting_bytes() const {
    size_t bytes = 0;
    for (const Client& client : clients_) bytes += client.answer.size();
    return bytes;
}

/// Whether all of the answer has been sent.
bool Server::send(Client& client) {
    const ssize_t n = ::send(client.socket->get(), client.answer.data() + client.sent,
                             client.answer.size() - client.sent, MSG_NOSIGNAL);
    if (n < 0) {
        client.is_gone = errno != EAGAIN && errno != EINTR;
        return false;
    }
    client.since = Clock::now();
    client.sent += static_cast<size_t>(n);
    if (client.sent < client.answer.size()) return false;
    client.answer = {};
    client.sent = 0;
    return true;
}

}  // namespace millrace::show
