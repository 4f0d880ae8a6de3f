// Workers without packets sleep; they are woken by all that asks something of them, and lose nothing over it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <thread>

#include "millrace/base/eal.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/sleeper.hpp"
#include "millrace/io/wake_event.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

/// `rings` chains, each from a ring and back to it; and a port that has buffers.
std::string rings_text(unsigned rings, const std::string& idle) {
    std::string text = "version: 1\n" + (idle.empty() ? "" : "idle: " + idle + "\n") + "ports:\n";
    for (unsigned i = 0; i < rings; ++i) {
        const std::string n = std::to_string(i);
        text += "  near" + n + ": {ring: w" + n + ", slots: 64}\n  far" + n + ": {ring: w" + n + ", slots: 64}\n";
    }
    text += "  spare: {source: {count: 1}}\nchains:\n";
    for (unsigned i = 0; i < rings; ++i) {
        const std::string n = std::to_string(i);
        text += "  c" + n + ": {input: near" + n + ", output: near" + n + ", max-delay: 50us, nfs: [mirror]}\n";
    }
    return text;
}

chain::Configuration configuration(const std::string& text, const std::string& device,
                                   const chain::Configuration* previous = nullptr) {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = testing::TempDir();
    options.previous = previous;
    return chain::parse_configuration(text, "(idle)", options);
}

/// Workers at the near ends of rings, and the far ends for the test.
struct Rings {
    Rings(unsigned rings, const std::string& device, const std::string& idle = "", unsigned workers = 0)
        : runtime(configuration(rings_text(rings, idle), device), options_for(workers, device)),
          pool(const_cast<io::PacketPool&>(*runtime.ports().back()->pools()[0])) {
        runtime.start();
    }
    static exec::RuntimeOptions options_for(unsigned workers, const std::string& device) {
        exec::RuntimeOptions options;
        options.workers = workers;
        options.devices = open_devices(device);
        return options;
    }
    io::Port& far(unsigned ring) { return *runtime.ports()[2 * ring + 1]; }
    bool send(unsigned ring, uint16_t queue = 0) {
        rte_mbuf* packet = nullptr;
        if (!pool.allocate(&packet, 1)) return false;
        std::fill_n(rte_pktmbuf_mtod(packet, uint8_t*), 64, uint8_t{1});
        packet->pkt_len = packet->data_len = 64;
        return far(ring).send(queue, &packet, 1) == 1;
    }
    /// Microseconds until a packet has come out of a ring; negative when none has within ten seconds.
    double await(unsigned ring, Clock::time_point start, uint16_t queue = 0) {
        rte_mbuf* packet = nullptr;
        while (far(ring).receive(queue, &packet, 1) == 0)
            if (us_since(start) > 1e7) return -1;
        const double took = us_since(start);
        rte_pktmbuf_free(packet);
        return took;
    }
    double pass(unsigned ring, uint16_t queue = 0) {
        const auto start = Clock::now();
        return send(ring, queue) ? await(ring, start, queue) : -1;
    }
    void end() {
        runtime.stop();
        for (const exec::ChainReport& chain : end_of_shared_run(runtime, Work::device_alone).chains)
            EXPECT_EQ(chain.received_packets + chain.injected, chain.sent_packets);
    }
    exec::Runtime runtime;
    io::PacketPool& pool;
};

/// CPU time of the process while this thread sleeps, as a share of that time.
double share_of_cpu(std::chrono::milliseconds time) {
    const auto cpu = [] {
        timespec spent{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
        return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
    };
    const auto start = Clock::now();
    const double before = cpu();
    std::this_thread::sleep_for(time);
    return (cpu() - before) / (us_since(start) * 1e-6);
}

void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

/// Microseconds of CPU time for which a worker stays awake in each of some rounds, when each sleep is over after
/// `time`.
std::vector<double> awake_times(exec::Sleeper& sleeper, std::chrono::microseconds time, unsigned rounds) {
    const auto cpu_us = [] {
        timespec spent{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
        return static_cast<double>(spent.tv_sec) * 1e6 + static_cast<double>(spent.tv_nsec) * 1e-3;
    };
    std::vector<double> awake;
    for (unsigned round = 0; round < rounds; ++round) {
        sleeper.busy();
        const double before = cpu_us();
        while (!sleeper.is_tired()) {
        }
        awake.push_back(cpu_us() - before);
        sleeper.begin().within(time);
        sleeper.sleep();
        sleeper.end();
    }
    return awake;
}

TEST(Sleeper, StaysAwakeForLessAndLessBetweenRarePackets) {
    start_eal();
    exec::Sleeper sleeper(1);
    const std::vector<double> rare = awake_times(sleeper, std::chrono::milliseconds(2), 50);
    EXPECT_LT(median({rare.begin() + 20, rare.end()}), 100);
}

TEST(AwakeTime, FollowsHowSoonAWorkerIsWoken) {
    using exec::AwakeTime;
    using std::chrono::nanoseconds;
    AwakeTime awake;
    EXPECT_EQ(awake.time(), AwakeTime::kMax);
    awake.woken(AwakeTime::kMax);
    EXPECT_EQ(awake.time(), AwakeTime::kMax / 2) << "not sooner than it would have stayed awake";
    for (unsigned i = 0; i < 1000; ++i) awake.woken(std::chrono::milliseconds(2));
    EXPECT_EQ(awake.time(), AwakeTime::kMin);
    awake.woken(AwakeTime::kMax - nanoseconds(1));
    EXPECT_EQ(awake.time(), 2 * AwakeTime::kMin);
    for (unsigned i = 0; i < 1000; ++i) awake.woken(std::chrono::microseconds(21));
    EXPECT_EQ(awake.time(), AwakeTime::kMax);
}

TEST(Sleeper, DoesNotSleepWhereSomethingIsDueAtOnce) {
    start_eal();
    exec::Sleeper sleeper(1);
    sleeper.begin().within(std::chrono::nanoseconds(0));
    timespec before{}, after{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (unsigned i = 0; i < 1000; ++i) sleeper.sleep();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    EXPECT_LT(after.tv_nsec - before.tv_nsec + (after.tv_sec - before.tv_sec) * 1'000'000'000, 1'000'000)
        << "a call of the kernel takes longer";
    sleeper.end();
}

class IdleWorkers : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, IdleWorkers, testing::ValuesIn(test_devices()), device_test_name);
INSTANTIATE_TEST_SUITE_P(OnPairs, IdleWorkers, testing::ValuesIn(device_pairs()), device_test_name);

TEST_P(IdleWorkers, TakeNextToNoCpuTime) {
    for (const unsigned rings : {1u, 64u}) {
        Rings all(rings, GetParam());
        for (unsigned ring = 0; ring < rings; ++ring) EXPECT_GT(all.pass(ring), 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_LT(share_of_cpu(std::chrono::milliseconds(500)),
                  0.02 * static_cast<double>(all.runtime.workers().size()))
            << rings << " rings";
        all.end();
    }
}

TEST_P(IdleWorkers, TakeACoreEachWhereTheyAreToPoll) {
    Rings all(1, GetParam(), "poll");
    EXPECT_GT(all.pass(0), 0);
    EXPECT_GT(share_of_cpu(std::chrono::milliseconds(500)), 0.05) << "however busy the machine is";
    all.end();
}

TEST_P(IdleWorkers, SixteenOfThemSleepAndEachIsWokenForItsQueue) {
    constexpr uint16_t kWorkers = 16;
    Rings all(2, GetParam(), "sleep", kWorkers);
    for (uint16_t round = 0; round < 3; ++round)
        for (uint16_t queue = 0; queue < kWorkers; ++queue) EXPECT_GT(all.pass(queue % 2, queue), 0) << queue;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LT(share_of_cpu(std::chrono::milliseconds(500)), 0.02 * kWorkers);
    all.end();
}

TEST(IdleWorkersOnTheCpu, AreWokenForPacketsOfAnyOfAThousandPorts) {
    constexpr unsigned kRings = 500;
    Rings all(kRings, "cpu");
    std::vector<double> took;
    for (unsigned i = 0; i < 100; ++i) {
        rest();
        took.push_back(all.pass(i * 7919 % kRings));
        ASSERT_GT(took.back(), 0) << "packet " << i;
    }
    // Forgotten wake-ups would be spread over 100 ms.
    std::sort(took.begin(), took.end());
    EXPECT_LT(took[took.size() / 4], 20'000);
    all.end();
}

/// What a thread takes to be woken that does nothing else, in the same moments.
class BareThread {
public:
    BareThread()
        : thread_([this] {
              for (pollfd waiting{event_.prepare(), POLLIN, 0}; !ends_; waiting.fd = event_.prepare()) {
                  if (asked_ == answered_ && !ends_) poll(&waiting, 1, 1000);
                  event_.done();
                  answered_ = asked_.load();
              }
          }) {}
    ~BareThread() {
        ends_ = true;
        event_.wake();
        thread_.join();
    }
    double wake() {
        const auto start = Clock::now();
        ++asked_;
        event_.wake();
        while (answered_ != asked_) {
        }
        return us_since(start);
    }

private:
    io::WakeEvent event_;
    std::atomic<unsigned> asked_{0}, answered_{0};
    std::atomic<bool> ends_{false};
    std::thread thread_;
};

TEST(IdleWorkersOnTheCpu, AreAwakeWithin50MicrosecondsOfWhatAnyThreadTakes) {
    // What else the machine has to do is no part of it; who may not ask for that lives with it.
    const int before = getpriority(PRIO_PROCESS, 0);
    setpriority(PRIO_PROCESS, 0, -20);
    std::vector<double> slept, bare, polled;
    {
        Rings sleeping(1, "cpu");
        BareThread thread;
        for (unsigned i = 0; i < 200; ++i) {
            rest();
            bare.push_back(thread.wake());
            rest();
            slept.push_back(sleeping.pass(0));
            ASSERT_GT(slept.back(), 0) << "packet " << i;
        }
        sleeping.end();
    }
    {
        Rings polling(1, "cpu", "poll");
        for (unsigned i = 0; i < 200; ++i) {
            rest();
            polled.push_back(polling.pass(0));
        }
        polling.end();
    }
    setpriority(PRIO_PROCESS, 0, before);
    const auto least = [](const std::vector<double>& all) { return *std::min_element(all.begin(), all.end()); };
    printf("us, median and least of 200: first packet %.1f %.1f; while it polls %.1f %.1f; bare thread %.1f %.1f\n",
           median(slept), least(slept), median(polled), least(polled), median(bare), least(bare));
    EXPECT_LT(least(slept), least(polled) + least(bare) + 50);
}

TEST_P(IdleWorkers, AreWokenByChangesInjectionsAndAStop) {
    Rings all(1, GetParam());
    const std::vector<uint8_t> frame(64, 1);
    std::vector<double> injected, changed;
    for (unsigned i = 0; i < 30; ++i) {
        rest();
        auto start = Clock::now();
        // By its port, and through its chain.
        ASSERT_TRUE(all.runtime.inject(0, frame, kNoPort, i % 2 == 0 ? 0 : kNoPort));
        injected.push_back(all.await(0, start));
        ASSERT_GT(injected.back(), 0);
        rest();
        start = Clock::now();
        all.runtime.apply(configuration(rings_text(1, ""), GetParam(), all.runtime.configuration().get()));
        changed.push_back(us_since(start));
    }
    EXPECT_LT(median(injected), 50'000);
    EXPECT_LT(median(changed), 50'000) << "no sleep is that long, but for a forgotten wake-up";
    rest();
    const auto start = Clock::now();
    all.end();
    EXPECT_LT(us_since(start), 5e6);
}

}  // namespace
}  // namespace millrace::test
