// A chain over several devices: the cpu's answer, one order of packets, and what happens when one device is lost.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "exec/alternating.hpp"
#include "support/test_chain.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using device::sim::SimDevice;
using device::sim::SimOptions;

chain::Configuration without_order(const std::string& device) {
    return make_configuration(R"([firewall: {default: permit, rules: [deny udp from any port 1024-2047 to any]},
        nids: {mode: ips, rule: ['drop udp any any -> any any (msg:"three bytes"; content:"|7f 01|"; sid:3;)']},
        mirror])",
                              device);
}

/// Batches by launches, and on the list of a kernel that stays.
constexpr device::Mode kWaysOfBatches[] = {device::Mode::fused, device::Mode::persistent};

class SeveralDevices : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};

TEST_P(SeveralDevices, GiveTheCpusAnswerInEveryMode) {
    const std::vector<Frame> frames = random_frames(200, 21);
    const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
    for (const device::Mode mode : device::kModes)
        for (const size_t burst : {1u, 33u, 100u}) {
            exec::OffloadOptions options;
            options.mode = mode;
            const EngineRun run = run_alternating(open_devices(GetParam()), make_test_chain(GetParam()), frames, burst,
                                                  options);
            expect_conserved(run, frames.size());
            expect_equal(expected, run, "bursts of " + std::to_string(burst));
        }
}

TEST_P(SeveralDevices, RefuseReplaysWhereverTheFirstOneWent) {
    std::vector<Frame> plain;
    for (int i = 0; i < 1500; ++i)
        plain.push_back(build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: hello}"));
    const EngineRun sealed = run_on_cpu(into_tunnel("cpu"), plain, 256);
    const std::vector<Frame> frames = with_replays(sealed);
    const EngineRun expected = run_on_cpu(out_of_tunnel("cpu"), frames, 256);
    size_t refused = 0;
    for (const Outcome& outcome : expected.outcomes) refused += outcome.verdict.target.kind == Target::Kind::drop;
    ASSERT_GT(refused, 50u);
    ASSERT_LT(refused, frames.size() / 2);
    for (const device::Mode mode : kWaysOfBatches) {
        exec::OffloadOptions options;
        options.mode = mode;
        const EngineRun run = run_alternating(open_devices(GetParam()), out_of_tunnel(GetParam()), frames, 50, options);
        expect_conserved(run, frames.size());
        expect_equal(expected, run, std::string("behind the tunnel, ") + device::name_of(mode));
    }
}

INSTANTIATE_TEST_SUITE_P(Pairs, SeveralDevices, testing::ValuesIn(device_pairs()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SeveralDevices);

/// Two simulated devices of which the second breaks down after some operations.
Devices one_that_fails(Fault::Kind kind, uint64_t after) {
    SimOptions sound, unsound;
    sound.seed = static_cast<uint32_t>(after) + 3;
    sound.faults = {{kind, UINT64_MAX}};  // never comes, and lets no other in while tests are proved
    unsound.number = 1;
    unsound.faults = {{kind, after, 500}};
    return {std::make_shared<SimDevice>(sound), std::make_shared<SimDevice>(unsound)};
}

TEST(SeveralDevicesOneLost, LeaveTheOtherAtWorkWherePacketsNeedNoOrder) {
    const std::vector<Frame> frames = random_frames(1200, 23);
    const EngineRun expected = run_on_cpu(without_order("cpu"), frames, 256);
    for (const Fault::Kind kind : {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost})
        for (const uint64_t after : {0, 5, 17, 40})
            for (const device::Mode mode : kWaysOfBatches) {
                exec::OffloadOptions options;
                options.mode = mode;
                const EngineRun run = run_alternating(one_that_fails(kind, after), without_order("sim:0+sim:1"), frames,
                                                      30, options, {}, Work::fault);
                expect_conserved(run, frames.size());
                expect_equal(expected, run,
                             "fault " + std::to_string(static_cast<int>(kind)) + " after " + std::to_string(after) +
                                 ", " + device::name_of(mode));
                EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
                EXPECT_LT(run.counters->retried_on_cpu.get(), frames.size() / 2) << "the other device gave up, too";
            }
}

TEST(SeveralDevicesOneLost, NumberEveryPacketOnce) {
    const std::vector<Frame> frames(
        1200, build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: hello}"));
    for (const Fault::Kind kind : {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost})
        for (const uint64_t after : {0, 5, 17, 40, 80})
            for (const device::Mode mode : kWaysOfBatches) {
                exec::OffloadOptions options;
                options.mode = mode;
                const EngineRun run = run_alternating(one_that_fails(kind, after), into_tunnel("sim:0+sim:1"), frames,
                                                      30, options, {}, Work::fault);
                expect_conserved(run, frames.size());
                std::set<uint32_t> numbers;
                for (const Outcome& outcome : run.outcomes) {
                    ASSERT_GT(outcome.frame.size(), 42u);
                    EXPECT_TRUE(numbers.insert(load_be32(outcome.frame.data() + 38)).second)
                        << "a sequence number was used twice";
                }
                // Those of a batch that was lost when a later one had come back are missing; where devices work by
                // themselves, that may be the first one.
                EXPECT_LE(*numbers.begin(), mode == device::Mode::fused ? 1u : 1u + run.counters->retried_on_cpu.get());
                EXPECT_LE(*numbers.rbegin(), frames.size() + run.counters->retried_on_cpu.get());
            }
}

chain::Configuration parse(const std::string& text, const std::string& device) {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = testing::TempDir();
    return chain::parse_configuration(text, "(several devices)", options);
}

constexpr const char* kSource =
    "version: 1\nports: {in: {source: {size: 100, count: 30000}, queues: 4}, out: {sink: {}}}\nchains: {c: {input: in, "
    "output: out, nfs: [mirror]}}\n";

TEST(SeveralDevicesOneLost, KeepOtherWorkersOnTheirDevice) {
    exec::RuntimeOptions options;
    options.workers = 4;
    options.devices = one_that_fails(Fault::Kind::device_lost, 20);
    exec::Runtime runtime(parse(kSource, "sim:0+sim:1"), options);
    runtime.start();
    const exec::Report report = end_of_run(runtime);
    EXPECT_EQ(report.chains[0].sent_packets, 30000u);
    EXPECT_NE(report.engine.find("cpu, taken over from a failed device (simulated GPU (sim:1"), std::string::npos)
        << report.engine;
    EXPECT_EQ(report.engine.find("device (simulated GPU (sim:0"), std::string::npos) << report.engine;
    EXPECT_NE(report.engine.find("simulated GPU (sim:0"), std::string::npos) << report.engine;
}

TEST(SeveralDevicesRuntime, DealsWorkersToDevices) {
    exec::RuntimeOptions options;
    exec::Runtime runtime(parse(kSource, "sim:0+sim:1+sim:7"), options);
    ASSERT_EQ(runtime.workers().size(), 3u) << "a worker for each device unless asked for more";
    for (size_t i = 0; i < 3; ++i)
        EXPECT_NE(runtime.workers()[i]->engine_text().find("sim:" + std::to_string(i < 2 ? i : 7)), std::string::npos);
}

TEST(SeveralDevicesRuntime, RefusesFewerWorkersThanDevices) {
    exec::RuntimeOptions options;
    options.workers = 1;
    try {
        exec::Runtime runtime(parse(kSource, "sim:0+sim:1"), options);
        FAIL() << "the second device would have idled without a word";
    } catch (const ConfigError& e) {
        EXPECT_NE(std::string(e.what()).find("sim:0+sim:1 want 2 workers"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("--workers"), std::string::npos) << e.what();
    }
}

class SeveralDevicesChange : public testing::TestWithParam<std::tuple<std::string, device::Mode>> {};
INSTANTIATE_TEST_SUITE_P(OnOneAndTwo, SeveralDevicesChange,
                         testing::Combine(testing::Values("sim", "sim:0+sim:1"), testing::ValuesIn(kWaysOfBatches)),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param) == "sim" ? "one" : "two") +
                                    device::name_of(std::get<1>(info.param));
                         });

TEST_P(SeveralDevicesChange, KeepsNumbersThroughChangesOfConfiguration) {
    exec::RuntimeOptions options;
    options.workers = 2;
    const auto& [devices, mode] = GetParam();
    options.offload.mode = mode;
    const auto text = [](unsigned tunnels) {
        std::string sas, policies;
        for (unsigned i = 0; i < tunnels; ++i) {
            const std::string n = std::to_string(i);
            sas += "{name: t" + n + ", direction: out, spi: 0x100" + n + ", local: 192.0.2.1, remote: 198.51.100." + n +
                   ", cipher: aes-128-ctr, "
                   "key: 7e24067817fae0d743d6ce1f3253916" +
                   n + ", nonce: \"006cb6db\", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98},";
            policies = "{dst: " + (i == 0 ? "0.0.0.0/0" : "203.0.113." + n + "/32") + ", action: protect, sa: t" + n +
                       "}," + policies;
        }
        return "version: 1\nports: {in: {source: {size: 100, count: 200000, rate: 400000}, queues: 2}, out: {sink: "
               "{}}}\n"
               "chains: {c: {input: in, output: out, nfs: [ipsec: {sas: [" +
               sas + "], policies: [" + policies + "], default: bypass}]}}\n";
    };
    exec::Runtime runtime(parse(text(1), devices), options);
    runtime.start();
    for (unsigned g = 0; g < 40; ++g) {
        chain::LoadOptions load;
        load.device = devices;
        load.output_folder = testing::TempDir();
        const auto current = runtime.configuration();
        load.previous = current.get();
        runtime.apply(chain::parse_configuration(text(1 + g % 3), "(several devices)", load));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const exec::Report report = end_of_run(runtime, Work::device_alone);
    // All packets go by the first tunnel, whose counter is the number of packets, if none was forgotten.
    EXPECT_EQ(numbers_given_out(*runtime.configuration(), 0, 0), report.chains[0].sent_packets);
    EXPECT_EQ(report.chains[0].sent_packets, 200000u);
}

}  // namespace
}  // namespace millrace::test
