// Every call of the driver may be refused, at any time: that is said, no packet is lost or wrong, and nothing waits for
// ever. On emulated GPUs only (tests/emulator), which refuse what a test wants refused.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "lab/compared/graph_device.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/test_chain.hpp"
#include "support/end_of_run.hpp"

namespace millrace::device::cuda {
namespace {

constexpr Result kUnknownError = 999;
const char* const kFunctions[] = {"cuMemAlloc_v2",
                                  "cuMemsetD8_v2",
                                  "cuMemHostAlloc",
                                  "cuStreamCreate",
                                  "cuStreamSynchronize",
                                  "cuStreamQuery",
                                  "cuStreamWriteValue32_v2",
                                  "cuEventCreate",
                                  "cuMemcpyHtoD_v2",
                                  "cuMemcpyHtoDAsync_v2",
                                  "cuMemcpyDtoHAsync_v2",
                                  "cuModuleLoadData",
                                  "cuModuleGetFunction",
                                  "cuFuncGetAttribute",
                                  "cuCtxSetLimit",
                                  "cuLaunchKernel",
                                  "cuGraphInstantiateWithFlags",
                                  "cuGraphLaunch"};
/// How often each of these is called.
using Calls = std::map<std::string, unsigned>;

/// The emulator, where there is one.
struct Emulator {
    void (*inject)(const char* function, unsigned after, Result) = nullptr;
    unsigned (*forgive)() = nullptr;
    unsigned (*calls)(const char* function) = nullptr;
    unsigned (*enlarging_launches)() = nullptr;
    Emulator() {
        void* driver = dlopen("libcuda.so.1", RTLD_NOW);
        if (driver == nullptr) return;
        inject = reinterpret_cast<decltype(inject)>(dlsym(driver, "emulator_inject"));
        forgive = reinterpret_cast<decltype(forgive)>(dlsym(driver, "emulator_forgive"));
        calls = reinterpret_cast<decltype(calls)>(dlsym(driver, "emulator_calls"));
        enlarging_launches = reinterpret_cast<decltype(enlarging_launches)>(
            dlsym(driver, "emulator_enlarging_launches"));
    }
};

class RefusedCalls : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        if (emulator_.inject == nullptr) GTEST_SKIP() << "needs an emulated GPU";
    }
    /// What `run` calls where nothing is refused.
    template <class Run>
    Calls calls_of(Run&& run) const {
        Calls calls;
        for (const char* function : kFunctions) calls[function] = emulator_.calls(function);
        run("nothing is refused");
        for (const char* function : kFunctions) calls[function] = emulator_.calls(function) - calls[function];
        return calls;
    }
    /// Refuses the parameter's function the first time, later, and later still, and calls `run` each time, until it is
    /// not called as often. How often it was. That may be more often than usual, but not far more.
    template <class Run>
    unsigned refuse_at_any_time(const Calls& usual, Run&& run) {
        const unsigned latest = std::min(300u, 2 * usual.at(GetParam()));
        unsigned refused = 0;
        for (unsigned after = 0; after < latest && !HasFailure(); after += 1 + 5 * after) {
            emulator_.inject(GetParam(), after, kUnknownError);
            try {
                run(std::string(GetParam()) + " " + std::to_string(after));
            } catch (const DeviceError& e) {
                EXPECT_NE(std::string(e.what()).find("CUDA_ERROR_UNKNOWN"), std::string::npos) << e.what();
            }
            if (emulator_.forgive() > 0) break;
            ++refused;
        }
        return refused;
    }
    const Emulator emulator_;
};

TEST_P(RefusedCalls, LoseNoPacketOfOneWorker) {
    const std::vector<test::Frame> frames = test::random_frames(300, 47);
    const test::EngineRun expected = test::run_on_cpu(test::make_test_chain("cpu"), frames, 100);
    // By plain calls, by graphs, by a kernel for each NF, and by a kernel that stays.
    std::vector<exec::OffloadOptions> ways(4);
    const auto graphs = [&](const exec::OffloadOptions& way) { return &way == &ways[1]; };
    ways[2].mode = Mode::pipelined;
    ways[3].mode = Mode::persistent;
    ways[3].patience = std::chrono::seconds(20);
    const auto run_in = [&](const exec::OffloadOptions& options, const std::string& what) {
        const auto device = graphs(options) ? lab::open_graph_device(0, "") : std::make_shared<CudaDevice>();
        const test::EngineRun run = test::run_on_device(device, test::make_test_chain("cuda"), frames, 100, options,
                                                        test::Work::fault);
        test::expect_conserved(run, frames.size());
        test::expect_equal(expected, run, what + ", way " + std::to_string(&options - ways.data()));
    };
    static std::vector<Calls> usual;
    for (size_t i = usual.size(); i < ways.size(); ++i)
        usual.push_back(calls_of([&](const std::string& what) { run_in(ways[i], what); }));
    unsigned refused = 0;
    for (size_t i = 0; i < ways.size(); ++i)
        refused += refuse_at_any_time(usual[i], [&](const std::string& what) { run_in(ways[i], what); });
    EXPECT_GT(refused, 0u) << "nobody calls it";
}

/// Several workers share the device: a batch of the others waits for the sequence of one that never came to the GPU, or
/// did so by half. A gateway that looks for replays has its sequence in three kernels: one may have been launched when
/// the next is refused.
TEST_P(RefusedCalls, KeepNoOtherWorkerWaiting) {
    unsigned runs = 0;
    const auto run = [&](const std::string& what) {
        chain::LoadOptions load;
        load.device = "cuda";
        chain::Configuration configuration = chain::parse_configuration(R"(version: 1
ports: {in: {source: {size: 200, count: 480, flows: 64}}, out: {sink: {}}}
chains: {c: {input: in, output: out, max-batch: 51, nfs: [ipsec: {sas: [{name: tunnel, direction: out,
  spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1,
  cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db",
  auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98},
  {name: back, direction: in, spi: 0x2001, local: 192.0.2.1, remote: 198.51.100.1, allow: [{}],
  cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539164, nonce: "006cb6dc",
  auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}],
  policies: [{dst: 0.0.0.0/0, action: protect, sa: tunnel}], default: bypass}]}}
)",
                                                                        "(refused)", load);
        exec::RuntimeOptions options;
        options.workers = 3;
        options.offload.calls_by_thread = ++runs % 2 == 0;
        options.devices = {std::make_shared<CudaDevice>()};
        exec::Runtime runtime(std::move(configuration), options);
        runtime.start();
        const exec::Report report = test::end_of_run(runtime, what);
        EXPECT_EQ(report.ports[1].counters.sent_packets, 480u) << what;
    };
    static const Calls usual = calls_of(run);
    refuse_at_any_time(usual, run);
}

/// A driver that can't have streams write words: then events tell of batches' ends.
TEST(RefusedWords, LeaveBatchesToEvents) {
    const Emulator emulator;
    if (emulator.inject == nullptr) GTEST_SKIP() << "needs an emulated GPU";
    constexpr Result kNotSupported = 801;
    const std::vector<test::Frame> frames = test::random_frames(600, 48);
    const test::EngineRun expected = test::run_on_cpu(test::make_test_chain("cpu"), frames, 100);
    for (const bool graphs : {false, true}) {
        emulator.inject("cuStreamWriteValue32_v2", 0, kNotSupported);
        const auto device = graphs ? lab::open_graph_device(0, "") : std::make_shared<CudaDevice>();
        const test::EngineRun run = test::run_on_device(device, test::make_test_chain("cuda"), frames, 100);
        EXPECT_EQ(emulator.forgive(), 0u) << "nobody wanted a word";
        test::expect_conserved(run, frames.size());
        test::expect_equal(expected, run, graphs ? "graphs" : "calls");
        EXPECT_EQ(run.counters->retried_on_cpu.get(), 0u);
    }
}

/// A launch that has to wait until there is memory for the stacks of its threads keeps others from launching what
/// kernels wait for.
TEST(Stacks, AreThereBeforeAKernelIsLaunched) {
    const Emulator emulator;
    if (emulator.enlarging_launches == nullptr) GTEST_SKIP() << "needs an emulated GPU";
    const std::vector<test::Frame> frames = test::random_frames(600, 49);
    for (const Mode mode : {Mode::fused, Mode::pipelined, Mode::persistent}) {
        exec::OffloadOptions options;
        options.mode = mode;
        const auto device = std::make_shared<CudaDevice>();
        test::expect_conserved(test::run_on_device(device, test::make_test_chain("cuda"), frames, 100, options),
                               frames.size());
    }
    EXPECT_EQ(emulator.enlarging_launches(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, RefusedCalls, testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace millrace::device::cuda
