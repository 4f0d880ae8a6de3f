// A switch at work under an agent: what a barrier's answer says of the packets.
#include "millrace/openflow/runtime_datapath.hpp"

#include <thread>

#include "millrace/exec/worker/worker.hpp"
#include "millrace/nf/switch/control.hpp"
#include "millrace/openflow/agent.hpp"
#include "openflow/flow_messages.hpp"
#include "openflow/messages.hpp"
#include "openflow/test_socket.hpp"
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
        for (const auto& worker : runtime.workers()) ASSERT_GT(worker->generation(), before);
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
    runtime.stop();
    ASSERT_TRUE(runtime.wait(std::chrono::seconds(60)));
    runtime.finish();
    EXPECT_EQ(runtime.trouble(), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, RuntimeUnderAgent, testing::Values("cpu", "sim"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace millrace::test
