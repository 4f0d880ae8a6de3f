// Kernels that fault, and memory that runs out: said aloud, with what was running, and no packet lost or wrong.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <iostream>
#include <regex>
#include <sstream>

#include "exec/wild/device.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/nf/nf.hpp"
#include "support/devices.hpp"
#include "support/test_chain.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

/// Options: `target`, an address, and `state`, how many words of it the NF has.
class WildHost : public nf::NetworkFunction {
public:
    WildHost(const Config& options, const nf::Environment&) {
        options.only({"target", "state"});
        Wild::Tables& tables = image_.start<Wild::Tables>();
        tables.target = static_cast<uint64_t>(options.integer_or("target", 0));
        const auto words = static_cast<size_t>(options.integer_or("state", 0, 0));
        if (words > 0) image_.attach_state(tables.state, std::make_shared<std::vector<uint32_t>>(words), "words");
    }
    const nf::Image& image() const override { return image_; }

private:
    nf::Image image_;
};

const nf::Register<Wild, WildHost> registration{{
    .name = "wild",
    .summary = "changes the source MAC address, or writes where nobody's memory is",
    .outcomes = {{"forward", nf::Disposition::next, "always"}},
    .device_header = "exec/wild/device.hpp",
    .device_struct = "millrace::test::Wild",
}};

/// wild, and a tunnel whose sequence numbers must go on where the device's last batch left them.
std::string chain_text(int64_t target) {
    return "[wild: {target: " + std::to_string(target) +
           R"(}, ipsec: {sas: [{name: tunnel, direction: out, spi: 0x1001, local: 192.0.2.1,
        remote: 198.51.100.1, cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db",
        auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}], policies: [{dst: 0.0.0.0/0, action: protect,
        sa: tunnel}], default: bypass}])";
}

/// One packet of them asks the NF to write wildly.
std::vector<Frame> frames_with_a_mark() {
    std::vector<Frame> frames = random_frames(2000, 29);
    for (Frame& frame : frames) frame[0] &= 0xfe;
    for (Frame& frame : frames)
        if (frame[0] == Wild::kMark) frame[0] = 0x02;
    frames[1234] = build_packet(
        "{eth: {dst: \"66:00:00:00:00:02\"}, ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: "
        "hello}");
    return frames;
}

/// What is logged while it lives.
class Log {
public:
    Log() : before_(spdlog::default_logger()) {
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_, true)));
    }
    ~Log() { spdlog::set_default_logger(before_); }
    std::string text() const { return text_.str(); }

private:
    std::shared_ptr<spdlog::logger> before_;
    std::ostringstream text_;
};

/// Puts the frames through the chain on `device`, with a thread for its calls or without, kernels that have an order by
/// themselves or not, and says how that went.
std::string run_wild(const std::shared_ptr<device::Device>& device, const std::string& name, int64_t target,
                     device::Mode mode, bool thread, bool halves) {
    const std::vector<Frame> frames = frames_with_a_mark();
    const EngineRun expected = run_on_cpu(make_configuration(chain_text(target), "cpu"), frames, 100);
    exec::OffloadOptions options;
    options.mode = mode;
    if (thread) options.call_thread = std::make_shared<exec::CallThread>();
    if (halves) options.long_batch_bytes = 0;
    const EngineRun run = run_on_device(device, make_configuration(chain_text(target), name), frames, 100, options,
                                        Work::fault);
    size_t right = 0;
    for (size_t i = 0; i < std::min(expected.outcomes.size(), run.outcomes.size()); ++i)
        right += run.outcomes[i] == expected.outcomes[i];
    const bool all = right == frames.size() && run.outcomes.size() == frames.size() &&
                     run.counters->received_packets.get() == frames.size();
    const uint64_t retried = run.counters->retried_on_cpu.get();
    return std::string(all ? "every packet right" : std::to_string(right) + " packets right") +
           (retried > 0 ? ", some on the CPU" : ", all on the device");
}

/// The whole life of a program whose GPU faults; it ends the process. A fault poisons the process, so it must be one of
/// its own.
[[noreturn]] void live_through_a_fault(int64_t target, device::Mode mode, bool thread, bool halves) {
    alarm(120);  // nothing may hang, at the end neither
    {
        const Log log;
        std::string first, second = "works";
        {
            auto device = std::make_shared<device::cuda::CudaDevice>();
            first = run_wild(device, "cuda", target, mode, thread, halves);
        }
        try {
            second = run_wild(std::make_shared<device::cuda::CudaDevice>(), "cuda", target, mode, thread, halves);
        } catch (const device::DeviceError& e) {
            second = std::string("is refused: ") + e.what();
        }
        std::cerr << log.text() << first << "\na second device of this process " << second << "\n";
    }
    std::exit(0);
}

class Faults : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};

TEST_P(Faults, OfAnNfThatWritesOutOfBoundsLoseNothing) {
    constexpr device::Mode kWays[] = {device::Mode::fused, device::Mode::persistent};
    if (GetParam() == "sim") {
        device::sim::SimOptions options;
        options.faults = {{device::sim::Fault::Kind::kernel_fails, 10}};
        const Log log;
        for (const device::Mode mode : kWays)
            for (const bool thread : {false, true})
                for (const bool halves : {false, true})
                    EXPECT_EQ(
                        run_wild(std::make_shared<device::sim::SimDevice>(options), "sim", 0, mode, thread, halves),
                        "every packet right, some on the CPU");
        EXPECT_NE(log.text().find("a copy, a kernel or an allocation has failed; its chains go on on the CPU"),
                  std::string::npos)
            << log.text();
        return;
    }
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    // In the first page, and where no program has memory.
    constexpr int64_t kFirst = 64, kNowhere = -(int64_t{1} << 20);
    for (const auto& [target, mode, thread, halves] : {std::tuple{kFirst, kWays[0], false, false},
                                                       {kNowhere, kWays[0], false, true},
                                                       {kFirst, kWays[0], true, true},
                                                       {kFirst, kWays[1], false, false}})
        EXPECT_EXIT(
            live_through_a_fault(target, mode, thread, halves), testing::ExitedWithCode(0),
            "CUDA_ERROR_[A-Z_]+.*under way:.*chain 'test', (wild|resident kernel).*go on on the CPU.*"
            "every packet right, some on the CPU.*a second device of this process (every packet right|is refused)");
}

TEST_P(Faults, OfMemoryAreReportedWithTheFigures) {
    const auto device = open_device(GetParam());
    try {
        device->allocate(size_t{1} << 50, "a test");
        FAIL() << "a pebibyte was there";
    } catch (const device::DeviceError& e) {
        EXPECT_TRUE(std::regex_search(e.what(),
                                      std::regex("no [0-9]+ (MiB|bytes left) for a test \\([0-9]+ (MiB )?are free\\)")))
            << e.what();
    }
    // And it goes on to work.
    const std::vector<Frame> frames = random_frames(300, 31);
    const EngineRun run = run_on_device(device, make_test_chain(GetParam()), frames, 100);
    expect_conserved(run, frames.size());
    EXPECT_EQ(run.counters->retried_on_cpu.get(), 0u);
}

/// Traffic until `stop`, through a chain of `nfs`.
chain::Configuration endless(const std::string& nfs, const chain::Configuration* previous = nullptr) {
    chain::LoadOptions options;
    options.device = "sim";
    options.previous = previous;
    return chain::parse_configuration(
        "version: 1\nports: {in: {source: {size: 100, count: 100000000, rate: 50000}}, out: {sink: {}}}\n"
        "chains: {c: {input: in, output: out, nfs: " +
            nfs + "}}\n",
        "(faults)", options);
}

/// Runs `before`, and from some packets on `after`; what is said of it, and of the engine.
std::string change_under_load(device::sim::SimOptions sim, const std::string& before, const std::string& after) {
    exec::RuntimeOptions options;
    options.devices = {std::make_shared<device::sim::SimDevice>(sim)};
    options.offload.batch_bytes = size_t{1} << 20;
    const Log log;
    exec::Runtime runtime(endless(before), options);
    runtime.start();
    const auto sent = [&] { return exec::make_report(runtime).ports[1].counters.sent_packets; };
    const auto flow = [&](uint64_t packets) {
        for (const uint64_t from = sent(); sent() < from + packets && !runtime.wait(std::chrono::milliseconds(1));) {
        }
    };
    flow(2000);
    const auto current = runtime.configuration();
    runtime.apply(endless(after, current.get()));
    flow(2000);
    const exec::Report report = stop_run(runtime);
    EXPECT_EQ(report.ports[1].counters.sent_packets, report.ports[0].counters.received_packets);
    return report.engine + "\n" + log.text();
}

TEST(FaultsUnderLoad, OfMemoryForALargerChainBringItToTheCpu) {
    device::sim::SimOptions sim;
    sim.memory_bytes = size_t{64} << 20;
    claim_device_work();  // until then
    const std::string text = change_under_load(sim, "[wild]", "[wild: {state: 4000000}]");
    EXPECT_TRUE(text.starts_with("cpu, taken over from a failed device")) << text;
    EXPECT_TRUE(std::regex_search(
        text, std::regex("chain 'c': .* has no [0-9]+ bytes left for the shared packet buffer \\([0-9]+ are free\\)")))
        << text;
}

TEST(FaultsUnderLoad, DoNotKeepChainsFromChanging) {
    device::sim::SimOptions sim;
    sim.faults = {{device::sim::Fault::Kind::kernel_fails, 30}};
    const std::string text = change_under_load(sim, "[wild]", "[mirror, wild]");
    EXPECT_TRUE(text.starts_with("cpu, taken over from a failed device")) << text;
}

INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(offload_devices()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Faults);

}  // namespace
}  // namespace millrace::test
