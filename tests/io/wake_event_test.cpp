// Who sleeps is woken, whenever the other comes.
#include "millrace/io/wake_event.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <thread>

#include "io/support.hpp"

namespace millrace::io::test {
namespace {

/// Whether a descriptor becomes readable, within ten seconds.
bool readable(const std::vector<int>& descriptors, int timeout_ms = 10'000) {
    std::vector<pollfd> waiting;
    for (const int descriptor : descriptors) waiting.push_back({descriptor, POLLIN, 0});
    return poll(waiting.data(), waiting.size(), timeout_ms) > 0;
}

TEST(WakeEvent, LosesNoWakeUpBetweenTwoThreads) {
    constexpr uint64_t kRounds = 30'000;
    WakeEvent event;
    std::atomic<uint64_t> asked{0}, answered{0};
    std::thread sleeper([&] {
        for (uint64_t seen = 0; seen < kRounds;) {
            const int descriptor = event.prepare();
            if (asked.load(std::memory_order_relaxed) == seen) {
                ASSERT_TRUE(readable({descriptor})) << "nobody woke it for number " << seen;
            }
            event.done();
            seen = asked.load(std::memory_order_relaxed);
            answered.store(seen, std::memory_order_relaxed);
        }
    });
    for (uint64_t i = 1; i <= kRounds; ++i) {
        asked.store(i, std::memory_order_relaxed);
        event.wake();
        // Every other time it is asked again before it has answered.
        if (i % 2 == 0 || i == kRounds)
            while (answered.load(std::memory_order_relaxed) < i) std::this_thread::yield();
    }
    sleeper.join();
    EXPECT_EQ(answered, kRounds);
}

TEST(WakeEvent, IsNotSetByWhoComesWhileNobodySleeps) {
    WakeEvent event;
    event.wake();
    const int descriptor = event.prepare();
    EXPECT_FALSE(readable({descriptor}, 0));
    for (unsigned i = 0; i < 1000; ++i) event.wake();
    EXPECT_TRUE(readable({descriptor}, 0));
    event.done();
    EXPECT_FALSE(readable({descriptor}, 0)) << "one sleep ends once";
    event.wake();
    EXPECT_EQ(event.prepare(), descriptor);
    EXPECT_FALSE(readable({descriptor}, 0));
}

/// A process at the limit of its descriptors sleeps less well, and that is all.
TEST(WakeEvent, SaysWhenTheProcessHasNoDescriptorLeft) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    WakeEvent event;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int descriptor = event.prepare();
    WakeUps wake_ups;
    wake_ups.on(descriptor);
    event.wake();
    event.done();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_LT(descriptor, 0);
    EXPECT_TRUE(wake_ups.polls());
    EXPECT_TRUE(wake_ups.descriptors().empty());
    EXPECT_GE(event.prepare(), 0) << "there are some again";
}

TEST(RingWakeUps, ComeForPacketsAndForTheEndOfThem) {
    constexpr uint32_t kPackets = 5000;
    const auto made = ports(
        "source: { source: { count: 5000 } }\nnear: { ring: w, slots: 64 }\n"
        "far: { ring: w, slots: 64 }\nout: { sink: {} }\n");
    std::thread reader([&] {
        WakeUps wake_ups;
        rte_mbuf* mbufs[32];
        while (!made[2]->exhausted()) {
            uint16_t n = made[2]->receive(0, mbufs, 32);
            if (n == 0) {
                wake_ups.clear();
                made[2]->begin_sleep(0, wake_ups);
                n = made[2]->receive(0, mbufs, 32);
                if (n == 0 && !made[2]->exhausted()) {
                    ASSERT_TRUE(readable(wake_ups.descriptors()));
                }
                made[2]->end_sleep(0);
            }
            made[3]->send(0, mbufs, n);
        }
    });
    while (!made[0]->exhausted()) {
        rte_mbuf* mbufs[3];
        const uint16_t n = made[0]->receive(0, mbufs, 3);
        for (uint16_t sent = 0; sent < n;)
            sent = static_cast<uint16_t>(sent + made[1]->send(0, mbufs + sent, static_cast<uint16_t>(n - sent)));
        if (n % 2 == 0) std::this_thread::yield();
    }
    made[1]->close();
    reader.join();
    EXPECT_EQ(made[3]->counters().sent_packets, kPackets);
}

/// Ports that time their packets say when the next is due, and such that never wake anybody ask to be looked at.
TEST(TimedWakeUps, TellWhenTheNextPacketIsDue) {
    const auto made = ports("slow: { source: { rate: 100 } }\nfast: { source: { rate: max, count: 1 } }\n");
    rte_mbuf* mbufs[32];
    for (const auto& port : made)
        for (uint16_t n = 0; (n = port->receive(0, mbufs, 32)) != 0;) rte_pktmbuf_free_bulk(mbufs, n);
    WakeUps wake_ups;
    made[0]->begin_sleep(0, wake_ups);
    EXPECT_TRUE(wake_ups.polls());
    EXPECT_GT(wake_ups.within(), std::chrono::milliseconds(1));
    EXPECT_LE(wake_ups.within(), std::chrono::milliseconds(10));
    wake_ups.clear();
    made[1]->begin_sleep(0, wake_ups);
    EXPECT_TRUE(wake_ups.polls()) << "it has given all, and other queues of such a port may not have";
    EXPECT_EQ(wake_ups.within(), std::chrono::nanoseconds::max());
}

}  // namespace
}  // namespace millrace::io::test
