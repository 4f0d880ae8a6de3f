// Connections of strangers and of controllers, by a made-up clock.
#include "millrace/openflow/peer.hpp"
#include "openflow/log.hpp"
#include "openflow/messages.hpp"
#include "openflow/test_socket.hpp"

namespace millrace::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A peer that listens, and its agent's loop.
class Listening {
public:
    explicit Listening(const std::string& address = "ptcp:0")
        : peer_(*flow_switch::parse_controller(address), datapath_, roles_) {}

    /// Some rounds of the agent, `step` apart by the clock; each waits a moment for what is on its way.
    void rounds(unsigned count, Peer::Clock::duration step) {
        for (unsigned i = 0; i < count; ++i) {
            now_ += step;
            std::vector<pollfd> sockets;
            peer_.prepare(now_, sockets);
            ::poll(sockets.data(), sockets.size(), 1);
            peer_.work(now_, sockets);
        }
    }
    /// Rounds until the controller gets its echo; false when the clock has gone on for so long.
    bool echoes(const TestSocket& controller, Peer::Clock::duration patience) {
        controller.say(kMessages.at("hello") + kMessages.at("echo"));
        for (const auto end = now_ + patience; now_ < end;) {
            rounds(1, milliseconds(1));
            if (controller.has_bytes(28)) return true;  // HELLO and the echo
        }
        return false;
    }
    uint16_t port() const { return peer_.listens_on(); }
    size_t connections() const { return peer_.connections(); }
    Peer& peer() { return peer_; }

private:
    FakeDatapath datapath_;
    Roles roles_;
    Peer peer_;
    Peer::Clock::time_point now_{seconds(1000)};
};

TEST(Peer, TakesAControllerThoughSilentConnectionsFillItsPlaces) {
    Listening at;
    std::vector<std::unique_ptr<TestSocket>> silent;
    for (size_t i = 0; i < Peer::kMaxConnections; ++i) {
        silent.push_back(std::make_unique<TestSocket>());
        silent.back()->connect(at.port());
    }
    at.rounds(20, milliseconds(1));
    EXPECT_EQ(at.connections(), Peer::kMaxConnections);
    TestSocket controller;
    controller.connect(at.port());
    EXPECT_TRUE(at.echoes(controller, milliseconds(500)));
    EXPECT_EQ(at.connections(), Peer::kMaxConnections);
}

TEST(Peer, TakesAControllerBehindAThousandSilentConnections) {
    Listening at;
    std::vector<std::unique_ptr<TestSocket>> silent;
    for (unsigned i = 0; i < 1000; ++i) {
        silent.push_back(std::make_unique<TestSocket>());
        silent.back()->connect(at.port());
        if (i % 8 == 7) at.rounds(1, Peer::kGrace);
    }
    TestSocket controller;
    controller.connect(at.port());
    EXPECT_TRUE(at.echoes(controller, seconds(1)));
    EXPECT_EQ(at.connections(), Peer::kMaxConnections);
}

TEST(Peer, KeepsControllersThatHaveSaidHelloWhenOthersCome) {
    Listening at;
    std::vector<std::unique_ptr<TestSocket>> controllers;
    for (size_t i = 0; i < Peer::kMaxConnections; ++i) {
        controllers.push_back(std::make_unique<TestSocket>());
        controllers.back()->connect(at.port());
        ASSERT_TRUE(at.echoes(*controllers.back(), seconds(1)));
    }
    TestSocket late;
    late.connect(at.port());
    at.rounds(5, milliseconds(1));
    // It is told why: HELLO, and the error that there is no permission.
    EXPECT_EQ(late.hear().substr(0, 4), "0400");
    const std::string refusal = late.hear();
    EXPECT_EQ(refusal.substr(0, 4), "0401");
    EXPECT_EQ(refusal.substr(16, 8), "00000001");
    EXPECT_EQ(late.hear(), "");
    size_t greeted = 0;
    at.peer().for_each_session([&](Session& session) { greeted += session.greeted(); });
    EXPECT_EQ(greeted, Peer::kMaxConnections);
}

TEST(Peer, GivesUpWhoSaysNoHelloHoweverManyBytesTrickleIn) {
    Listening at;
    TestSocket silent, trickling;
    silent.connect(at.port());
    trickling.connect(at.port());
    at.rounds(5, milliseconds(1));
    ASSERT_EQ(at.connections(), 2u);
    const std::string hello = kMessages.at("hello");
    for (unsigned i = 0; i < 6; ++i) {
        trickling.say(hello.substr(2 * i, 2));
        at.rounds(1, seconds(1));
    }
    EXPECT_EQ(at.connections(), 0u);
}

TEST(Peer, LogsAFewLinesOfAThousandConnectionsThatComeAndGo) {
    Log log;
    Listening at;
    for (unsigned i = 0; i < 1000; ++i) {
        TestSocket controller;
        controller.connect(at.port());
        controller.say(kMessages.at("hello"));
        for (unsigned k = 0; k < 10 && at.connections() == 0; ++k) at.rounds(1, milliseconds(0));
        at.rounds(1, milliseconds(0));
    }
    at.rounds(10, milliseconds(0));
    EXPECT_LE(log.lines(), LogLimit::kAtOnce);
    EXPECT_GE(log.lines(), 2u);
    at.rounds(1, LogLimit::kInterval);
    TestSocket controller;
    controller.connect(at.port());
    EXPECT_TRUE(at.echoes(controller, seconds(1)));
    EXPECT_NE(log.text().find("lines like this one were left out"), std::string::npos) << log.text();
}

TEST(Peer, ListensOnLoopbackUnlessToldAnAddress) {
    EXPECT_EQ(Listening().peer().listens_at(), "127.0.0.1");
    EXPECT_EQ(Listening("ptcp:0:0.0.0.0").peer().listens_at(), "0.0.0.0");
}

TEST(LogLimit, LetsSomeThroughAtOnceThenOneInAWhileAndTellsOfTheOthers) {
    LogLimit limit;
    LogLimit::Clock::time_point now{seconds(1000)};
    unsigned lines = 0;
    for (unsigned i = 0; i < 1000; ++i) lines += limit.allows(now);
    EXPECT_EQ(lines, LogLimit::kAtOnce);
    now += LogLimit::kInterval - milliseconds(1);
    EXPECT_FALSE(limit.allows(now));
    now += milliseconds(1);
    EXPECT_TRUE(limit.allows(now));
    EXPECT_EQ(limit.left_out(), " (991 lines like this one were left out)");
    EXPECT_EQ(limit.left_out(), "");
    EXPECT_FALSE(limit.allows(now));
    now += 100 * LogLimit::kInterval;
    lines = 0;
    for (unsigned i = 0; i < 1000; ++i) lines += limit.allows(now);
    EXPECT_EQ(lines, LogLimit::kAtOnce) << "what was not used is not saved without end";
}

}  // namespace
}  // namespace millrace::test
