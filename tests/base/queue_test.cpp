#include "millrace/base/queue.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <stdexcept>
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
            EXPECT_EQ(put - taken, slots);
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

TEST(BoundedQueue, RefusesNumbersOfSlotsThatItCannotHave) {
    for (const uint32_t slots : {0u, 1u, 3u, 1023u, 1025u, ~0u})
        EXPECT_THROW(BoundedQueue<Element>{slots}, std::invalid_argument) << slots;
}

TEST(BoundedQueue, GoesAroundAtEveryFillingLevel) {
    for (const uint32_t slots : {2u, 4u, 16u}) {
        for (uint32_t level = 1; level <= slots; ++level) {
            BoundedQueue<Element> queue(slots);
            uint32_t put = 0, taken = 0;
            while (put < level) ASSERT_TRUE(queue.put({0, put++}));
            for (Element element{}; taken < 10 * slots;) {
                ASSERT_EQ(queue.put({0, put}), level < slots) << "of " << slots << " at " << level;
                if (level < slots) ++put;
                ASSERT_TRUE(queue.take(element));
                ASSERT_EQ(element.number, taken++);
                if (level < slots) continue;
                ASSERT_TRUE(queue.put({0, put++}));
            }
            for (Element element{}; queue.take(element);) ASSERT_EQ(element.number, taken++);
            EXPECT_EQ(put, taken);
            EXPECT_TRUE(queue.empty());
        }
    }
}

TEST(BoundedQueue, CarriesElementsOfAnyLength) {
    struct Long {
        uint8_t bytes[101];
    };
    BoundedQueue<Long> queue(8);
    BoundedQueue<uint8_t> bytes(8);
    for (unsigned i = 0; i < 100; ++i) {
        Long in{}, out{};
        in.bytes[0] = static_cast<uint8_t>(i);
        in.bytes[100] = static_cast<uint8_t>(~i);
        ASSERT_TRUE(queue.put(in));
        ASSERT_TRUE(queue.take(out));
        EXPECT_EQ(out.bytes[0], in.bytes[0]);
        EXPECT_EQ(out.bytes[100], in.bytes[100]);
        uint8_t byte = 0;
        ASSERT_TRUE(bytes.put(in.bytes[100]));
        ASSERT_TRUE(bytes.take(byte));
        EXPECT_EQ(byte, in.bytes[100]);
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

TEST(BoundedQueue, GivesOneTakerEveryPuttersElementsInTheirOrder) {
    constexpr uint32_t kThreads = 6;
    for (const auto& [slots, each] : {std::pair{2u, 100u}, {64u, 10'000u}}) {
        BoundedQueue<Element> queue(slots);
        std::atomic<uint32_t> ended{0};
        std::vector<std::thread> threads;
        for (uint32_t t = 0; t < kThreads; ++t)
            threads.emplace_back([&, t, each = each] {
                for (uint32_t i = 0; i < each;)
                    if (queue.put({t, i})) ++i;
                    else std::this_thread::yield();
                ++ended;
            });
        std::vector<uint32_t> next(kThreads);
        uint32_t out_of_order = 0;
        for (Element element{}; ended < kThreads || !queue.empty();) {
            if (queue.take(element)) out_of_order += element.number != next[element.thread]++;
            else std::this_thread::yield();
        }
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(out_of_order, 0u);
        EXPECT_EQ(next, std::vector<uint32_t>(kThreads, each)) << "what an empty queue left behind";
        Element element{};
        EXPECT_FALSE(queue.take(element));
    }
}

/// A page that may not be touched: who copies an element from there or to there stops in the middle until it goes on.
class ForbiddenPage {
public:
    ForbiddenPage() {
        page_ = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stopped_ = go_ = false;
        struct sigaction action{};
        action.sa_handler = [](int) {
            stopped_ = true;
            while (!go_) ::sched_yield();
            ::mprotect(page_, kBytes, PROT_READ | PROT_WRITE);
        };
        ::sigaction(SIGSEGV, &action, &before_);
    }
    ~ForbiddenPage() {
        ::sigaction(SIGSEGV, &before_, nullptr);
        ::munmap(page_, kBytes);
    }
    Element* element() { return static_cast<Element*>(page_); }
    void wait_until_stopped() {
        while (!stopped_) std::this_thread::yield();
    }
    void let_go() { go_ = true; }

private:
    static constexpr size_t kBytes = 4096;
    static inline void* page_;
    static inline std::atomic<bool> stopped_, go_;
    struct sigaction before_{};
};

TEST(BoundedQueue, GoesOnBehindAPutterThatHasStopped) {
    BoundedQueue<Element> queue(4);
    ForbiddenPage page;
    std::thread stopped([&] { EXPECT_TRUE(queue.put(*page.element())); });  // zeros
    page.wait_until_stopped();
    Element element{};
    EXPECT_FALSE(queue.empty()) << "something is on its way";
    EXPECT_FALSE(queue.take(element));
    for (uint32_t i = 1; i < 4; ++i) EXPECT_TRUE(queue.put({1, i})) << "behind it";
    EXPECT_FALSE(queue.put({1, 4})) << "it has one of the four slots";
    EXPECT_FALSE(queue.take(element)) << "nothing overtakes it";
    page.let_go();
    stopped.join();
    for (uint32_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(queue.take(element));
        EXPECT_EQ(element.number, i);
    }
    EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueue, GoesOnBehindATakerThatHasStopped) {
    BoundedQueue<Element> queue(4);
    for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(queue.put({1, i}));
    ForbiddenPage page;
    std::thread stopped([&] { EXPECT_TRUE(queue.take(*page.element())); });
    page.wait_until_stopped();
    Element element{};
    for (uint32_t i = 1; i < 3; ++i) {
        ASSERT_TRUE(queue.take(element));
        EXPECT_EQ(element.number, i);
    }
    EXPECT_FALSE(queue.take(element));
    EXPECT_TRUE(queue.empty());
    EXPECT_TRUE(queue.put({1, 3}));
    EXPECT_FALSE(queue.put({1, 4})) << "its slot is next, and not yet free";
    ASSERT_TRUE(queue.take(element));
    EXPECT_EQ(element.number, 3u);
    page.let_go();
    stopped.join();
    EXPECT_EQ(page.element()->number, 0u);
    for (uint32_t i = 4; i < 8; ++i) EXPECT_TRUE(queue.put({1, i}));
    for (uint32_t i = 4; i < 8; ++i) {
        ASSERT_TRUE(queue.take(element));
        EXPECT_EQ(element.number, i);
    }
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
