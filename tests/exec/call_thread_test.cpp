// One thread that does what many want done: all of it, each one's in order, and nothing for who has gone.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "millrace/exec/offload/call_thread.hpp"
#include "support/engine_runner.hpp"

namespace millrace::exec {
namespace {

TEST(CallThread, DoesWhatEachLaneWantsInItsOrder) {
    test::frame_pool();  // threads are made known to DPDK
    constexpr size_t kLanes = 5, kEach = 5000;
    const auto thread = std::make_shared<CallThread>();
    std::vector<std::vector<size_t>> done(kLanes);
    std::vector<std::thread> owners;
    for (size_t owner = 0; owner < kLanes; ++owner)
        owners.emplace_back([&, owner] {
            std::vector<size_t>& own = done[owner];
            const auto run = [&own](void* work) { own.push_back(*static_cast<const size_t*>(work)); };
            CallThread::SubmissionQueue lane(thread, run);
            std::vector<size_t> work(kEach);
            for (size_t i = 0; i < kEach; ++i) {
                work[i] = owner * kEach + i;  // seen by the thread
                lane.submit(&work[i]);
                if (i % 1000 != 0) continue;
                lane.wait();
                EXPECT_FALSE(lane.busy());
                EXPECT_EQ(own.size(), i + 1);
            }
        });
    for (std::thread& owner : owners) owner.join();
    for (size_t owner = 0; owner < kLanes; ++owner) {
        ASSERT_EQ(done[owner].size(), kEach) << "a lane went before all was done";
        for (size_t i = 0; i < kEach; ++i) ASSERT_EQ(done[owner][i], owner * kEach + i);
    }
}

TEST(CallThread, TellsThatALaneIsBusyUntilItsWorkIsDone) {
    test::frame_pool();
    std::atomic<bool> go{false};
    const auto run = [&](void*) {
        while (!go) std::this_thread::yield();
    };
    CallThread::SubmissionQueue lane(std::make_shared<CallThread>(), run);
    EXPECT_FALSE(lane.busy());
    lane.submit(nullptr);
    EXPECT_TRUE(lane.busy());
    go = true;
    lane.wait();
    EXPECT_FALSE(lane.busy());
}

TEST(CallThread, RefusesMoreLanesThanItHasRoomFor) {
    test::frame_pool();
    const auto thread = std::make_shared<CallThread>();
    std::vector<std::unique_ptr<CallThread::SubmissionQueue>> lanes;
    const auto nothing = [](void*) {};
    const auto add = [&] { lanes.push_back(std::make_unique<CallThread::SubmissionQueue>(thread, nothing)); };
    for (int i = 0; i < 256; ++i) add();
    EXPECT_THROW(add(), std::runtime_error);
    lanes.erase(lanes.begin() + 100);
    EXPECT_NO_THROW(add()) << "a place is free again";
}

}  // namespace
}  // namespace millrace::exec
