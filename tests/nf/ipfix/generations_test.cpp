// What becomes of flows when a configuration is read again, and when a device goes.
#include <gtest/gtest.h>

#include "millrace/device/sim/sim_device.hpp"
#include "nf/ipfix/runs.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

class IpfixGenerations : public IpfixOn {
protected:
    /// The chain has this function from now on.
    void reload(exec::Runtime& runtime, const std::string& ports, const std::string& function) const {
        chain::LoadOptions load_options;
        const auto current = runtime.configuration();
        load_options.device = GetParam();
        load_options.output_folder = folder_.path();
        load_options.previous = current.get();
        runtime.apply(chain::parse_configuration("version: 1\nports:\n" + ports +
                                                     "chains:\n  test:\n    input: in\n    output: out\n    nfs: [" +
                                                     function + "]\n",
                                                 "(test)", load_options));
    }
};
INSTANTIATE_TEST_SUITE_P(Devices, IpfixGenerations, testing::ValuesIn(test_devices()), device_test_name);

/// The flows that it has are lost with it, the records that it has told are not; the CPU begins anew.
TEST(Ipfix, LosesTheFlowsOfADeviceWithIt) {
    IpfixRuns runs;
    std::vector<Timed> packets;
    for (uint32_t i = 0; i < 20'000; ++i) packets.push_back({kEpoch + i * kMillisecond, build(numbered(i % 500))});
    chain::Configuration configuration = runs.load("sim", "active-timeout: 1s", packets);
    device::sim::SimOptions sim;
    sim.faults = {{device::sim::Fault::Kind::device_lost, 60}};
    exec::RuntimeOptions options;
    options.devices = {std::make_shared<device::sim::SimDevice>(sim)};
    exec::Runtime runtime(std::move(configuration), options);
    runtime.start();
    end_of_run(runtime);
    const Exported exported = runs.read(runtime, Work::fault);
    EXPECT_EQ(exported.outcomes.at("counted"), packets.size());
    EXPECT_GT(exported.statistics.at("entries-lost"), 0u) << "some batches had come back";
    EXPECT_LE(exported.statistics.at("entries-lost"), 500u);
    EXPECT_EQ(exported.statistics.at("packets-lost"), 0u);
    EXPECT_GT(exported.of_reason(kActive), 100u);
    EXPECT_EQ(exported.sum(kPackets), exported.statistics.at("packets-exported"));
    EXPECT_LT(exported.sum(kPackets), packets.size());
    EXPECT_GT(exported.sum(kPackets), packets.size() / 2);
}

/// A generation goes on with flows, numbers and templates; one without the function ends them.
TEST_P(IpfixGenerations, GoesOnOverGenerations) {
    const std::string ports =
        "  in: {source: {count: 60000, rate: 60000, flows: 50, addresses: {src: 10.0.0.0/8, dst: 192.0.2.0/24}}}\n"
        "  out: {null: {}}\n";
    const std::string options = "active-timeout: 1000s";
    exec::Runtime runtime(load(GetParam(), options, {}, ports), {});
    runtime.start();
    for (int generation = 0; generation < 5; ++generation) {
        runtime.wait(std::chrono::milliseconds(100));
        reload(runtime, ports, "ipfix: {file: flows.ipfix, " + options + "}");
        runtime.tend();
    }
    end_of_run(runtime);
    const Exported exported = read(runtime);
    EXPECT_EQ(exported.flows.size(), 50u);
    EXPECT_EQ(exported.sum(kPackets), 60'000u);
    EXPECT_EQ(exported.of_reason(kForced), 50u);
    EXPECT_EQ(exported.statistics.at("entries-lost"), 0u);
}

TEST_P(IpfixGenerations, EndsItsFlowsWhereNoGenerationGoesOnWithThem) {
    const std::string ports =
        "  in: {source: {rate: 20000, flows: 50, addresses: {src: 10.0.0.0/8, dst: 192.0.2.0/24}}}\n"
        "  out: {null: {}}\n";
    exec::Runtime runtime(load(GetParam(), "active-timeout: 1000s", {}, ports), {});
    runtime.start();
    runtime.wait(std::chrono::milliseconds(300));
    const auto first = runtime.configuration();
    reload(runtime, ports, "mirror");
    runtime.wait(std::chrono::milliseconds(200));
    const exec::Report report = stop_run(runtime, Work::device_alone);
    EXPECT_GT(report.chains[0].nodes[0].packets, 1000u) << "packets of the generation behind it";
    const auto statistics = statistics_of(*first->chains[0]->nodes[0].nf);
    EXPECT_EQ(statistics.at("records-exported"), 50u);
    EXPECT_GT(statistics.at("packets-exported"), 1000u);
    EXPECT_EQ(statistics.at("packets-lost"), 0u);
}

}  // namespace
}  // namespace millrace::test
