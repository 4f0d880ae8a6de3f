// The agent's sockets: controllers that are connected to, that connect, that go and come again.
#include "millrace/openflow/agent.hpp"

#include <atomic>
#include <mutex>
#include <thread>

#include "openflow/conversation.hpp"
#include "openflow/messages.hpp"
#include "openflow/test_socket.hpp"

namespace millrace::test {
namespace {

std::vector<nf::flow_switch::ControllerAddress> at(const std::string& address) {
    return {*nf::flow_switch::parse_controller(address)};
}

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

/// Brings changes to work as soon as it is told that somebody waits.
class QuickDatapath : public FakeDatapath {
public:
    explicit QuickDatapath(std::atomic<unsigned>& hurried) : hurried_(hurried) {}
    void hurry() override {
        ++hurried_;
        control().at_work(control().version(), nullptr);
    }

private:
    std::atomic<unsigned>& hurried_;
};

TEST(Agent, AnswersAThousandBarriersThatEachWaitForOneFlow) {
    std::atomic<unsigned> hurried = 0;
    Agent agent(std::make_unique<QuickDatapath>(hurried), at("ptcp:0"));
    TestSocket controller;
    controller.connect(agent.listens_on());
    EXPECT_EQ(controller.hear(), kHello);
    controller.say(kMessages.at("hello"));
    for (unsigned i = 0; i < 1000; ++i) {
        controller.say(kMessages.at("flow_add") + kMessages.at("barrier"));
        ASSERT_EQ(controller.hear(), "0415000800000001");
    }
    EXPECT_EQ(hurried, 1000u);
    controller.say(kMessages.at("barrier") + kMessages.at("echo"));  // nothing to wait for
    EXPECT_EQ(controller.hear(), "0415000800000001");
    EXPECT_EQ(controller.hear(), kEchoed);
    EXPECT_EQ(hurried, 1000u);
}

TEST(Agent, WaitsWithABarrierUntilItsChangesAreAtWork) {
    auto made = std::make_unique<FakeDatapath>();
    FakeDatapath& datapath = *made;
    Agent agent(std::move(made), at("ptcp:0"));
    TestSocket controller, other;
    for (TestSocket* each : {&controller, &other}) {
        each->connect(agent.listens_on());
        EXPECT_EQ(each->hear(), kHello);
        each->say(kMessages.at("hello"));
    }
    controller.say(kMessages.at("flow_add") + kMessages.at("barrier"));
    for (unsigned i = 0; i < 20; ++i) {  // the agent goes round meanwhile
        other.say(kMessages.at("echo"));
        EXPECT_EQ(other.hear(), kEchoed);
    }
    EXPECT_FALSE(controller.has_bytes(1));
    datapath.control().at_work(datapath.control().version(), nullptr);
    EXPECT_EQ(controller.hear(), "0415000800000001");
}

/// A thousand ports whose links a test sets while the agent looks.
class PortsDatapath : public FakeDatapath {
public:
    PortsDatapath() {
        for (uint32_t number = 1; number <= 1000; ++number) ports_.push_back({number, "p" + std::to_string(number)});
    }
    std::vector<PortView> ports() const override {
        const std::lock_guard lock(mutex_);
        ++looks_;
        return ports_;
    }
    template <class F>
    void change(F&& f) {
        const std::lock_guard lock(mutex_);
        f(ports_);
    }
    unsigned looks() const {
        const std::lock_guard lock(mutex_);
        return looks_;
    }

private:
    mutable std::mutex mutex_;
    mutable unsigned looks_ = 0;
    std::vector<PortView> ports_;
};

TEST(Agent, TellsOfEachPortWhoseLinkChangesOrThatComesOrGoes) {
    auto made = std::make_unique<PortsDatapath>();
    PortsDatapath& datapath = *made;
    Agent agent(std::move(made), at("ptcp:0"));
    TestSocket controller;
    controller.connect(agent.listens_on());
    EXPECT_EQ(controller.hear(), kHello);
    controller.say(kMessages.at("hello") + kMessages.at("echo"));
    EXPECT_EQ(controller.hear(), kEchoed);
    while (datapath.looks() == 0) std::this_thread::yield();
    // Reason, the port's number, and its state: OFPPS_LINK_DOWN or OFPPS_LIVE.
    const auto told = [](const std::string& status) {
        return status.substr(0, 4) + " " + status.substr(16, 2) + " " + status.substr(32, 8) + " " +
               status.substr(104, 8);
    };
    const auto number = [](uint32_t port) {
        std::ostringstream text;
        text << std::hex << std::setw(8) << std::setfill('0') << port;
        return text.str();
    };
    datapath.change([](std::vector<PortView>& ports) {
        for (PortView& port : ports) port.up = false;
    });
    for (uint32_t port = 1; port <= 1000; ++port)
        ASSERT_EQ(told(controller.hear()), "040c 02 " + number(port) + " 00000001");
    datapath.change([](std::vector<PortView>& ports) {
        ports[4].up = true;
        ports.pop_back();
        ports.push_back({2000, "new"});
    });
    EXPECT_EQ(told(controller.hear()), "040c 01 " + number(1000) + " 00000001");
    EXPECT_EQ(told(controller.hear()), "040c 02 " + number(5) + " 00000004");
    EXPECT_EQ(told(controller.hear()), "040c 00 " + number(2000) + " 00000004");
    datapath.change([](std::vector<PortView>& ports) { ports[6].mac = {2, 0, 0, 0, 0, 0x77}; });
    const std::string renamed = controller.hear();
    EXPECT_EQ(told(renamed), "040c 02 " + number(7) + " 00000001");
    EXPECT_EQ(renamed.substr(48, 12), "020000000077") << "hw_addr";
    // Nothing is told twice, and flows by a port that is down are flows as others are.
    controller.say(kMessages.at("flow_add") + kMessages.at("echo"));
    EXPECT_EQ(controller.hear(), kEchoed);
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
    EXPECT_EQ(controller.hear().substr(0, 24),
              "0401002b"
              "00000001"
              "00000000");
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
    EXPECT_EQ(mistake("ptcp:" + port + ":127.0.0.1"),
              "controller 'ptcp:" + port + ":127.0.0.1': Address already in use");
    EXPECT_EQ(mistake("tcp:nobody.invalid"), "none");
}

}  // namespace
}  // namespace millrace::test
