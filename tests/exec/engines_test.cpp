// The same answer everywhere: cpu and every device, any mode, transfer, batch size and number of lanes.
#include <gtest/gtest.h>

#include <set>

#include "millrace/chain/frames/whole_frames.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/test_chain.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using device::sim::SimDevice;
using device::sim::SimOptions;

/// Batches by launches, and on the list of a kernel that stays.
constexpr device::Mode kWaysOfBatches[] = {device::Mode::fused, device::Mode::persistent};

class Devices : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
    std::shared_ptr<device::Device> device(uint32_t seed = 1) const { return open_device(GetParam(), seed); }
};

TEST_P(Devices, GiveTheSameAnswerForEveryBatchSize) {
    const size_t sizes[] = {0, 1, 31, 32, 33, 255, 256, 1023, 1024, 1025};
    for (const size_t size : sizes) {
        const std::vector<Frame> frames = random_frames(size, static_cast<unsigned>(size) + 1);
        const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
        expect_conserved(expected, frames.size());
        expect_equal(expected, run_on_cpu(make_test_chain("cpu"), frames, 31), "cpu in bursts of 31");
        for (const device::Mode mode : kWaysOfBatches) {
            exec::OffloadOptions options;
            options.mode = mode;
            const EngineRun run = run_on_device(device(), make_test_chain(GetParam()), frames,
                                                std::max<size_t>(size, 1), options);
            expect_conserved(run, frames.size());
            expect_equal(expected, run, std::to_string(size) + " packets, " + device::name_of(mode));
        }
    }
}

/// A GPU has kernels for short, usual and long frames.
TEST_P(Devices, GiveTheSameAnswerForBatchesOfLongFrames) {
    for (const size_t least_payload : {600, 1150}) {
        const std::vector<Frame> frames = random_frames(600, 5, least_payload);
        const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
        for (const device::Mode mode : kWaysOfBatches) {
            exec::OffloadOptions options;
            options.mode = mode;
            const EngineRun run = run_on_device(device(), make_test_chain(GetParam()), frames, frames.size(), options);
            expect_conserved(run, frames.size());
            expect_equal(expected, run, std::to_string(least_payload) + " B or more, " + device::name_of(mode));
        }
    }
}

TEST(Engines, MeetEveryKindOfEndInTheTestTraffic) {
    const EngineRun run = run_on_cpu(make_test_chain("cpu"), random_frames(3000, 3), 256);
    std::set<std::string> ends;
    for (const Outcome& outcome : run.outcomes)
        ends.insert(std::to_string(outcome.verdict.node) + "/" + std::to_string(outcome.verdict.decision.outcome));
    // Parser and all four NFs drop, pass or punt: a comparison of engines would mean little otherwise.
    EXPECT_GE(ends.size(), 12u);
    EXPECT_GT(run.counters->events.get(), 50u);
    for (const auto& node : run.counters->nodes) EXPECT_GT(node->packets.get(), 500u) << node->name;
}

TEST_P(Devices, GiveTheSameAnswerWithCpuHalvesAndDeviceHalvesOfAnyLanes) {
    const std::vector<Frame> frames = random_frames(700, 7);
    const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
    for (const unsigned lanes : {1u, 8u, 32u}) {
        expect_equal(expected, run_on_cpu(make_test_chain("cpu", lanes), frames, 256, false),
                     "device halves, lanes " + std::to_string(lanes));
        for (const device::Mode mode : kWaysOfBatches) {
            exec::OffloadOptions options;
            options.mode = mode;
            expect_equal(expected, run_on_device(device(), make_test_chain(GetParam(), lanes), frames, 300, options),
                         std::string("on the device, ") + device::name_of(mode) + ", lanes " + std::to_string(lanes));
        }
    }
}

class DevicesInEveryMode : public DeviceInMode {};

TEST_P(DevicesInEveryMode, GiveTheSameAnswerWithEveryTransfer) {
    const std::vector<Frame> frames = random_frames(900, 11);
    const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
    unsigned seed = static_cast<unsigned>(mode()) * 100;
    bool whole_frames = false;
    exec::OffloadOptions options;
    options.mode = mode();
    const auto compare = [&] {
        const std::string what = std::string(exec::name_of(options.transfer_in)) + ", " +
                                 exec::name_of(options.transfer_out) + (whole_frames ? ", whole frames" : "") +
                                 (options.call_thread != nullptr ? ", a thread for calls" : "");
        chain::Configuration configuration = make_test_chain(name());
        if (whole_frames) configuration = chain::with_whole_frames(std::move(configuration));
        expect_equal(expected, run_on_device(device(++seed), configuration, frames, 200, options), what);
    };
    for (const exec::TransferIn in : exec::kTransfersIn)
        for (const exec::TransferOut out : exec::kTransfersOut)
            for (const bool whole : {false, true}) {
                options.transfer_in = in;
                options.transfer_out = out;
                whole_frames = whole;
                compare();
            }
    if (mode() != device::Mode::fused && mode() != device::Mode::pipelined) return;
    whole_frames = false;
    options = {};
    options.mode = mode();
    options.call_thread = std::make_shared<exec::CallThread>();
    for (const exec::TransferIn in : {exec::TransferIn::gather, exec::TransferIn::rows}) {
        options.transfer_in = in;
        compare();
    }
}

INSTANTIATE_TEST_SUITE_P(All, DevicesInEveryMode, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicesInEveryMode);

/// Packets are numbered by those that lead their key in a block, where they are few, and one by one where they are
/// many: by a table that has a place for each SA, or, of 10,000, for those of the batch.
TEST_P(Devices, NumberThePacketsOfAnyNumberOfTunnelsInOrder) {
    for (const unsigned tunnels : {1u, 3u, 60u, 257u, 1000u, 10000u}) {
        std::string sas, policies;
        for (unsigned i = 0; i < tunnels; ++i) {
            const std::string number = std::to_string(i), comma = i > 0 ? ", " : "";
            sas += comma + "{name: t" + number + ", direction: out, spi: " + std::to_string(0x1001 + i) +
                   R"(, local: 192.0.2.1, remote: 198.51.100.1,
                cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f325)" +
                   std::to_string(10000 + i) +
                   R"(, nonce: "006cb6db", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98})";
            policies += comma + "{dst: 10." + std::to_string(i >> 8) + "." + std::to_string(i & 255) +
                        ".0/24, action: protect, sa: t" + number + "}";
        }
        // Some go by no tunnel.
        const std::string nfs = "[ipsec: {sa-slots: 10000, sas: [" + sas + "], policies: [" + policies +
                                "], default: bypass}]";
        std::vector<Frame> frames;
        Rng rng(61 + tunnels);
        const Frame frame = build_packet(
            "{ipv4: {src: 10.1.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: hello}");
        for (size_t i = 0; i < 5000; ++i) {
            frames.push_back(frame);
            store_be16(&frames.back()[14 + 17], static_cast<uint16_t>(rng() % (tunnels + 1)));
        }
        auto configuration = make_configuration(nfs, GetParam());
        const EngineRun expected = without_visits(run_on_cpu(make_configuration(nfs, "cpu"), frames, 256));
        exec::OffloadOptions options;
        options.full_burst = 1;  // all of them as one batch
        expect_equal(expected, without_visits(run_on_device(device(), configuration, frames, frames.size(), options)),
                     std::to_string(tunnels) + " tunnels");
        options.mode = device::Mode::persistent;
        expect_equal(expected,
                     without_visits(run_on_device(device(), make_configuration(nfs, GetParam()), frames, 700, options)),
                     std::to_string(tunnels) + " tunnels, persistent");
    }
}

/// The buffers of a vector serve the next one: what became of an earlier packet must not be told of a later one.
TEST(Engines, TellEveryAlertWhetherItsOwnPacketWasDropped) {
    const Frame dropped = build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: 'bad thing'}");
    const Frame passed = build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: 'odd thing'}");
    std::vector<Frame> frames(256, dropped);
    frames.insert(frames.end(), 200, passed);
    frames.insert(frames.end(), 3, dropped);
    const std::string file = testing::TempDir() + "dropped-or-not.json";
    {
        const EngineRun run = run_on_cpu(make_configuration("[nids: {mode: ips, eve: \"" + file + R"(", rule: [
            'drop udp any any -> any any (msg:"bad"; content:"bad"; sid:1;)',
            'alert udp any any -> any any (msg:"odd"; content:"odd"; sid:2;)']}, mirror])",
                                                            "cpu"),
                                         frames, 256);
        EXPECT_EQ(run.counters->events.get(), frames.size());
    }
    size_t blocked = 0, allowed = 0;
    for_each_line(read_file(file), [&](std::string_view line, uint32_t) {
        blocked += line.find("\"blocked\"") != line.npos;
        allowed += line.find("\"allowed\"") != line.npos;
    });
    EXPECT_EQ(blocked, 259u);
    EXPECT_EQ(allowed, 200u);
    std::remove(file.c_str());
}

TEST_P(Devices, MoveOnlyHeadsForAChainThatReadsOnlyHeads) {
    const std::vector<Frame> frames(
        100, build_packet(
                 "{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: {repeat: x, count: 1400}}"));
    const EngineRun run = run_on_device(device(), make_configuration("[mirror]", GetParam()), frames, 100);
    expect_conserved(run, frames.size());
    EXPECT_LT(run.counters->bytes_to_device.get(), frames.size() * 200);
    expect_equal(run_on_cpu(make_configuration("[mirror]", "cpu"), frames, 100), run, "heads only");
    const EngineRun whole = run_on_device(
        device(), chain::with_whole_frames(make_configuration("[mirror]", GetParam())), frames, 100);
    EXPECT_GT(whole.counters->bytes_to_device.get(), frames.size() * 1400);
}

TEST_P(Devices, LetTheHostDecideWhenHeadersLieBehindTheHead) {
    // IPv4 options and stacked VLAN tags push the TCP header out of the bytes that a mirror asks for.
    std::vector<Frame> frames;
    for (int i = 0; i < 40; ++i) {
        frames.push_back(build_packet("{vlan: [1, 2, 3, 4], ipv4: {src: 10.0.0.1, dst: 10.0.0.2, options: \"" +
                                      std::string(80, '0') + "\"}, tcp: {src: 1, dst: 2}, payload: hello}"));
        frames.push_back(build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, tcp: {src: 1, dst: 2}, payload: hello}"));
        // Within the head, but where another chain's NF could write behind it.
        frames.push_back(build_packet("{vlan: [1, 2], ipv6: {}, udp: {src: 1, dst: 2}, payload: hello}"));
    }
    const EngineRun run = run_on_device(device(), make_configuration("[mirror]", GetParam()), frames, 80, {},
                                        Work::shared_with_cpu);
    expect_conserved(run, frames.size());
    EXPECT_EQ(run.counters->retried_on_cpu.get(), 80u);
    expect_equal(run_on_cpu(make_configuration("[mirror]", "cpu"), frames, 80), run, "host decides");
}

TEST(Engines, LoseNothingWhenTheDeviceFails) {
    const std::vector<Frame> frames = random_frames(1200, 13);
    const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
    for (const Fault::Kind kind :
         {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost, Fault::Kind::slow})
        for (const uint64_t after : {0, 1, 5, 17, 40}) {
            SimOptions sim;
            sim.seed = static_cast<uint32_t>(after) + 3;
            sim.faults = {{kind, after, 500}};
            for (const device::Mode mode : kWaysOfBatches) {
                exec::OffloadOptions options;
                options.mode = mode;
                const EngineRun run = run_on_device(std::make_shared<SimDevice>(sim), make_test_chain("sim"), frames,
                                                    100, options,
                                                    kind == Fault::Kind::slow ? Work::device_alone : Work::fault);
                expect_conserved(run, frames.size());
                expect_equal(expected, run,
                             "fault " + std::to_string(static_cast<int>(kind)) + " after " + std::to_string(after) +
                                 ", " + device::name_of(mode));
                // A list that is worked through slowly lets batches grow, so that there may be too few operations.
                if (kind == Fault::Kind::device_lost && (mode == device::Mode::fused || after < 10)) {
                    EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
                }
            }
        }
}

TEST(Engines, GiveUpADeviceThatNeverAnswers) {
    SimOptions sim;
    sim.faults = {{Fault::Kind::slow, 3, UINT64_MAX / 2}};
    exec::OffloadOptions options;
    options.patience = std::chrono::milliseconds(20);
    const std::vector<Frame> frames = random_frames(300, 17);
    for (const device::Mode mode : kWaysOfBatches) {
        options.mode = mode;
        const EngineRun run = run_on_device(std::make_shared<SimDevice>(sim), make_test_chain("sim"), frames, 100,
                                            options, Work::fault);
        expect_conserved(run, frames.size());
        EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
        expect_equal(run_on_cpu(make_test_chain("cpu"), frames, 256), run, "a device that never answers");
    }
}

TEST(Engines, SayWhatADeviceLacksMemoryFor) {
    SimOptions sim;
    sim.memory_bytes = 1 << 20;
    EXPECT_THROW(run_on_device(std::make_shared<SimDevice>(sim), make_test_chain("sim"), {}, 1), device::DeviceError);
}

TEST(Engines, LoadAChainWhoseTablesOnceFoundNoRoom) {
    SimOptions sim;
    sim.memory_bytes = size_t{256} << 20;
    const auto device = std::make_shared<SimDevice>(sim);
    const chain::Configuration configuration = make_test_chain("sim");
    exec::OffloadOptions options;
    options.batch_bytes = 1 << 20;
    const auto steps = exec::steps_of(*configuration.chains[0], options);
    // Room for its first tables, and not for all.
    const device::Address others = device->allocate(sim.memory_bytes - (size_t{64} << 10), "others");
    EXPECT_THROW(device->load(configuration.chains[0], steps), device::DeviceError);
    device->free(others);
    const std::vector<Frame> frames = random_frames(300, 17);
    expect_equal(run_on_cpu(make_test_chain("cpu"), frames, 256),
                 run_on_device(device, configuration, frames, 100, options), "with room");
}

INSTANTIATE_TEST_SUITE_P(All, Devices, testing::ValuesIn(offload_devices()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Devices);

TEST(PacketRing, NeverHandsOutBytesThatAreInUse) {
    exec::PacketRing ring(1000);
    std::deque<std::pair<size_t, size_t>> taken;
    Rng rng(5);
    for (int i = 0; i < 20000; ++i) {
        const size_t bytes = rng() % 400;
        const size_t at = ring.take(bytes);
        if (at == exec::PacketRing::kNoRoom || (rng() % 3 == 0 && !taken.empty())) {
            if (at != exec::PacketRing::kNoRoom) taken.emplace_back(at, bytes);
            ASSERT_FALSE(taken.empty()) << "an empty ring has no room for " << bytes;
            ring.give_back();
            taken.pop_front();
            continue;
        }
        ASSERT_LE(at + bytes, 1000u);
        for (const auto& [begin, size] : taken)
            ASSERT_TRUE(at + bytes <= begin || at >= begin + size) << at << " " << bytes;
        taken.emplace_back(at, bytes);
    }
}

}  // namespace
}  // namespace millrace::test
