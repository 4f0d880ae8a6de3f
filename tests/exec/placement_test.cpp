// Chains that the CPU and devices share: who runs them when, that both give the CPU's answer with the same state in
// turn, and that nothing is lost while they change hands.
#include <gtest/gtest.h>
#include <rte_cycles.h>
#include <unistd.h>

#include <thread>

#include "exec/alternating.hpp"
#include "lab/compared/master_worker.hpp"
#include "millrace/base/eal.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/source/source_port.hpp"
#include "support/test_chain.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

using exec::Placement;
using Place = exec::Placement::Place;

/// An engine's part in a placement, with a clock of its own.
class Worker {
public:
    explicit Worker(const std::shared_ptr<Placement>& placement) : member(placement) {}
    uint64_t cycles(double seconds) const {
        return static_cast<uint64_t>(seconds * static_cast<double>(rte_get_tsc_hz()));
    }
    void pass(double seconds, size_t packets = 0) {
        member.on_receive(packets);
        member.update(now += cycles(seconds));
    }
    void work(size_t packets, double seconds) {
        ASSERT_TRUE(member.begin_on_cpu());
        member.end_on_cpu(packets, cycles(seconds));
    }
    /// More than the CPU has time for, until the chains are on their way to the device.
    void be_swamped(double cost = 1e-6) {
        pass(1e-6);
        for (int i = 0; i < 20; ++i) work(64, 64 * cost);
        pass(1e-3, 1000);
    }
    Placement::Member member;
    uint64_t now = rte_rdtsc();
};

class Placements : public testing::Test {
protected:
    Placements() { start_eal(); }
    std::shared_ptr<Placement> placement = std::make_shared<Placement>();
};

TEST_F(Placements, LeaveFewPacketsOnTheCpu) {
    Worker worker(placement);
    for (int i = 0; i < 1000; ++i) {
        worker.work(10, 48e-6);  // there is always something to do, but never much
        worker.pass(50e-6, 10);
        ASSERT_EQ(placement->place(), Place::cpu);
    }
    EXPECT_FALSE(worker.member.begin_batch());
}

TEST_F(Placements, TakeNoInterruptionForWork) {
    Worker worker(placement);
    for (int i = 0; i < 10; ++i) {
        worker.work(1, 5e-3);  // whatever kept it
        worker.pass(5e-3, 1);
        worker.work(40, 5e-3);
        worker.pass(5e-3, 1);
    }
    EXPECT_EQ(placement->place(), Place::cpu);
}

TEST_F(Placements, GoToTheDeviceWhenNobodyIsOnTheCpuAndBackWhenNoBatchIsOut) {
    Worker one(placement), other(placement);
    EXPECT_EQ(placement->place(), Place::cpu);
    ASSERT_TRUE(other.member.begin_on_cpu());
    one.be_swamped();
    EXPECT_EQ(placement->place(), Place::to_device);
    EXPECT_FALSE(one.member.begin_on_cpu());
    one.pass(1e-6);
    EXPECT_EQ(placement->place(), Place::to_device) << "the other still has packets in its CPU halves";
    EXPECT_FALSE(one.member.begin_batch());
    other.member.end_on_cpu(1, 1);
    other.pass(1e-6);
    EXPECT_EQ(placement->place(), Place::device);
    const uint64_t hand_overs = placement->hand_overs();
    EXPECT_GT(hand_overs, 0u);
    EXPECT_FALSE(other.member.begin_on_cpu());
    ASSERT_TRUE(one.member.begin_batch());

    // Only when none of them has had much to do for a while.
    for (int i = 0; i < 30; ++i) other.pass(1.1e-3);
    EXPECT_EQ(placement->place(), Place::device) << "one has not been updated yet";
    for (int i = 0; i < 9; ++i) one.pass(1.1e-3);
    one.pass(1.1e-3, 1200);
    for (int i = 0; i < 9; ++i) one.pass(1.1e-3);
    EXPECT_EQ(placement->place(), Place::device) << "there was a window with work for more than half of a core";
    one.pass(1.1e-3);
    EXPECT_EQ(placement->place(), Place::to_cpu);
    EXPECT_FALSE(other.member.begin_batch());
    EXPECT_FALSE(other.member.begin_on_cpu());
    one.pass(1e-6);
    EXPECT_EQ(placement->place(), Place::to_cpu) << "a batch is out";
    one.member.end_batches(1);
    other.pass(1e-6);
    EXPECT_EQ(placement->place(), Place::cpu);
    other.be_swamped();
    one.pass(1e-6);
    EXPECT_EQ(placement->place(), Place::device);
    EXPECT_EQ(placement->hand_overs(), hand_overs + 1);
}

TEST_F(Placements, DoNotWaitForThoseThatHaveLeft) {
    Worker one(placement);
    {
        Worker gone(placement);
        gone.be_swamped();
    }
    one.pass(1e-6);
    ASSERT_EQ(placement->place(), Place::device);
    for (int i = 0; i < 12; ++i) one.pass(1.1e-3);
    EXPECT_EQ(placement->place(), Place::cpu);
}

TEST_F(Placements, LearnWhatAPacketCosts) {
    Worker worker(placement);
    // Ten times what is assumed at first: what would be a light load is not.
    for (int i = 0; i < 100; ++i) worker.work(40, 400e-6), worker.pass(1e-3);
    worker.be_swamped(10e-6);
    worker.pass(1e-6);
    ASSERT_EQ(placement->place(), Place::device);
    for (int i = 0; i < 30; ++i) worker.pass(1.1e-3, 100);
    EXPECT_EQ(placement->place(), Place::device);
    for (int i = 0; i < 12; ++i) worker.pass(1.1e-3, 10);
    EXPECT_EQ(placement->place(), Place::cpu);
}

/// Two bursts on the CPU, two on the devices, and so on.
EngineRun to_and_fro(const Devices& devices, const chain::Configuration& configuration,
                     const std::vector<Frame>& frames, size_t burst, device::Mode mode,
                     Work work = Work::shared_with_cpu) {
    exec::OffloadOptions options;
    options.mode = mode;
    options.placement = std::make_shared<Placement>();
    Worker pusher(options.placement);
    return run_alternating(
        devices, configuration, frames, burst, options,
        [&](size_t turn, const auto& poll) {
            if (turn % 4 == 2) {
                while (options.placement->place() != Place::device) {
                    if (options.placement->place() == Place::cpu) pusher.be_swamped();
                    else poll(), pusher.pass(1e-6);
                }
            } else if (turn % 4 == 0 && turn > 0) {
                while (options.placement->place() != Place::cpu) poll(), pusher.pass(1.1e-3);
            }
        },
        work);
}

class SharedWithCpu : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
    std::string names() const { return GetParam() + "+cpu"; }

    EngineRun to_and_fro(const chain::Configuration& configuration, const std::vector<Frame>& frames, size_t burst,
                         device::Mode mode = device::Mode::fused) {
        return test::to_and_fro(open_devices(GetParam()), configuration, frames, burst, mode);
    }
};

TEST_P(SharedWithCpu, GivesTheCpusAnswerWhoeverRunsIt) {
    const std::vector<Frame> frames = random_frames(1000, 33);
    const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
    for (const device::Mode mode : {device::Mode::fused, device::Mode::pipelined})
        for (const size_t burst : {1u, 33u, 100u}) {
            const EngineRun run = to_and_fro(
                make_test_chain(names()),
                std::vector(frames.begin(), frames.begin() + std::min<long>(1000, 40 * burst)), burst, mode);
            EngineRun part;
            part.outcomes.assign(expected.outcomes.begin(),
                                 expected.outcomes.begin() + static_cast<long>(run.outcomes.size()));
            expect_conserved(run, std::min<size_t>(1000, 40 * burst));
            expect_equal(part, run, "bursts of " + std::to_string(burst));
            EXPECT_GE(run.counters->kept_on_cpu.get(), burst);
            EXPECT_GE(run.counters->received_packets.get() - run.counters->kept_on_cpu.get(), burst)
                << "nothing went to the device";
        }
}

TEST_P(SharedWithCpu, HandsSequenceNumbersAndReplayWindowsOver) {
    std::vector<Frame> plain;
    for (int i = 0; i < 1200; ++i)
        plain.push_back(build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: hello}"));
    const EngineRun sealed = run_on_cpu(into_tunnel("cpu"), plain, 256);
    expect_equal(sealed, to_and_fro(into_tunnel(names()), plain, 30), "into the tunnel");
    const std::vector<Frame> frames = with_replays(sealed);
    const EngineRun expected = run_on_cpu(out_of_tunnel("cpu"), frames, 256);
    size_t refused = 0;
    for (const Outcome& outcome : expected.outcomes) refused += outcome.verdict.target.kind == Target::Kind::drop;
    ASSERT_GT(refused, 50u);
    const EngineRun run = to_and_fro(out_of_tunnel(names()), frames, 30);
    expect_conserved(run, frames.size());
    expect_equal(expected, run, "out of the tunnel");
}

INSTANTIATE_TEST_SUITE_P(All, SharedWithCpu, testing::ValuesIn(offload_devices()), device_test_name);
INSTANTIATE_TEST_SUITE_P(OnPairs, SharedWithCpu, testing::ValuesIn(device_pairs()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SharedWithCpu);

chain::Configuration configuration(const std::string& text, const std::string& device) {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = testing::TempDir();
    return chain::parse_configuration(text, "(shared with the cpu)", options);
}

class LoadSteps : public testing::TestWithParam<std::tuple<std::string, unsigned, lab::Threading>> {};
std::string steps_name(const testing::TestParamInfo<LoadSteps::ParamType>& info) {
    const auto& [device, workers, threading] = info.param;
    return device_test_name({device, info.index}) + "with" + std::to_string(workers) +
           (threading == lab::Threading::full_path ? "" : "andMaster");
}

/// The load goes up and down: both run packets, each packet once, each number once.
TEST_P(LoadSteps, MoveChainsAndLoseNothing) {
    const auto& [device, workers, threading] = GetParam();
    MILLRACE_NEEDS_DEVICE(device);
    const std::string file = testing::TempDir() + "/steps_" + steps_name({GetParam(), 0}) + "_" +
                             std::to_string(getpid()) + ".pcap";
    exec::RuntimeOptions options;
    options.workers = workers;
    lab::set_threading(options, threading);
    options.devices = open_devices(device);
    exec::Runtime runtime(configuration(R"(
version: 1
ports:
  in: {source: {size: 200, flows: 50, count: 100000, rate: 5000}, queues: )" +
                                            std::to_string(workers) + R"(}
  out: {output: )" + file + R"(}
chains:
  only:
    input: in
    output: out
    nfs: )" + into_tunnel_nfs() + "\n",
                                        device + "+cpu"),
                          options);
    auto& source = dynamic_cast<io::SourcePort&>(*runtime.ports()[0]);
    runtime.start();
    for (int step = 0; step < 5 && !runtime.wait(std::chrono::milliseconds(80)); ++step) {
        source.set_rate(0);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        source.set_rate(5000);
    }
    source.set_rate(0);
    const exec::Report report = end_of_run(runtime, Work::shared_with_cpu);
    EXPECT_EQ(report.chains[0].sent_packets, 100000u);
    EXPECT_GT(report.chains[0].kept_on_cpu, 100u);
    EXPECT_GT(report.chains[0].bytes_to_device, 0u);
    expect_each_number_once(file, 100000);
    std::remove(file.c_str());
}

INSTANTIATE_TEST_SUITE_P(All, LoadSteps,
                         testing::Combine(testing::ValuesIn(offload_devices()), testing::Values(1u, 2u, 4u),
                                          testing::Values(lab::Threading::full_path, lab::Threading::master_worker)),
                         steps_name);
INSTANTIATE_TEST_SUITE_P(OnPairs, LoadSteps,
                         testing::Combine(testing::ValuesIn(device_pairs()), testing::Values(4u),
                                          testing::Values(lab::Threading::full_path)),
                         steps_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LoadSteps);

/// The first copies after a hand-over bring states: whatever fails, and when, each packet has the number that it has on
/// the CPU.
TEST(SharedWithCpuAlone, NumbersOnWhenTheDeviceFailsAroundAHandOver) {
    std::vector<Frame> plain;
    for (int i = 0; i < 360; ++i)
        plain.push_back(build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: hello}"));
    const EngineRun expected = run_on_cpu(into_tunnel("cpu"), plain, 256);
    using device::sim::Fault;
    for (const Fault::Kind kind : {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost})
        for (const uint64_t after : {0, 1, 2, 3, 7, 20}) {
            device::sim::SimOptions simulated;
            simulated.faults = {{kind, after}};
            const EngineRun run = to_and_fro({std::make_shared<device::sim::SimDevice>(simulated)},
                                             into_tunnel("sim+cpu"), plain, 30, device::Mode::fused, Work::fault);
            expect_conserved(run, plain.size());
            expect_equal(expected, run,
                         "fault " + std::to_string(static_cast<int>(kind)) + " after " + std::to_string(after));
        }
}

TEST(SharedWithCpuAlone, RefusesAKernelThatStays) {
    exec::RuntimeOptions options;
    options.offload.mode = device::Mode::persistent;
    try {
        exec::Runtime runtime(configuration("version: 1\nports: {in: {source: {count: 1}}, out: {sink: {}}}\nchains: "
                                            "{c: {input: in, output: out, nfs: [mirror]}}\n",
                                            "sim+cpu"),
                              options);
        FAIL() << "state would be in two places";
    } catch (const ConfigError& e) {
        EXPECT_NE(std::string(e.what()).find("--mode fused"), std::string::npos) << e.what();
    }
}

TEST(SharedWithCpuAlone, GoesOnWhenTheDeviceIsLost) {
    device::sim::SimOptions simulated;
    simulated.faults = {{device::sim::Fault::Kind::device_lost, 40}};
    exec::RuntimeOptions options;
    options.workers = 2;
    options.devices = {std::make_shared<device::sim::SimDevice>(simulated)};
    exec::Runtime runtime(
        configuration("version: 1\nports: {in: {source: {size: 100, count: 60000}, queues: 2}, out: {sink: {}}}\n"
                      "chains: {c: {input: in, output: out, nfs: [mirror]}}\n",
                      "sim+cpu"),
        options);
    runtime.start();
    const exec::Report report = end_of_run(runtime);
    EXPECT_EQ(report.chains[0].sent_packets, 60000u);
    EXPECT_NE(report.engine.find("taken over from a failed device"), std::string::npos) << report.engine;
}

}  // namespace
}  // namespace millrace::test
