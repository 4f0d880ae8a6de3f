// A switch at work under an agent: what a barrier's answer says of the packets.
#include "millrace/openflow/runtime_datapath.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/nf/switch/control/control.hpp"
#include "millrace/openflow/agent.hpp"
#include "openflow/flow_messages.hpp"
#include "openflow/messages.hpp"
#include "openflow/test_socket.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

class RuntimeUnderAgent : public testing::TestWithParam<std::string> {};

chain::Configuration configuration(const std::string& device) {
    chain::LoadOptions load;
    load.device = device;
    load.output_folder = testing::TempDir();
    return chain::parse_configuration(
        "version: 1\nports:\n  in: {source: {size: 128, flows: 64, rate: 50000}}\n  out: {sink: {}}\n"
        "chains:\n  c:\n    input: in\n    nfs: [switch: {controller: 'ptcp:1', flows: "
        "['priority=9,udp,actions=output:out', 'actions=output:out']}]\n",
        "(agent)", load);
}

/// The controller's next message besides those of flows that went.
std::string answer(TestSocket& controller) {
    std::string said;
    do said = controller.hear();
    while (said.starts_with("040b"));
    return said;
}

/// Nobody waits for the runtime here, as `millrace run` does: the agent alone brings changes in.
TEST_P(RuntimeUnderAgent, AnswersBarriersWhenEachWorkerWorksByWhatWasAskedBefore) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    exec::Runtime runtime(configuration(GetParam()), {.workers = 2});
    const auto control =
        dynamic_cast<const nf::flow_switch::Controllable&>(*runtime.configuration()->chains[0]->nodes[0].nf).control();
    Agent agent(std::make_unique<RuntimeDatapath>(runtime, control, "c", "switch"),
                {*nf::flow_switch::parse_controller("ptcp:0")});
    const auto received_packets = [&] { return runtime.ports()[0]->counters().received_packets; };
    const auto sent_packets = [&] { return runtime.ports()[1]->counters().sent_packets; };
    uint64_t received_without_flows = 0;
    runtime.start();
    TestSocket controller;
    controller.connect(agent.listens_on());
    controller.hear();
    controller.say(kMessages.at("hello"));
    for (unsigned i = 0; i < 100; ++i) {
        const uint64_t before = runtime.configuration()->generation;
        controller.say(kMessages.at(i % 2 == 0 ? "flow_add" : "flow_delete") + kMessages.at("barrier"));
        ASSERT_EQ(answer(controller), "0415000800000001");
        ASSERT_GT(runtime.configuration()->generation, before);
        ASSERT_EQ(control->flow_count(), i == 0 ? 3u : i % 2 == 0 ? 1u : 0u);  // what is deleted is all
        // A worker that has just ended its rest takes the generation before it touches a packet.
        for (const auto& worker : runtime.workers()) {
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
            while (worker->generation() <= before && !worker->at_rest())
                ASSERT_LT(std::chrono::steady_clock::now(), until);
        }
        if (i % 2 == 0 || GetParam() != "cpu") continue;  // what a device has under way still goes by the flows before
        const uint64_t sent = sent_packets(), received = received_packets();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_EQ(sent_packets(), sent);
        received_without_flows += received_packets() - received;
    }
    if (GetParam() == "cpu") {
        EXPECT_GT(received_without_flows, 0u);
        EXPECT_GT(sent_packets(), 0u);
    }
    // Without a barrier it takes its time, and comes to work all the same.
    controller.say(kMessages.at("flow_add") + kMessages.at("echo"));
    EXPECT_EQ(answer(controller).substr(0, 4), "0403");
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const auto at_work = [&] {
        return control->progress(control->version()) == nf::flow_switch::Control::Progress::at_work;
    };
    while (!at_work() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(at_work());
    EXPECT_EQ(control->flow_count(), 1u);
    stop_run(runtime, Work::device_alone);
}

std::set<pid_t> threads() {
    std::set<pid_t> all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
        all.insert(std::stoi(entry.path().filename().string()));
    return all;
}

std::atomic<bool> holding{false};
std::atomic<unsigned> held{0};

/// Keeps threads from going on wherever they are, as the system does that has other work for their cores.
class Hold {
public:
    explicit Hold(const std::set<pid_t>& threads) : count_(threads.size()) {
        std::signal(SIGUSR2, [](int) {
            ++held;
            while (holding) ::usleep(100);
            --held;
        });
        holding = true;
        for (const pid_t thread : threads) ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR2);
        while (held < count_) ::usleep(100);
    }
    ~Hold() {
        holding = false;
        while (held > 0) ::usleep(100);
    }

private:
    size_t count_;
};

TEST(WorkersAtRest, AreNotWaitedForAndWorkByTheNewestFlowsWhenPacketsCome) {
    chain::LoadOptions load;
    load.output_folder = testing::TempDir();
    exec::Runtime runtime(
        chain::parse_configuration("version: 1\nports:\n  in: {source: {size: 128, rate: 1}}\n  out: {sink: {}}\n"
                                   "chains:\n  c:\n    input: in\n    nfs: [switch: {controller: 'ptcp:1'}]\n",
                                   "(rest)", load),
        {.workers = 1});
    const auto control =
        dynamic_cast<const nf::flow_switch::Controllable&>(*runtime.configuration()->chains[0]->nodes[0].nf).control();
    RuntimeDatapath datapath(runtime, control, "c", "switch");
    const std::set<pid_t> before = threads();
    runtime.start();
    std::set<pid_t> workers;
    for (const pid_t thread : threads())
        if (!before.contains(thread)) workers.insert(thread);
    const exec::Worker& worker = *runtime.workers()[0];
    const auto change = [&](const std::string& text) {
        control->change(nf::flow_switch::parse_change(text, control->ports()));
        datapath.hurry();
    };
    const Bytes frame = from_hex(
        "020000000002"
        "020000000001"
        "88b5" +
        std::string(100, '0'));
    const auto sent = [&] { return runtime.ports()[1]->counters().sent_packets; };
    unsigned rests = 0;
    for (unsigned round = 0; round < 200; ++round) {
        change("add dl_type=0x88b5,actions=drop");
        const uint64_t sent_before = sent();
        {
            const Hold hold(workers);
            // Where it has a packet, it is waited for, as it should be; that is seldom.
            if (!worker.at_rest()) continue;
            ++rests;
            const uint64_t taken = worker.generation();
            // This would wait for ever.
            for (unsigned i = 0; i < 3; ++i) change("add dl_type=0x88b5,actions=output:2");
            ASSERT_EQ(control->progress(control->version()), nf::flow_switch::Control::Progress::at_work);
            ASSERT_EQ(worker.generation(), taken);
            ASSERT_TRUE(datapath.inject(frame, 0, kNoPort));
        }
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (sent() == sent_before && std::chrono::steady_clock::now() < until) ::usleep(100);
        ASSERT_EQ(sent(), sent_before + 1) << "the packet went by the flows before, in round " << round;
    }
    EXPECT_GT(rests, 100u);
    stop_run(runtime);
}

INSTANTIATE_TEST_SUITE_P(Devices, RuntimeUnderAgent, testing::Values("cpu", "sim"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace millrace::test
