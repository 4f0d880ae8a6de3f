// Kernels that stay on the device: their lists, their end, and the calls of a device that must not wait for them.
#include <gtest/gtest.h>

#include <thread>

#include "millrace/device/communication_list.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/test_chain.hpp"

namespace millrace::test {
namespace {

using device::CommunicationList;
using device::ResidentBatch;
using device::ResidentEntry;
using device::sim::SimDevice;

TEST(CommunicationList, GoesRoundThroughFreeReadyAndDone) {
    std::vector<ResidentEntry> entries(3);
    for (ResidentEntry& entry : entries) entry.state = 77;
    CommunicationList list(entries.data(), 3, 2);
    for (const ResidentEntry& entry : entries) EXPECT_EQ(entry.state, ResidentEntry::free);
    for (uint64_t number = 0; number < 10; ++number) {
        ResidentBatch batch;
        batch.view.count = static_cast<uint32_t>(number) + 5;
        EXPECT_EQ(list.submit(batch), number);
        ResidentEntry& entry = entries[number % 3];
        EXPECT_EQ(entry.state, ResidentEntry::ready);
        EXPECT_EQ(entry.batch.view.count, number + 5);
        EXPECT_FALSE(list.done(number));
        entry.state = ResidentEntry::done;
        EXPECT_TRUE(list.done(number));
        list.release(number);
        EXPECT_EQ(entry.state, ResidentEntry::free);
    }
    EXPECT_EQ(list.posted(), 10u);
}

TEST(CommunicationList, KnowsWhereAKernelThatIsStartedAgainGoesOn) {
    for (const unsigned depth : {1u, 2u, 4u, 7u, 64u}) {
        std::vector<ResidentEntry> entries(depth);
        CommunicationList list(entries.data(), depth, 4);
        const unsigned teams = list.teams();
        EXPECT_EQ(teams, std::min(depth, 4u));
        uint64_t released = 0, put = 0;
        std::vector<uint64_t> next(teams);  // of each team
        for (unsigned team = 0; team < teams; ++team) next[team] = team;
        Rng rng(depth);
        for (int i = 0; i < 2000; ++i) {
            switch (rng() % 3) {
                case 0:
                    if (put == released + depth) break;
                    EXPECT_EQ(list.submit({}), put);
                    ++put;
                    break;
                case 1: {  // teams end out of order
                    uint64_t& done = next[rng() % teams];
                    if (done >= put) break;
                    entries[done % depth].state = ResidentEntry::done;
                    done += teams;
                    break;
                }
                default:
                    if (released < put && list.done(released)) list.release(released++);
            }
            for (unsigned team = 0; team < teams; ++team)
                ASSERT_EQ(list.first_of(team), next[team])
                    << "depth " << depth << ", " << put << " put, " << released << " released";
        }
    }
}

constexpr const char* kTunnel =
    R"([ipsec: {sas: [{name: tunnel, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1,
    cipher: aes-128-ctr,
    key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}],
    policies: [{dst: 0.0.0.0/0, action: protect, sa: tunnel}], default: bypass}])";

class Residents : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
    exec::OffloadOptions persistent() const {
        exec::OffloadOptions options;
        options.mode = device::Mode::persistent;
        return options;
    }
    void expect_cpus_answer(const EngineRun& run, const chain::Configuration& on_cpu,
                            const std::vector<Frame>& frames) {
        const EngineRun expected = run_on_cpu(on_cpu, frames, 100);
        ASSERT_EQ(run.outcomes.size(), frames.size());
        for (size_t i = 0; i < frames.size(); ++i) ASSERT_EQ(expected.outcomes[i].text(), run.outcomes[i].text());
    }
};

/// As when a device that it waits for has died: the watchdog gives the kernel up, which then ends and keeps nobody
/// waiting.
TEST_P(Residents, EndWhenTheirSequenceNeverComes) {
    const auto device = open_device(GetParam());
    const auto gate = std::make_shared<device::OrderGate>();
    gate->resident_sequences = 1;  // that nobody has
    const auto word = gate->sequence_word(device);
    *word = 0;
    exec::OffloadOptions options = persistent();
    options.gate = gate;
    options.patience = std::chrono::milliseconds(100);
    const std::vector<Frame> frames = random_frames(300, 41);
    const auto from = std::chrono::steady_clock::now();
    const EngineRun run = run_on_device(device, make_configuration(kTunnel, GetParam()), frames, 50, options,
                                        Work::fault);
    EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(60)) << "with a compiler's time";
    expect_conserved(run, frames.size());
    EXPECT_EQ(run.counters->retried_on_cpu.get(), frames.size());
    expect_cpus_answer(run, make_configuration(kTunnel, "cpu"), frames);
    EXPECT_EQ(device->state(), device::Status::ok);
    // The device is as it was.
    const EngineRun after = run_on_device(device, make_test_chain(GetParam()), frames, 50, persistent());
    EXPECT_EQ(after.counters->retried_on_cpu.get(), 0u);
    expect_cpus_answer(after, make_test_chain("cpu"), frames);
}

TEST_P(Residents, KeepNoCallOfTheDeviceWaiting) {
    const auto device = open_device(GetParam());
    std::atomic<bool> ended{false};
    std::vector<uint8_t> memory(1 << 20);
    unsigned rounds = 0;
    const std::vector<Frame> frames = random_frames(6000, 43);
    EngineRun run;
    std::jthread traffic([&] {  // joined also where the device is given up meanwhile, and a call throws
        run = run_on_device(device, make_test_chain(GetParam()), frames, 20, persistent());
        ended = true;
    });
    for (; !ended; ++rounds) {
        const device::Address address = device->allocate(1 << 20, "a test");
        void* const host = device->allocate_host(1 << 16);
        if (device->pin(memory.data(), memory.size())) device->unpin(memory.data());
        device->free_host(host);
        device->free(address);
    }
    traffic.join();
    EXPECT_GT(rounds, 1u);
    EXPECT_EQ(run.counters->retried_on_cpu.get(), 0u);
    expect_cpus_answer(run, make_test_chain("cpu"), frames);
}

TEST_P(Residents, AreRefusedWhenTheDeviceIsFullAndNotBefore) {
    if (GetParam() == "sim") GTEST_SKIP() << "threads find room";
    const auto device = open_device(GetParam());
    const chain::Configuration mirror = make_configuration("[mirror]", GetParam());
    const auto steps = exec::steps_of(*mirror.chains[0], persistent());
    const auto program = device->load(mirror.chains[0], steps);
    std::vector<std::shared_ptr<device::Resident>> kernels;
    std::string refused;
    while (refused.empty() && kernels.size() < 2000) {
        try {
            kernels.push_back(device->start_resident(program, 1));
        } catch (const device::DeviceError& e) {
            refused = e.what();
        }
    }
    EXPECT_GE(kernels.size(), 16u);
    EXPECT_NE(refused.find("no room for a resident kernel"), std::string::npos) << refused;
    kernels.resize(kernels.size() - 1);
    const std::vector<Frame> frames = random_frames(300, 47);
    const EngineRun run = run_on_device(device, make_configuration(kTunnel, GetParam()), frames, 50, persistent());
    EXPECT_EQ(run.counters->retried_on_cpu.get(), 0u) << "the last place, among kernels that have nothing to do";
    expect_cpus_answer(run, make_configuration(kTunnel, "cpu"), frames);
}

TEST(ResidentDevices, GoWithTheirLastUser) {
    auto device = std::make_shared<SimDevice>();
    const std::weak_ptr<SimDevice> seen = device;
    exec::OffloadOptions options;
    options.mode = device::Mode::persistent;
    run_on_device(std::move(device), make_test_chain("sim"), random_frames(100, 71), 20, options);
    EXPECT_TRUE(seen.expired()) << "somebody keeps the device";
}

INSTANTIATE_TEST_SUITE_P(All, Residents, testing::ValuesIn(offload_devices()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Residents);

}  // namespace
}  // namespace millrace::test
