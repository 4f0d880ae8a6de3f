// Several workers at once: every packet counted once, packets of a flow in order, chains that lead to chains.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "exec/alternating.hpp"
#include "lab/compared/master_worker.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/metadata.hpp"
#include "support/test_chain.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

chain::Configuration configuration(const std::string& text, const std::string& device) {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = testing::TempDir();
    return chain::parse_configuration(text, "(workers)", options);
}

/// The last one: OffloadOptions::long_batch_bytes.
class Workers
    : public testing::TestWithParam<std::tuple<std::string, unsigned, lab::Threading, device::Mode, bool, size_t>> {};

const size_t kLong = exec::OffloadOptions().long_batch_bytes;

std::string test_name(const testing::TestParamInfo<Workers::ParamType>& info) {
    const auto& [device, workers, threading, mode, call_thread, long_bytes] = info.param;
    return device_test_name({device, info.index}) + "with" + std::to_string(workers) +
           (threading == lab::Threading::full_path ? "" : "andMaster") +
           (mode == device::Mode::fused ? "" : device::name_of(mode)) + (call_thread ? "andCallThread" : "") +
           (long_bytes == kLong ? "" : "from" + std::to_string(long_bytes) + "bytes");
}
constexpr lab::Threading kThreadings[] = {lab::Threading::full_path, lab::Threading::master_worker};

TEST_P(Workers, CountEveryPacketOnceAndKeepFlowsInOrder) {
    const auto& [device, workers, threading, mode, call_thread, long_bytes] = GetParam();
    MILLRACE_NEEDS_DEVICE(device);
    const std::string file = testing::TempDir() + "/workers_" + test_name({GetParam(), 0}) + "_" +
                             std::to_string(getpid()) + ".pcap";
    exec::RuntimeOptions options;
    options.workers = workers;
    lab::set_threading(options, threading);
    options.offload.mode = mode;
    options.offload.calls_by_thread = call_thread;
    options.offload.long_batch_bytes = long_bytes;
    options.offload.patience = std::chrono::seconds(60);  // a busy machine emulates a GPU slowly
    options.devices = open_devices(device);
    exec::Runtime runtime(configuration(R"(
version: 1
ports:
  in: {source: {size: 200, flows: 50, count: 40000}, queues: )" +
                                            std::to_string(workers) + R"(}
  out: {output: )" + file + R"(}
chains:
  first:
    input: in
    nfs:
      - firewall: {default: permit, rules: [deny udp from any port 1-2]}
        on: {permit: chain second}
  second:
    output: out
    nfs: )" + into_tunnel_nfs() + "\n",
                                        device),
                          options);
    runtime.start();
    const exec::Report report = end_of_run(runtime, Work::device_alone);
    EXPECT_EQ(report.ports[0].counters.received_packets, 40000u);
    EXPECT_EQ(report.chains[0].passed_on, 40000u);
    EXPECT_EQ(report.chains[1].sent_packets, 40000u);
    EXPECT_GT(report.receive_cycles_per_packet, 0);
    if (device != "cpu") {
        ASSERT_EQ(report.chains[1].stages.us.size(), std::size(exec::kBatchStageNames));
        EXPECT_GT(report.chains[1].stages.us.at("round-trip"), 0);
        EXPECT_EQ(report.chains[1].stages.cycles_per_packet.size(), 3u) << "laying out, calls, results";
    }

    // The gateway numbers packets across all workers, and the host knows how far it is.
    expect_each_number_once(file, 40000);
    EXPECT_EQ(numbers_given_out(*runtime.configuration(), 1, 0), 40000u);
    std::remove(file.c_str());
}

constexpr auto kFused = device::Mode::fused, kPersistent = device::Mode::persistent;
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Workers,
                         testing::Combine(testing::ValuesIn(test_devices()), testing::Values(1u, 2u, 4u),
                                          testing::ValuesIn(kThreadings), testing::Values(kFused),
                                          testing::Values(false), testing::Values(kLong)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(OnPairs, Workers,
                         testing::Combine(testing::ValuesIn(device_pairs()), testing::Values(2u, 4u),
                                          testing::ValuesIn(kThreadings), testing::Values(kFused), testing::Bool(),
                                          testing::Values(kLong)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(OnLists, Workers,
                         testing::Combine(testing::ValuesIn(offload_devices()), testing::Values(1u, 2u, 4u),
                                          testing::ValuesIn(kThreadings), testing::Values(kPersistent),
                                          testing::Values(false), testing::Values(kLong)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(OnListsOfPairs, Workers,
                         testing::Combine(testing::ValuesIn(device_pairs()), testing::Values(4u),
                                          testing::Values(lab::Threading::full_path), testing::Values(kPersistent),
                                          testing::Values(false), testing::Values(kLong)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(WithCallThread, Workers,
                         testing::Combine(testing::ValuesIn(offload_devices()), testing::Values(1u, 4u),
                                          testing::ValuesIn(kThreadings), testing::Values(kFused),
                                          testing::Values(true), testing::Values(kLong)),
                         test_name);
/// Batches whose ordered kernels go by themselves, all of them and some.
INSTANTIATE_TEST_SUITE_P(InHalves, Workers,
                         testing::Combine(testing::ValuesIn(offload_devices()), testing::Values(1u, 4u),
                                          testing::Values(lab::Threading::full_path), testing::Values(kFused),
                                          testing::Bool(), testing::Values(0, 8192)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(InHalvesOnPairs, Workers,
                         testing::Combine(testing::ValuesIn(device_pairs()), testing::Values(4u),
                                          testing::Values(lab::Threading::full_path), testing::Values(kFused),
                                          testing::Bool(), testing::Values(0, 8192)),
                         test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Workers);

/// A batch of another chain that was put on the device before, and never comes to its end.
class OrderOfWorkers : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, OrderOfWorkers, testing::ValuesIn(offload_devices()), device_test_name);
TEST_P(OrderOfWorkers, KeepsNoBatchWaitingForThoseOfOtherChains) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    const auto device = open_device(GetParam());
    const chain::Configuration other = into_tunnel(GetParam());
    const chain::Program& program = *other.chains[0];
    const auto sequence = device->order_gate()->sequence_of(
        program.nodes[device::sequences_of(program).front()].nf->image());
    sequence->follow(++device->order_gate()->batches);
    exec::OffloadOptions options;
    options.patience = std::chrono::seconds(20);
    const std::vector<Frame> frames = random_frames(300, 61);
    const EngineRun run = run_on_device(device, into_tunnel(GetParam()), frames, 50, options);
    expect_conserved(run, frames.size());
    EXPECT_EQ(run.counters->retried_on_cpu.get(), 0u);
    const EngineRun expected = run_on_cpu(into_tunnel("cpu"), frames, 100);
    for (size_t i = 0; i < frames.size(); ++i) ASSERT_EQ(expected.outcomes[i].text(), run.outcomes[i].text());
}

TEST_P(OrderOfWorkers, LeavesTheLatestStateWhicheverBatchComesBackFirst) {
    MILLRACE_NEEDS_DEVICE(GetParam());
#if defined(__SANITIZE_THREAD__)
    constexpr unsigned kSeeds = 10;  // 50 take two minutes
#else
    constexpr unsigned kSeeds = 50;
#endif
    const unsigned seeds = GetParam() == "sim" ? kSeeds : 3;
    for (unsigned seed = 0; seed < seeds; ++seed) {
        const auto device = open_device(GetParam(), seed);
        const chain::Configuration configuration = into_tunnel(GetParam());
        std::vector<Frame> frames;
        for (unsigned i = 0; i < 400; ++i)
            frames.push_back(
                build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: hello}"));
        const EngineRun run = run_alternating({device, device}, configuration, frames, 50);
        expect_conserved(run, frames.size());
        ASSERT_EQ(numbers_given_out(configuration, 0, 0), frames.size()) << "with seed " << seed;
    }
}

/// A chain with state per key, whose batches take several kernels one after the other.
std::string policed(unsigned workers, unsigned packets) {
    return "version: 1\nports: {in: {source: {size: 200, flows: 50, count: " + std::to_string(packets) +
           "}, queues: " + std::to_string(workers) +
           "}, out: {sink: {}}}\nchains: {c: {input: in, output: out, max-batch: 32, nfs: [policer: {per: flow, rate: "
           "100Gbps}]}}\n";
}

/// More workers than a GPU has queues: kernels of several share one, and those that wait hold up what is behind them.
class ManyWorkers : public testing::TestWithParam<std::tuple<std::string, unsigned>> {};
INSTANTIATE_TEST_SUITE_P(All, ManyWorkers,
                         testing::Combine(testing::ValuesIn(offload_devices()), testing::Values(2u, 12u)),
                         [](const testing::TestParamInfo<ManyWorkers::ParamType>& info) {
                             return std::get<0>(info.param) + "with" + std::to_string(std::get<1>(info.param));
                         });
TEST_P(ManyWorkers, WaitForNothingThatStandsBehindThem) {
    const auto& [name, workers] = GetParam();
    MILLRACE_NEEDS_DEVICE(name);
    const unsigned packets = 128 * workers;
    exec::RuntimeOptions options;
    options.workers = workers;
    options.offload.patience = std::chrono::seconds(60);
    options.devices = {open_device(name)};
    exec::Runtime runtime(configuration(policed(workers, packets), name), options);
    runtime.start();
    const exec::Report report = end_of_run(runtime, Work::device_alone);
    EXPECT_EQ(report.chains[0].sent_packets, packets);
}

/// A chain of so many functions with state through the simulated GPU; what refuses it.
std::string run_policers(unsigned count) {
    std::string nfs;
    for (unsigned i = 0; i < count; ++i)
        nfs += (i > 0 ? ", " : "") + ("{policer: {per: flow, rate: 100Gbps}, name: p" + std::to_string(i) + "}");
    exec::RuntimeOptions options;
    options.devices = {open_device("sim")};
    try {
        exec::Runtime runtime(
            configuration("version: 1\nports: {in: {source: {size: 200, flows: 50, count: 200}}, out: "
                          "{sink: {}}}\nchains: {c: {input: in, output: out, nfs: [" +
                              nfs + "]}}\n",
                          "sim"),
            options);
        runtime.start();
        const exec::Report report = end_of_run(runtime, Work::device_alone);
        EXPECT_EQ(report.chains[0].sent_packets, 200u);
        return "";
    } catch (const device::DeviceError& e) {
        return e.what();
    }
}
TEST(Sequences, AreAsManyAsThereIsRoomForStates) {
    EXPECT_EQ(run_policers(device::kMaxStateArrays), "");
    EXPECT_EQ(run_policers(device::kMaxStateArrays + 1), "chain 'c': its NFs have more than 8 arrays of state");
}

/// What frees or unpins memory waits for all kernels to end, and a driver launches none meanwhile: with a batch half
/// launched that the others wait for, that would be for ever.
class Interrupted : public testing::TestWithParam<std::string> {
protected:
    static constexpr unsigned kPackets = 8000;
    /// Four workers' packets through four policers, while another thread has memory set aside and let go of, `times`
    /// more.
    void run(unsigned& times) {
        const auto device = open_device(GetParam());
        exec::RuntimeOptions options;
        options.workers = 4;
        options.offload.patience = std::chrono::seconds(300);
        options.devices = {device};
        exec::Runtime runtime(configuration(policed(4, kPackets), GetParam()), options);
        std::atomic<bool> over{false};
        runtime.start();
        std::thread other([&] {
            std::vector<char> memory(1 << 20);
            try {
                for (; !over; ++times) {
                    device->free_host(device->allocate_host(4096));
                    device->free(device->allocate(4096, "a test"));
                    if (device->pin(memory.data(), memory.size())) device->unpin(memory.data());
                }
            } catch (const device::DeviceError& e) {
                ADD_FAILURE() << e.what();
            }
        });
        const exec::Report report = end_of_run(runtime);
        over = true;
        other.join();
        EXPECT_EQ(report.chains[0].sent_packets, kPackets);
        expect_work(Work::device_alone, report);
    }
};
INSTANTIATE_TEST_SUITE_P(All, Interrupted, testing::ValuesIn(offload_devices()), device_test_name);
TEST_P(Interrupted, NeverBetweenTheKernelsOfABatch) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    // Each time waits for what runs then, and a GPU may have other processes, too: some runs see few.
    unsigned times = 0;
    for (unsigned runs = 0; runs < 8 && times <= 3 && !HasFailure(); ++runs) run(times);
    EXPECT_GT(times, 3u);
}

class WorkersStop : public testing::TestWithParam<std::tuple<lab::Threading, device::Mode>> {};

TEST_P(WorkersStop, InOrderWhenAskedTo) {
    exec::RuntimeOptions options;
    options.workers = 2;
    const auto& [threading, mode] = GetParam();
    lab::set_threading(options, threading);
    options.offload.mode = mode;
    exec::Runtime runtime(configuration("version: 1\nports: {in: {source: {size: 64}, queues: 2}, out: {sink: {}}}\n"
                                        "chains: {c: {input: in, output: out, nfs: [mirror]}}\n",
                                        "sim"),
                          options);
    runtime.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const exec::Report report = stop_run(runtime, Work::device_alone);
    EXPECT_GT(report.chains[0].sent_packets, 0u);
    EXPECT_EQ(report.chains[0].in_flight, 0u);
}

TEST(WorkersChange, DoesNotWaitForAWorkerThatHasNothingLeftToDo) {
    exec::RuntimeOptions options;
    options.workers = 2;
    const std::string text =
        "version: 1\nports: {in: {source: {size: 64, count: 100000000, rate: 10000}, queues: 1}, out: {sink: {}}}\n"
        "chains: {c: {input: in, output: out, nfs: [mirror]}}\n";
    exec::Runtime runtime(configuration(text, "cpu"), options);
    runtime.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    chain::LoadOptions load;
    load.output_folder = testing::TempDir();
    const auto current = runtime.configuration();
    load.previous = current.get();
    std::atomic<bool> applied{false};
    std::thread change([&] {
        runtime.apply(chain::parse_configuration(text, "(workers)", load));
        applied = true;
    });
    for (int i = 0; i < 200 && !applied; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(applied) << "the second worker has no queue, and the change waits for it";
    EXPECT_FALSE(runtime.wait(std::chrono::milliseconds(1))) << "the run was over already";
    runtime.stop();
    change.join();
    end_of_run(runtime);
}

INSTANTIATE_TEST_SUITE_P(InBothThreadings, WorkersStop,
                         testing::Combine(testing::ValuesIn(kThreadings),
                                          testing::Values(device::Mode::fused, device::Mode::persistent)));

}  // namespace
}  // namespace millrace::test
