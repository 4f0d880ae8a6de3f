// Clients of a run's socket that do as they please.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "millrace/show/client.hpp"
#include "millrace/show/socket_file.hpp"
#include "support/test_folder.hpp"

namespace millrace::show {

/// A connection that sends and reads what a test wants.
class Raw {
public:
    explicit Raw(const std::string& path) : socket_(connect_to(path)) {}
    bool send(const std::string& bytes) const {
        return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
    }
    void send_no_more() const { shutdown(socket_.get(), SHUT_WR); }
    /// All that comes until `lines` lines have, the other end closes, or nothing comes for some seconds.
    std::string read(size_t lines = SIZE_MAX, int timeout_ms = 5000) const {
        std::string all;
        char bytes[65536];
        size_t seen = 0;
        for (pollfd waiting{socket_.get(), POLLIN, 0}; seen < lines && poll(&waiting, 1, timeout_ms) > 0;) {
            const ssize_t n = recv(socket_.get(), bytes, sizeof bytes, 0);
            if (n <= 0) break;
            for (ssize_t i = 0; i < n; ++i) seen += bytes[i] == '\n' ? 1 : 0;
            all.append(bytes, static_cast<size_t>(n));
        }
        return all;
    }
    /// Whether the other end has closed it, within some seconds, whatever it had to say before.
    bool is_closed(int timeout_ms = 5000) const {
        char bytes[65536];
        for (pollfd waiting{socket_.get(), POLLIN, 0}; poll(&waiting, 1, timeout_ms) > 0;)
            if (recv(socket_.get(), bytes, sizeof bytes, 0) <= 0) return true;
        return false;
    }

private:
    Descriptor socket_;
};

}  // namespace millrace::show
