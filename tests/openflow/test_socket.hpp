// A controller's end of a connection, in tests.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "openflow/conversation.hpp"

namespace millrace::test {

/// A TCP socket of the test's own, with the time-outs that keep it from waiting for ever.
class TestSocket {
public:
    explicit TestSocket(int descriptor = ::socket(AF_INET, SOCK_STREAM, 0)) : descriptor_(descriptor) {
        const timeval wait{10, 0};
        ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    }
    ~TestSocket() { ::close(descriptor_); }
    TestSocket(const TestSocket&) = delete;

    /// Returns the port.
    uint16_t listen(uint16_t port = 0) {
        const int on = 1;
        ::setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in address = at(port);
        EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(descriptor_, 4), 0);
        socklen_t bytes = sizeof address;
        ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &bytes);
        return ntohs(address.sin_port);
    }
    void connect(uint16_t port) const {
        const sockaddr_in address = at(port);
        ASSERT_EQ(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    int descriptor() const { return descriptor_; }
    int accept() { return ::accept(descriptor_, nullptr, nullptr); }
    void say(const std::string& hex) const {
        const Bytes bytes = from_hex(hex);
        ASSERT_EQ(::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    }
    /// Whether so much has come, without waiting; it stays to be heard.
    bool has_bytes(size_t count) const {
        Bytes bytes(count);
        return ::recv(descriptor_, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT) == static_cast<ssize_t>(count);
    }
    /// The next message in hex; empty when the connection is over.
    std::string hear() {
        Bytes bytes(kHeaderBytes);
        if (::recv(descriptor_, bytes.data(), bytes.size(), MSG_WAITALL) != static_cast<ssize_t>(kHeaderBytes))
            return {};
        bytes.resize(static_cast<size_t>(bytes[2]) << 8 | bytes[3]);
        const ssize_t rest = static_cast<ssize_t>(bytes.size() - kHeaderBytes);
        if (rest > 0 &&
            ::recv(descriptor_, bytes.data() + kHeaderBytes, static_cast<size_t>(rest), MSG_WAITALL) != rest)
            return {};
        return to_hex(bytes);
    }

private:
    static sockaddr_in at(uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return address;
    }
    int descriptor_;
};

}  // namespace millrace::test
