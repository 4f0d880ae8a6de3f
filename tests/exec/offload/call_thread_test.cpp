// One thread that does what many want done: all of it, each one's in order, and nothing for who has gone.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "millrace/exec/offload/submit/call_thread.hpp"
#include "support/engine_runner.hpp"

namespace millrace::exec {
namespace {

TEST(CallThread, DoesWhatEachSubmissionQueueHasInItsOrder) {
    test::frame_pool();  // threads are made known to DPDK
    constexpr size_t kQueues = 5, kEach = 5000;
    const auto thread = std::make_shared<CallThread>();
    std::vector<std::vector<size_t>> done(kQueues);
    std::vector<std::thread> owners;
    for (size_t owner = 0; owner < kQueues; ++owner)
        owners.emplace_back([&, owner] {
            std::vector<size_t>& own = done[owner];
            const auto run = [&own](void* work) { own.push_back(*static_cast<const size_t*>(work)); };
            CallThread::SubmissionQueue queue(thread, run);
            std::vector<size_t> work(kEach);
            for (size_t i = 0; i < kEach; ++i) {
                work[i] = owner * kEach + i;  // seen by the thread
                queue.submit(&work[i]);
                if (i % 1000 != 0) continue;
                queue.wait();
                EXPECT_FALSE(queue.busy());
                EXPECT_EQ(own.size(), i + 1);
            }
        });
    for (std::thread& owner : owners) owner.join();
    for (size_t owner = 0; owner < kQueues; ++owner) {
        ASSERT_EQ(done[owner].size(), kEach) << "a queue went before all was done";
        for (size_t i = 0; i < kEach; ++i) ASSERT_EQ(done[owner][i], owner * kEach + i);
    }
}

TEST(CallThread, TellsThatAQueueIsBusyUntilItsWorkIsDone) {
    test::frame_pool();
    std::atomic<bool> go{false};
    const auto run = [&](void*) {
        while (!go) std::this_thread::yield();
    };
    CallThread::SubmissionQueue queue(std::make_shared<CallThread>(), run);
    EXPECT_FALSE(queue.busy());
    queue.submit(nullptr);
    EXPECT_TRUE(queue.busy());
    go = true;
    queue.wait();
    EXPECT_FALSE(queue.busy());
}

TEST(CallThread, RefusesMoreQueuesThanItHasRoomFor) {
    test::frame_pool();
    const auto thread = std::make_shared<CallThread>();
    std::vector<std::unique_ptr<CallThread::SubmissionQueue>> queues;
    const auto nothing = [](void*) {};
    const auto add = [&] { queues.push_back(std::make_unique<CallThread::SubmissionQueue>(thread, nothing)); };
    for (int i = 0; i < 256; ++i) add();
    EXPECT_THROW(add(), std::runtime_error);
    queues.erase(queues.begin() + 100);
    EXPECT_NO_THROW(add()) << "a place is free again";
}

}  // namespace
}  // namespace millrace::exec
