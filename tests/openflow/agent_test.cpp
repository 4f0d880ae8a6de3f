// The agent's sockets: controllers that are connected to, that connect, that go and come again.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "millrace/openflow/agent.hpp"
#include "openflow/conversation.hpp"
#include "openflow/messages.hpp"

namespace millrace::test {
namespace {

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
    void connect(uint16_t port) {
        const sockaddr_in address = at(port);
        ASSERT_EQ(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    int accept() { return ::accept(descriptor_, nullptr, nullptr); }
    void say(const std::string& hex) {
        const Bytes bytes = from_hex(hex);
        ASSERT_EQ(::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    }
    /// The next message in hex; empty when the connection is over.
    std::string hear() {
        Bytes bytes(kHeaderBytes);
        if (::recv(descriptor_, bytes.data(), bytes.size(), MSG_WAITALL) != static_cast<ssize_t>(kHeaderBytes)) return {};
        bytes.resize(static_cast<size_t>(bytes[2]) << 8 | bytes[3]);
        const ssize_t rest = static_cast<ssize_t>(bytes.size() - kHeaderBytes);
        if (rest > 0 && ::recv(descriptor_, bytes.data() + kHeaderBytes, static_cast<size_t>(rest), MSG_WAITALL) != rest) return {};
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

std::vector<nf::flow_switch::ControllerAddress> at(const std::string& address) { return {*nf::flow_switch::parse_controller(address)}; }

const std::string kHello = "04000010000000010001000800000010", kEchoed = "0403000c0000000170696e67";

TEST(Agent, WaitsForControllersAndServesSeveral) {
    Agent agent(std::make_unique<FakeDatapath>(), at("ptcp:0:127.0.0.1"));
    TestSocket one, two;
    for (TestSocket* controller : {&one, &two}) {
        controller->connect(agent.listens_on());
        EXPECT_EQ(controller->hear(), kHello);
        controller->say(kMessages.at("hello") + kMessages.at("echo"));
        EXPECT_EQ(controller->hear(), kEchoed);
    }
    one.say(kMessages.at("role"));
    EXPECT_EQ(one.hear().substr(2, 2), "19");
    two.say(kMessages.at("echo"));
    EXPECT_EQ(two.hear(), kEchoed);
}

TEST(Agent, ConnectsAgainWhenItsControllerGoesAndComes) {
    TestSocket listener;
    const uint16_t port = listener.listen();
    Agent agent(std::make_unique<FakeDatapath>(), at("tcp:127.0.0.1:" + std::to_string(port)));
    for (unsigned i = 0; i < 3; ++i) {
        TestSocket controller(listener.accept());
        EXPECT_EQ(controller.hear(), kHello);
        controller.say(kMessages.at("hello") + kMessages.at("echo"));
        EXPECT_EQ(controller.hear(), kEchoed);
    }
}

TEST(Agent, SaysWhyBeforeItLeaves) {
    Agent agent(std::make_unique<FakeDatapath>(), at("ptcp:0:127.0.0.1"));
    TestSocket controller;
    controller.connect(agent.listens_on());
    EXPECT_EQ(controller.hear(), kHello);
    controller.say("0100000800000001");
    EXPECT_EQ(controller.hear().substr(0, 24), "0401002b" "00000001" "00000000");
    EXPECT_EQ(controller.hear(), "");
}

TEST(Agent, RefusesToListenWhereSomebodyDoesAndWaitsForNamesThatAreNotThereYet) {
    const auto mistake = [](const std::string& address) -> std::string {
        try {
            Agent(std::make_unique<FakeDatapath>(), at(address));
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        return "none";
    };
    TestSocket taken;
    const std::string port = std::to_string(taken.listen());
    EXPECT_EQ(mistake("ptcp:" + port + ":127.0.0.1"), "controller 'ptcp:" + port + ":127.0.0.1': Address already in use");
    EXPECT_EQ(mistake("tcp:nobody.invalid"), "none");
}

}  // namespace
}  // namespace millrace::test
