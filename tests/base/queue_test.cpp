#include "millrace/base/queue.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace millrace {
namespace {

struct Element {
    uint32_t thread, number;
};

TEST(BoundedQueue, KeepsOrderAndRefusesWhatHasNoRoom) {
    for (const uint32_t slots : {2u, 4u, 1024u}) {
        BoundedQueue<Element> queue(slots);
        EXPECT_TRUE(queue.empty());
        Element element{};
        EXPECT_FALSE(queue.take(element));
        uint32_t put = 0, taken = 0;
        for (int round = 0; round < 5; ++round) {
            while (queue.put({0, put})) ++put;
            EXPECT_EQ(put - taken, slots - 1);
            EXPECT_FALSE(queue.empty());
            for (uint32_t half = slots / 2; half > 0; --half) {
                ASSERT_TRUE(queue.take(element));
                EXPECT_EQ(element.number, taken++);
            }
        }
        while (queue.take(element)) EXPECT_EQ(element.number, taken++);
        EXPECT_EQ(put, taken);
        EXPECT_TRUE(queue.empty());
    }
}

TEST(BoundedQueue, CarriesElementsOfAnyLengthThatIsAMultipleOfFour) {
    struct Long {
        uint32_t words[25];
    };
    BoundedQueue<Long> queue(8);
    for (uint32_t i = 0; i < 100; ++i) {
        Long in{}, out{};
        in.words[0] = i;
        in.words[24] = ~i;
        ASSERT_TRUE(queue.put(in));
        ASSERT_TRUE(queue.take(out));
        EXPECT_EQ(out.words[0], i);
        EXPECT_EQ(out.words[24], ~i);
    }
}

TEST(BoundedQueue, LosesAndDoublesNothingBetweenManyThreads) {
    constexpr uint32_t kThreads = 4, kEach = 20'000;
    BoundedQueue<Element> queue(256);
    std::atomic<uint32_t> taken{0};
    std::vector<std::thread> threads;
    std::vector<std::vector<Element>> got(kThreads);
    for (uint32_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (uint32_t i = 0; i < kEach;)
                if (queue.put({t, i})) ++i;
                else std::this_thread::yield();
        });
        threads.emplace_back([&, t] {
            for (Element element{}; taken < kThreads * kEach;) {
                if (!queue.take(element)) {
                    std::this_thread::yield();
                    continue;
                }
                got[t].push_back(element);
                ++taken;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<std::vector<uint32_t>> seen(kThreads, std::vector<uint32_t>(kEach));
    for (const auto& own : got) {
        std::vector<int64_t> last(kThreads, -1);
        for (const Element& element : own) {
            ++seen[element.thread][element.number];
            EXPECT_GT(int64_t{element.number}, last[element.thread]) << "each taker sees each putter's in order";
            last[element.thread] = element.number;
        }
    }
    for (const auto& numbers : seen)
        for (const uint32_t times : numbers) ASSERT_EQ(times, 1u);
}

/// Threads that share a core are stopped between any two instructions. Nobody may then spin a time slice for another.
TEST(BoundedQueue, LetsNobodyWaitForAThreadThatTheKernelHasStopped) {
    constexpr uint32_t kThreads = 4, kEach = 500'000;
    BoundedQueue<Element> queue(4096);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto late = [&] { return std::chrono::steady_clock::now() > deadline; };
    std::atomic<uint32_t> put{0}, ended{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            pthread_setaffinity_np(pthread_self(), sizeof one, &one);
            for (uint32_t i = 0; i < kEach && !(i % 64 == 0 && late());)
                if (queue.put({t, i})) ++i, ++put;
                else std::this_thread::yield();
            ++ended;
        });
    }
    uint32_t taken = 0;
    for (Element element{}; ended < kThreads || !queue.empty();)
        if (queue.take(element)) ++taken;
        else std::this_thread::yield();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(put, kThreads * kEach) << "the rest was not put in 30 s";
    EXPECT_EQ(taken, put);
}

}  // namespace
}  // namespace millrace
