// Frames that were received into contiguous memory go through chains without mbufs, and come out as all others do.
#include <gtest/gtest.h>
#include <unistd.h>

#include "exec/alternating.hpp"
#include "lab/compared/master_worker.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/io/memory/frame_ring.hpp"
#include "support/test_chain.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using device::sim::SimDevice;
using device::sim::SimOptions;
using exec::TransferIn;
using exec::TransferOut;

/// Chains that change whole frames, heads, or nothing.
const std::pair<const char*, const char*> kChains[] = {
    {"reads heads",
     "[firewall: {default: permit, rules: [deny udp from any to any, deny tcp from any port 1-30000 to any]}]"},
    {"reads frames",
     R"([nids: {mode: ips, rule: ['drop ip any any -> any any (msg:"zeros"; content:"|00 01|"; sid:1;)']}])"},
    {"changes heads", "[mirror]"},
    {"nothing", "[]"},
};

Frame frame_with(size_t payload) {
    return build_packet(
        "{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, tcp: {src: 40000, dst: 2}, payload: {repeat: x, count: " +
        std::to_string(payload) + "}}");
}

/// Frames of one length for a while, then of another.
std::vector<Frame> frames_in_stretches(size_t count) {
    std::vector<Frame> frames;
    for (Rng rng(67); frames.size() < count;) frames.insert(frames.end(), 1 + rng() % 60, frame_with(1 + rng() % 900));
    return frames;
}

class ReceiveBlocks : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
    std::shared_ptr<device::Device> device(uint32_t seed = 1) const { return open_device(GetParam(), seed); }
};

class ReceiveBlocksInEveryMode : public DeviceInMode {};

TEST_P(ReceiveBlocksInEveryMode, GiveTheSameAnswerInEverySize) {
    uint32_t seed = static_cast<uint32_t>(mode()) * 100;
    for (const size_t size : {0, 1, 31, 32, 33, 1023, 1024, 1025}) {
        const std::vector<Frame> frames = random_frames(size, 40 + static_cast<unsigned>(size));
        const EngineRun expected = without_visits(run_on_cpu(make_test_chain("cpu"), frames, 256));
        for (const size_t burst : {size_t{7}, size_t{300}}) {
            exec::OffloadOptions options;
            options.mode = mode();
            const EngineRun run = run_contiguous(device(++seed), make_test_chain(name()), frames, burst, options);
            const std::string what = std::to_string(size) + " frames, runs of " + std::to_string(burst);
            expect_conserved(run, size);
            expect_equal(expected, run, what);
            EXPECT_EQ(expected.counters->events.get(), run.counters->events.get()) << what;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, ReceiveBlocksInEveryMode, testing::ValuesIn(devices_in_every_mode()),
                         device_in_mode_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReceiveBlocksInEveryMode);

TEST_P(ReceiveBlocks, CrossTheBusByEveryWay) {
    uint32_t seed = 0;
    const std::vector<Frame> mixed = random_frames(700, 47);
    // At one distance, too.
    const std::vector<Frame> alike(500, frame_with(300));
    // At one distance for a while, and batches that end within such a stretch, for want of room.
    const std::vector<Frame> stretches = frames_in_stretches(600);
    constexpr size_t kRoom = size_t{512} << 10, kLittleRoom = size_t{32} << 10;
    size_t bytes_of_stretches = 0;
    for (const Frame& frame : stretches) bytes_of_stretches += frame.size();
    // The second batch: 15 at one distance, then 25 at another that begin where the first would go on.
    const std::vector<Frame> two = [] {
        std::vector<Frame> frames(55, frame_with(700));
        frames.insert(frames.end(), 25, frame_with(60));
        return frames;
    }();
    // One at a time.
    const std::vector<Frame> few(alike.begin(), alike.begin() + 5);
    for (const auto& [name, nfs] : kChains)
        for (const auto* frames : {&mixed, &alike, &stretches, &two, &few}) {
            const EngineRun expected = without_visits(run_on_cpu(make_configuration(nfs, "cpu"), *frames, 256));
            for (const TransferIn in : exec::kTransfersIn)
                for (const TransferOut out : exec::kTransfersOut) {
                    exec::OffloadOptions options;
                    options.transfer_in = in;
                    options.transfer_out = out;
                    options.batch_bytes = frames == &stretches ? kLittleRoom : kRoom;
                    const EngineRun run = run_contiguous(
                        device(++seed), make_configuration(nfs, GetParam()), *frames, frames == &few ? 1 : 250, options,
                        frames == &mixed ? Work::but_long_headers : Work::device_alone);
                    const std::string what = std::string(name) + ", " + exec::name_of(in) + ", " + exec::name_of(out);
                    expect_conserved(run, frames->size());
                    expect_equal(expected, run, what);
                    uint64_t batches = 0;
                    for (const Counter& counter : run.counters->batches_in) batches += counter.get();
                    if (frames == &stretches && std::string(name) == "reads frames") {
                        EXPECT_GE(batches * kLittleRoom, bytes_of_stretches) << what;
                    }
                    // What takes more room contiguous than it has goes another way.
                    if (in == TransferIn::packed && frames != &stretches) {
                        EXPECT_EQ(run.counters->batches_in[static_cast<size_t>(in)].get(), batches) << what;
                    }
                }
        }
}

INSTANTIATE_TEST_SUITE_P(All, ReceiveBlocks, testing::ValuesIn(offload_devices()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReceiveBlocks);

/// Ports that take as many frames as they like, and keep the others waiting or lose them.
class Ports : public Collector {
public:
    Ports() : Collector(false) {}
    exec::FrameWay way_of(const chain::Program& program, const exec::Verdict& verdict) const override {
        using Kind = chain::Target::Kind;
        if (verdict.target.kind == Kind::drop) return {exec::FrameWay::Kind::dropped};
        if (verdict.target.kind != Kind::output) return {};
        return {exec::FrameWay::Kind::by_port, verdict.out_port != kNoPort ? verdict.out_port : program.output};
    }
    size_t port_count() const override { return 3; }
    size_t send_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames) override {
        const size_t taken = std::min<size_t>(frames.size(), rng_() % 200);
        for (size_t i = 0; i < taken; ++i) {
            sent_bytes += frames[i].bytes();
            leave(port, block, frames[i]);
        }
        sent += taken;
        return taken;
    }
    void hold_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames,
                     exec::ChainCounters& sender) override {
        held += frames.size();
        sender.exit_drops[static_cast<size_t>(exec::ExitDrop::transmit_full)].add(frames.size());
        for (const io::FramePieces& frame : frames) leave(port, block, frame);
    }
    uint64_t sent = 0, sent_bytes = 0, held = 0;
    std::map<uint64_t, std::pair<uint16_t, Frame>> left;  ///< by the frame's number: the port, and as what
    std::map<uint16_t, std::vector<uint64_t>> order;      ///< by port: the numbers

private:
    void leave(uint16_t port, const io::ReceiveBlock& block, const io::FramePieces& piece) {
        Frame frame(piece.head, piece.head + piece.head_bytes);
        frame.insert(frame.end(), piece.rest, piece.rest + piece.rest_bytes);
        left.emplace(block.number(piece.index), std::pair{port, std::move(frame)});
        order[port].push_back(block.number(piece.index));
    }
    Rng rng_{83};
};

TEST(ReceiveBlockPorts, GetFramesInTheirOrderHoweverManyTheyTake) {
    const std::vector<Frame> frames = random_frames(5000, 89);
    for (const size_t burst : {size_t{1}, size_t{100}, size_t{1024}}) {
        const EngineRun expected = without_visits(run_on_cpu(make_test_chain("cpu"), frames, 256));
        Ports ports;
        const EngineRun run = run_contiguous(std::make_shared<SimDevice>(), make_test_chain("sim"), frames, burst, {},
                                             Work::but_long_headers, &ports);
        uint64_t dropped = 0;
        for (const Outcome& outcome : expected.outcomes) {
            const auto found = ports.left.find(outcome.number);
            if (outcome.verdict.target.kind == chain::Target::Kind::drop) {
                ++dropped;
                EXPECT_EQ(found, ports.left.end()) << outcome.number;
            } else if (found != ports.left.end()) {
                EXPECT_TRUE(found->second.second == outcome.frame) << outcome.number;
            }
        }
        for (const auto& [port, numbers] : ports.order) {
            EXPECT_TRUE(std::ranges::is_sorted(numbers)) << "port " << port;
            EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end()) << "port " << port;
        }
        EXPECT_GT(ports.order.size(), 1u);
        EXPECT_GT(ports.sent, 0u);
        EXPECT_GT(ports.held, 0u);
        EXPECT_EQ(run.counters->sent_packets.get(), ports.sent);
        EXPECT_EQ(run.counters->sent_bytes.get(), ports.sent_bytes);
        EXPECT_EQ(run.counters->exit_drops[static_cast<size_t>(exec::ExitDrop::transmit_full)].get(), ports.held);
        EXPECT_EQ(ports.sent + ports.held, ports.left.size());
        // Those that were punted, or that the host decided on, came by themselves.
        EXPECT_EQ(ports.left.size() + run.outcomes.size() + run.counters->dropped() - ports.held, frames.size());
        EXPECT_GE(dropped, run.counters->dropped() - ports.held);
    }
}

TEST(ReceiveBlockFaults, LoseNothingWhenTheDeviceFails) {
    const std::vector<Frame> frames = random_frames(600, 53);
    const EngineRun expected = without_visits(run_on_cpu(make_test_chain("cpu"), frames, 256));
    size_t retried = 0, runs = 0;
    for (const device::Mode mode : device::kModes)
        for (const Fault::Kind kind : {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost})
            for (uint64_t after = 0; after < 40; after += 3) {
                SimOptions sim;
                sim.seed = static_cast<uint32_t>(++runs);
                sim.faults = {{kind, after}};
                exec::OffloadOptions options;
                options.mode = mode;
                if (runs / 2 % 2 == 0) options.call_thread = std::make_shared<exec::CallThread>();
                const EngineRun run = run_contiguous(std::make_shared<SimDevice>(sim), make_test_chain("sim"), frames,
                                                     100, options, Work::fault);
                expect_conserved(run, frames.size());
                expect_equal(expected, run, "run " + std::to_string(runs));
                retried += run.counters->retried_on_cpu.get() > 100;
            }
    EXPECT_GT(retried, runs / 2);
}

TEST(ReceiveBlockFaults, ContiguousFramesWithoutRoomTakeAnotherWay) {
    // Of long frames only heads are wanted: they would take more room contiguous than the packet buffer has.
    const std::vector<Frame> frames(
        300,
        build_packet(
            "{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, tcp: {src: 40000, dst: 2}, payload: {repeat: x, count: 1400}}"));
    exec::OffloadOptions options;
    options.transfer_in = TransferIn::packed;
    options.batch_bytes = size_t{64} << 10;
    const EngineRun run = run_contiguous(std::make_shared<SimDevice>(), make_configuration("[mirror]", "sim"), frames,
                                         300, options);
    expect_conserved(run, frames.size());
    expect_equal(without_visits(run_on_cpu(make_configuration("[mirror]", "cpu"), frames, 256)), run, "gathered");
    EXPECT_EQ(run.counters->batches_in[static_cast<size_t>(TransferIn::gather)].get(), run.counters->batches.get());
}

TEST(ReceiveBlocksThatFollowEachOther, GoOnAsOne) {
    frame_pool();
    const Frame frame = build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}}");
    constexpr uint32_t kFrames = 300;
    io::FrameRing ring(std::vector<uint16_t>(kFrames, static_cast<uint16_t>(frame.size())));
    for (uint32_t i = 0; i < kFrames; ++i) std::copy(frame.begin(), frame.end(), ring.frame(i));
    const auto device = std::make_shared<SimDevice>();
    Collector collector(false);
    exec::OffloadOptions options;
    options.batch_bytes = size_t{4} << 20;
    options.pinned = device->pin(ring.memory().data(), ring.memory().size());
    options.blocks = true;
    options.frames = &collector;
    const chain::Configuration configuration = make_configuration("[mirror]", "sim");
    exec::ChainCounters counters(*configuration.chains[0]);
    {
        exec::OffloadEngine engine(device, collector, 1024, options);
        for (uint32_t i = 0; i < kFrames; ++i) {
            io::ReceiveBlock run = ring.take(i, 1);
            run.first_number = i;
            run.first_ns = 1000 * i + i % 2 * 500;
            run.interval_ns = 1000;
            engine.submit(configuration.chains[0], counters, run);
        }
        engine.drain();
        expect_work(Work::device_alone, {&engine}, counters, kFrames);
    }
    EXPECT_EQ(collector.outcomes.size(), kFrames);
    EXPECT_EQ(collector.given_back, kFrames);
    EXPECT_EQ(collector.runs_given_back, 1u);
    device->unpin(ring.memory().data());
}

// --- with workers and ports ---

struct Setting {
    const char* name;
    const char* device;
    unsigned workers = 1;
    lab::Threading threading = lab::Threading::full_path;
    bool verdicts = false;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

class ContiguousSource : public testing::TestWithParam<Setting> {
protected:
    /// The frames that leave by a file, in order.
    static std::vector<Frame> left(const std::string& file) {
        std::vector<Frame> frames;
        io::CaptureReader reader(file);
        for (io::CaptureRecord record; reader.next(record);)
            frames.emplace_back(record.bytes.begin(), record.bytes.end());
        return frames;
    }
    /// Runs a chain from a source of such frames to ports of every kind; what left by files, sorted.
    static std::vector<Frame> run(bool contiguous, const Setting& setting, exec::Report& report) {
        const std::string base = testing::TempDir() + "/contiguous_" + std::to_string(getpid());
        exec::RuntimeOptions options;
        options.workers = setting.workers;
        options.sources.contiguous = contiguous;
        lab::set_threading(options, setting.threading);
        if (setting.verdicts) options.verdict_file = base + ".jsonl";
        options.devices = open_devices(text_of(parse_device_names(setting.device)));
        chain::LoadOptions load;
        load.device = setting.device;
        load.output_folder = testing::TempDir();
        std::vector<Frame> frames;
        {
            exec::Runtime runtime(chain::parse_configuration(
                                      R"(
version: 1
ports:
  in: {source: {size: [64, 200, 1500], flows: 97, count: 20011, seed: 3, protocol: tcp, addresses: {src: 10.0.0.0/8, dst: 10.0.0.0/8}}, queues: )" +
                                          std::to_string(setting.workers) + R"(}
  out: {sink: {}}
  a: {output: )" + base +
                                          R"(-a.pcap}
  b: {output: )" + base +
                                          R"(-b.pcap}
chains:
  first:
    input: in
    output: out
    nfs:
      - firewall: {default: permit, rules: [deny tcp from any to 10.128.0.0/10]}
      - router:
          next-hops: {a: {mac: "02:00:00:00:00:0a", src-mac: "02:00:00:00:00:01", port: a},
            s: {mac: "02:00:00:00:00:0b", src-mac: "02:00:00:00:00:01"}}
          routes: [{prefix: 10.0.0.0/10, via: a}, {prefix: 10.64.0.0/10, via: s}]
        on: {no-route: chain second}
  second:
    output: b
    nfs: [mirror]
)",
                                      "(contiguous)", load),
                                  options);
            runtime.start();
            report = end_of_run(runtime);
        }
        for (const char* which : {"-a.pcap", "-b.pcap"}) {
            for (Frame& frame : left(base + which)) frames.push_back(std::move(frame));
            std::remove((base + which).c_str());
        }
        std::remove((base + ".jsonl").c_str());
        std::sort(frames.begin(), frames.end());
        return frames;
    }
};

TEST_P(ContiguousSource, FeedsEveryKindOfEngineAndPort) {
    const Setting& setting = GetParam();
    exec::Report expected, report;
    const std::vector<Frame> frames = run(false, {"", "cpu", setting.workers}, expected);
    EXPECT_GT(frames.size(), 5000u);
    EXPECT_TRUE(frames == run(true, setting, report)) << "other frames left";
    EXPECT_EQ(report.ports[0].counters.received_packets, 20011u);
    expect_work(std::string(setting.device).ends_with("+cpu") ? Work::shared_with_cpu : Work::device_alone, report);
    for (size_t i = 0; i < report.ports.size(); ++i) {
        EXPECT_EQ(report.ports[i].counters.sent_packets, expected.ports[i].counters.sent_packets)
            << report.ports[i].name;
        EXPECT_EQ(report.ports[i].counters.sent_bytes, expected.ports[i].counters.sent_bytes) << report.ports[i].name;
    }
    for (size_t i = 0; i < report.chains.size(); ++i) {
        EXPECT_EQ(report.chains[i].passed_on, expected.chains[i].passed_on);
        EXPECT_EQ(report.chains[i].sent_packets, expected.chains[i].sent_packets);
        EXPECT_EQ(report.chains[i].in_flight, 0u);
    }
}

INSTANTIATE_TEST_SUITE_P(Settings, ContiguousSource,
                         testing::Values(Setting{"sim", "sim"}, Setting{"sim with two workers", "sim", 2},
                                         Setting{"cpu", "cpu"}, Setting{"sim and cpu", "sim+cpu"},
                                         Setting{"two devices", "sim:0+sim:1", 2},
                                         Setting{"a master", "sim", 2, lab::Threading::master_worker},
                                         Setting{"verdicts", "sim", 1, lab::Threading::full_path, true}),
                         [](const auto& info) {
                             std::string name = info.param.name;
                             std::replace(name.begin(), name.end(), ' ', '_');
                             return name;
                         });

}  // namespace
}  // namespace millrace::test
