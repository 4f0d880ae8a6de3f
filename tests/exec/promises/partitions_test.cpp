// Chains on multiprocessors of their own, while packets flow.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/offload/batch/batch_streams.hpp"
#include "millrace/exec/promises/promise_watch.hpp"
#include "millrace/exec/report/report.hpp"
#include "support/devices.hpp"
#include "support/end_of_run.hpp"

namespace millrace::exec {
namespace {

using namespace std::chrono_literals;
using schedule::SmRange;

constexpr uint64_t kPackets = 3000;

/// Chains c0, c1, …, each with a port, of as many packets as `counts` says, and these functions.
chain::Configuration load(const std::string& device, const std::vector<std::string>& functions,
                          const std::string& sharing, uint64_t packets = kPackets) {
    std::string ports = "ports:\n  out: {sink: {}}\n", chains = "chains:\n";
    for (size_t i = 0; i < functions.size(); ++i) {
        ports += fmt::format("  in{}: {{source: {{size: 128, count: {}}}}}\n", i, packets);
        chains += fmt::format(
            "  c{0}: {{input: in{0}, output: out, max-delay: 1ms, rate: 1M, latency: 10s, nfs: {1}}}\n", i,
            functions[i]);
    }
    chain::LoadOptions options;
    options.output_folder = testing::TempDir();
    return chain::parse_configuration("version: 1\ndevice: " + device + "\nsharing: " + sharing + "\n" + ports + chains,
                                      "(test)", options);
}

/// As if each had been measured: k1 = 100 ns, b1 = 20 us, k2 = 0.02 ns, b2 = 1 us.
std::shared_ptr<const schedule::Profile> profile(const chain::Configuration& configuration) {
    schedule::Profile made{"simulated GPU", "kept.json", {64, 8, 8}, {}};
    for (const chain::Promise& promise : configuration.promises)
        made.put({promise.functions(), 128, {{20'000, 100}, {1'000, 0.02}, 1, 1, 0}, {}});
    return std::make_shared<const schedule::Profile>(std::move(made));
}

constexpr const char* kMirror = "[mirror]";

/// All packets, by a run that is watched from the beginning.
struct WatchedRun {
    WatchedRun(const std::string& device, const std::vector<std::string>& functions, const std::string& sharing,
               unsigned workers = 1, uint64_t packets = kPackets)
        : devices(test::open_devices(device)),
          runtime(load(device, functions, sharing, packets), options(devices, workers)),
          watch(runtime, profile(*runtime.configuration())) {
        watch.update(now);
        shares_before = shares();
        runtime.start();
        EXPECT_TRUE(runtime.wait(60s));
        watch.update(now += 1s);
        runtime.finish();
        report = make_report(runtime);
        watch.add_to(report);
        EXPECT_TRUE(report.conserved());
        for (const ChainReport& chain : report.chains) {
            EXPECT_EQ(chain.sent_packets, packets) << chain.name;
            EXPECT_EQ(chain.retried_on_cpu, 0u) << chain.name;
            EXPECT_GT(chain.bytes_to_device, 0u) << chain.name;
        }
    }
    static RuntimeOptions options(std::vector<std::shared_ptr<device::Device>> devices, unsigned workers) {
        RuntimeOptions made;
        made.devices = std::move(devices);
        made.workers = workers;
        return made;
    }
    std::vector<schedule::GpuShare> shares() const {
        std::vector<schedule::GpuShare> all;
        for (const auto& chain : runtime.configuration()->chains) all.push_back(chain->gpu_share);
        return all;
    }
    /// Whether work was done on these; of devices that can tell.
    uint64_t work_on(SmRange sms) const {
        if (const auto* const sim = dynamic_cast<const device::sim::SimDevice*>(devices.front().get()))
            return sim->packets_on(sms);
        void* const library = dlopen("libcuda.so.1", RTLD_NOW);
        const auto launches = reinterpret_cast<unsigned long long (*)(unsigned, unsigned)>(
            dlsym(library, "emulator_launches_on"));
        return launches != nullptr ? launches(sms.first, sms.count) : 1;
    }
    const std::vector<std::shared_ptr<device::Device>> devices;
    Runtime runtime;
    PromiseWatch watch;
    PromiseWatch::Clock::time_point now{};
    std::vector<schedule::GpuShare> shares_before;
    Report report;
};

class Partitioned : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};

TEST_P(Partitioned, ChainsRunOnTheirOwnMultiprocessors) {
    const std::vector<std::string> functions{kMirror, "[firewall: {rules: [permit ip from any], default: permit}]",
                                             "[mirror, crc: {mode: set}]"};
    const WatchedRun run(GetParam(), functions, "spatial");
    ASSERT_EQ(run.shares_before.size(), functions.size());
    uint32_t next = 0;
    for (size_t i = 0; i < functions.size(); ++i) {
        const schedule::GpuShare& share = run.shares_before[i];
        EXPECT_EQ(share.sms.first, next) << i;
        EXPECT_GE(share.sms.count, 8u) << i;
        EXPECT_FALSE(share.in_turn);
        next += share.sms.count;
        EXPECT_GT(run.work_on(share.sms), 0u) << i;
        EXPECT_EQ(run.report.chains[i].promise.sms, share.sms.count) << i;
    }
    EXPECT_LE(next, 64u);
    if (GetParam() == "sim") {
        EXPECT_EQ(run.work_on({}), 0u) << "nothing ran elsewhere";
    }
    EXPECT_TRUE(run.devices.front()->has_partitions());
    EXPECT_EQ(run.runtime.configuration()->chains[0]->gpu_share, run.shares_before[0]) << "no more came than promised";
}

TEST_P(Partitioned, InEqualPartsOrInTurnOrNotAtAll) {
    const std::vector<std::string> functions{kMirror, "[crc: {mode: set}]", "[mirror, crc: {mode: set}]"};
    const WatchedRun fair(GetParam(), functions, "fair");
    for (size_t i = 0; i < functions.size(); ++i) {
        const auto from = static_cast<uint32_t>(16 * i);
        EXPECT_EQ(fair.shares_before[i], (schedule::GpuShare{{from, 16}, false})) << i;
        EXPECT_GT(fair.work_on({from, 16}), 0u) << i;
    }
    const WatchedRun temporal(GetParam(), functions, "temporal");
    for (const schedule::GpuShare& share : temporal.shares_before) EXPECT_EQ(share, (schedule::GpuShare{{}, true}));
    EXPECT_EQ(temporal.report.chains[0].promise.sms, 0u);
    const WatchedRun uncoordinated(GetParam(), functions, "uncoordinated");
    for (const schedule::GpuShare& share : uncoordinated.shares_before) EXPECT_EQ(share, schedule::GpuShare());
}

TEST_P(Partitioned, BatchesThatWaitForEachOtherHaveRoom) {
    const std::string ipsec =
        "[ipsec: {sas: [{name: a, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: "
        "aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: '006cb6db', auth-key: "
        "1f2e3d4c5b6a79880123456789abcdeffedcba98}], policies: [{dst: 0.0.0.0/0, action: protect, sa: a}], default: "
        "bypass}]";
    for (const char* const sharing : {"spatial", "temporal"}) {
        const WatchedRun run(GetParam(), {ipsec, kMirror}, sharing, 3);
        if (std::string(sharing) == "spatial") {
            EXPECT_GE(run.shares_before[0].sms.count, 24u);
            EXPECT_GT(run.work_on(run.shares_before[0].sms), 0u);
        }
    }
}
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Partitioned, testing::ValuesIn(test::offload_devices()),
                         test::device_test_name);

/// Streams of a device that tells where they are.
class Streams : public device::sim::SimDevice {
public:
    device::StreamId create_stream(bool timed) override {
        ++created;
        return SimDevice::create_stream(timed);
    }
    void move_stream(device::StreamId stream, SmRange sms) override {
        ++moved;
        SimDevice::move_stream(stream, sms);
    }
    unsigned created = 0, moved = 0;
};

TEST(BatchStreams, StayWhereTheyWereLast) {
    const auto device = std::make_shared<Streams>();
    BatchStreams streams(device, 4, false);
    EXPECT_EQ(device->created, 4u);
    for (int round = 0; round < 100; ++round)
        for (const SmRange sms : {SmRange{}, SmRange{0, 8}, SmRange{8, 16}}) {
            std::vector<device::StreamId> taken;
            for (int i = 0; i < 4; ++i) taken.push_back(streams.take(sms));
            EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), 4u);
            for (const device::StreamId stream : taken) streams.give(stream);
        }
    EXPECT_EQ(device->created, 12u);
    EXPECT_EQ(device->moved, 8u) << "each to its partition, once";
    // A thousand partitions one after the other: there are no more streams for that.
    for (uint32_t i = 0; i < 1000; ++i) streams.give(streams.take({8 * i, 8}));
    EXPECT_EQ(device->created, 16u);
    EXPECT_GE(device->moved, 1000u);
}

/// A driver before 12.4, or a GPU that has no partitions.
TEST(Partitions, AreDoneWithoutWhereThereAreNone) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) GTEST_SKIP() << "needs a CUDA driver";
    const auto inject = reinterpret_cast<void (*)(const char*, unsigned, int)>(dlsym(library, "emulator_inject"));
    const auto forgive = reinterpret_cast<unsigned (*)()>(dlsym(library, "emulator_forgive"));
    if (inject == nullptr) GTEST_SKIP() << "a real driver refuses nothing on demand";
    for (const char* const function : {"cuDeviceGetDevResource", "cuDevSmResourceSplitByCount",
                                       "cuDevResourceGenerateDesc", "cuGreenCtxCreate", "cuGreenCtxStreamCreate"}) {
        SCOPED_TRACE(function);
        for (int i = 0; i < 1000; ++i) inject(function, 0, device::cuda::kNotSupported);
        const std::vector<std::string> functions{kMirror, "[crc: {mode: set}]"};
        const auto device = std::make_shared<device::cuda::CudaDevice>();
        Runtime runtime(load("cuda", functions, "spatial"), WatchedRun::options({device}, 1));
        PromiseWatch watch(runtime, profile(*runtime.configuration()));
        watch.update({});
        EXPECT_EQ(runtime.configuration()->chains[1]->gpu_share.sms.count > 0, true);
        runtime.start();
        Report report = test::end_of_run(runtime);
        EXPECT_LT(forgive(), 1000u) << "it was asked for";
        EXPECT_FALSE(device->has_partitions());
        watch.add_to(report);
        for (const ChainReport& chain : report.chains) {
            EXPECT_EQ(chain.sent_packets, kPackets);
            EXPECT_EQ(chain.retried_on_cpu, 0u);
            EXPECT_EQ(chain.promise.sms, 0u) << "there is none";
        }
    }
}

}  // namespace
}  // namespace millrace::exec
