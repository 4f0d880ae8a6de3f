// What a worker does when others are slower than it is: it goes on, loses nothing that it need not, and says what it
// lost.
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <thread>

#include "millrace/nftest/listener.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

chain::Configuration configuration(const std::string& text, const std::string& device) {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = testing::TempDir() + "waits_" + std::to_string(getpid());
    std::filesystem::create_directories(options.output_folder);
    return chain::parse_configuration(text, "(waits)", options);
}

/// What this thread has worked, in seconds: others may have had its core meanwhile.
double worked() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

const exec::ChainCounters& counters_of(const exec::Runtime& runtime, const std::string& chain) {
    for (const exec::ChainCounters* counters : runtime.workers()[0]->counters())
        if (counters->chain == chain) return *counters;
    throw std::logic_error("no such chain");
}

class FullPort : public testing::TestWithParam<const char*> {};

/// A ring whose other end nobody reads.
TEST_P(FullPort, HoldsUpWhatComesInAndThenLosesItByName) {
    exec::Runtime runtime(configuration(R"(
version: 1
ports:
  in: {source: {count: 20000}}
  also: {source: {count: 20000}}
  near: {ring: wire, slots: 64}
  far: {ring: wire, slots: 64}
  out: {sink: {}}
chains:
  stuck: {input: in, output: near, nfs: [mirror]}
  flows: {input: also, output: out, nfs: [mirror]}
)",
                                        GetParam()));
    exec::Worker& worker = *runtime.workers()[0];
    double longest = 0;
    std::thread thread([&] {
        while (true) {
            const double from = worked();
            if (!worker.advance()) break;
            longest = std::max(longest, worked() - from);
        }
    });
    thread.join();
    EXPECT_LT(longest, 0.05) << "seconds of one turn, of which a port's patience is twice as much";
    const exec::ChainCounters& stuck = counters_of(runtime, "stuck");
    EXPECT_EQ(stuck.sent_packets.get(), 64u);
    EXPECT_EQ(stuck.exit_drops[static_cast<size_t>(exec::ExitDrop::transmit_full)].get(), 20000u - 64);
    EXPECT_EQ(counters_of(runtime, "flows").sent_packets.get(), 20000u);
    const exec::Report report = exec::make_report(runtime);
    EXPECT_TRUE(report.conserved());
    expect_work(Work::device_alone, report);
}

/// A ring whose other end is read now and then.
TEST_P(FullPort, LosesNothingWhileItMovesOn) {
    exec::Runtime runtime(configuration(R"(
version: 1
ports:
  in: {source: {count: 5000}}
  near: {ring: wire, slots: 64}
  far: {ring: wire, slots: 64}
chains:
  c: {input: in, output: near, nfs: [mirror]}
)",
                                        GetParam()));
    runtime.start();
    io::Port& far = *runtime.ports()[2];
    uint64_t received = 0;
    std::array<rte_mbuf*, 64> mbufs;
    for (unsigned looks = 0; received < 5000 && looks < 20'000; ++looks) {
        const uint16_t count = far.receive(0, mbufs.data(), mbufs.size());
        rte_pktmbuf_free_bulk(mbufs.data(), count);
        received += count;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(received, 5000u);
    end_of_shared_run(runtime, Work::device_alone);
    EXPECT_EQ(counters_of(runtime, "c").sent_packets.get(), 5000u);
    EXPECT_EQ(counters_of(runtime, "c").in_flight(), 0u);
}

INSTANTIATE_TEST_SUITE_P(OnEachDevice, FullPort, testing::Values("cpu", "sim"),
                         [](const auto& info) { return std::string(info.param); });

/// Takes its time with each event.
class SlowListener : public nftest::Listener {
public:
    using Listener::Listener;
    void on_event(const Event& event, const nf::PacketInfo& packet) override {
        Listener::on_event(event, packet);
        if (events.size() % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
};

class SlowTelling : public testing::TestWithParam<const char*> {};

TEST_P(SlowTelling, HoldsUpPacketsAndLosesNoEvent) {
    constexpr uint64_t kPackets = 60'000;  // several lines full of events
    chain::Configuration told = configuration(
        "version: 1\nports: {in: {source: {count: " + std::to_string(kPackets) +
            "}}, out: {sink: {}}}\n"
            "chains: {c: {input: in, output: out, nfs: [nids: {rule: ['alert ip any any -> any any (sid:1;)']}]}}\n",
        GetParam());
    auto program = std::make_shared<chain::Program>(*told.chains[0]);
    const auto listener = std::make_shared<SlowListener>(program->nodes[0].nf);
    program->nodes[0].nf = listener;
    told.chains[0] = program;
    exec::Runtime runtime(std::move(told));
    runtime.start();
    end_of_run(runtime, Work::device_alone);
    EXPECT_EQ(counters_of(runtime, "c").events.get(), kPackets);
    EXPECT_EQ(counters_of(runtime, "c").events_lost.get(), 0u);
    ASSERT_EQ(listener->events.size(), kPackets);
    for (uint64_t i = 0; i < kPackets; ++i) ASSERT_EQ(listener->events[i].packet, i + 1);
}

INSTANTIATE_TEST_SUITE_P(OnEachDevice, SlowTelling, testing::Values("cpu", "sim"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace millrace::test
