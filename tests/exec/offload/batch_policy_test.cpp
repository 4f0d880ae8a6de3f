// When a batch is due, by a clock that stands where the test wants it. batcher_test.cpp has an engine go by it.
#include <gtest/gtest.h>

#include "millrace/exec/offload/batch/batch_policy.hpp"

namespace millrace::test {
namespace {

using exec::BatchPolicy;
using Line = BatchPolicy::Line;
using Load = BatchPolicy::Load;

constexpr size_t kFull = 1024;
constexpr uint64_t kDelay = 50'000;
constexpr BatchPolicy kPolicy{.most_packets = kFull, .max_delay_ns = kDelay, .depth = 4, .idle_below = 1};

/// A device that has three more batches in flight than none, and room for another.
Load busy(size_t waiting, uint64_t waited_ns = 0) {
    return {.waiting = waiting, .waited_ns = waited_ns, .free_batches = 1, .in_flight = 3, .packets = 10'000};
}
Load idle(size_t waiting, uint64_t waited_ns = 0) {
    return {.waiting = waiting, .waited_ns = waited_ns, .free_batches = 4, .packets = waiting};
}

TEST(BatchPolicyTest, NothingIsDueOfNoPackets) {
    EXPECT_FALSE(kPolicy.is_due(idle(0)));
    EXPECT_FALSE(kPolicy.is_due(busy(0, UINT64_MAX)));
}

TEST(BatchPolicyTest, NothingIsDueWhileAllBatchesAreInFlight) {
    for (const size_t waiting : {size_t{1}, kFull, 10 * kFull}) {
        Load load = busy(waiting, UINT64_MAX);
        load.free_batches = 0;
        EXPECT_FALSE(kPolicy.is_due(load)) << waiting;
    }
}

TEST(BatchPolicyTest, AChainHasSoManyBatchesInFlightAndOthersHaveTheirOwn) {
    BatchPolicy policy = kPolicy;
    policy.depth = 2;
    for (const size_t waiting : {size_t{1}, kFull, 10 * kFull}) {
        Load load = busy(waiting, UINT64_MAX);
        load.in_flight = 3;
        for (load.of_chain = 0; load.of_chain < 4; ++load.of_chain)
            EXPECT_EQ(policy.is_due(load), load.of_chain < 2) << waiting << ", " << load.of_chain;
    }
}

TEST(BatchPolicyTest, AnIdleDeviceGetsWhatThereIsAtOnce) {
    for (const size_t waiting : {size_t{1}, kFull - 1, kFull, kFull + 1}) EXPECT_TRUE(kPolicy.is_due(idle(waiting)));
}

TEST(BatchPolicyTest, AnIdleDeviceWaitsForWhatCanBeReceivedAtOnce) {
    BatchPolicy policy = kPolicy;
    policy.most_packets = 2 * BatchPolicy::kWorthIt;
    const auto due = [&](size_t waiting, uint64_t waited_ns) {
        Load load = idle(waiting, waited_ns);
        load.more = true;
        return policy.is_due(load);
    };
    EXPECT_FALSE(due(1, 0));
    EXPECT_FALSE(due(BatchPolicy::kWorthIt - 1, kDelay - 1));
    EXPECT_TRUE(due(BatchPolicy::kWorthIt, 0)) << "so many are worth a batch";
    EXPECT_TRUE(due(1, kDelay)) << "max-delay holds there, too";
    policy.most_packets = 64;
    EXPECT_FALSE(due(63, 0));
    EXPECT_TRUE(due(64, 0)) << "a full batch";
}

TEST(BatchPolicyTest, AWorkerThatCannotKeepUpMakesLargerBatchesWhereCallsTakeLong) {
    BatchPolicy policy = kPolicy;
    policy.most_packets = 2 * BatchPolicy::kWorthIt;
    constexpr uint64_t kCalls = 3 * kDelay;
    for (const auto& of : {idle, busy}) {
        const auto due = [&](size_t waiting, uint64_t waited_ns, uint64_t calls_ns, bool more = true) {
            Load load = of(waiting, waited_ns);
            load.more = more;
            load.calls_ns = calls_ns;
            return policy.is_due(load);
        };
        EXPECT_FALSE(due(1, kDelay, kCalls));
        EXPECT_FALSE(due(BatchPolicy::kWorthIt, BatchPolicy::kTimesCalls * kCalls - 1, kCalls));
        EXPECT_TRUE(due(1, BatchPolicy::kTimesCalls * kCalls, kCalls));
        EXPECT_TRUE(due(policy.most_packets, 0, kCalls)) << "a full batch";
        constexpr uint64_t kMax = BatchPolicy::kMaxDelays * kDelay;
        EXPECT_FALSE(due(1, kMax - 1, 1'000 * kDelay));
        EXPECT_TRUE(due(1, kMax, 1'000 * kDelay)) << "calls that took very long once are no measure";
        EXPECT_TRUE(due(1, kDelay, kCalls, false)) << "there are no more: the worker keeps up";
        EXPECT_TRUE(due(1, kDelay, kDelay)) << "calls take no longer than packets may wait";
        EXPECT_TRUE(due(1, kDelay, 0)) << "nobody knows how long calls take";
    }
}

TEST(BatchPolicyTest, ADeviceIsIdleBelowSoManyBatches) {
    BatchPolicy policy = kPolicy;
    policy.idle_below = 3;
    Load load = busy(1);
    load.in_flight = 2;
    EXPECT_TRUE(policy.is_due(load));
    load.in_flight = 3;
    EXPECT_FALSE(policy.is_due(load));
}

TEST(BatchPolicyTest, ABusyDeviceGetsAFullBatchAtOnce) {
    EXPECT_FALSE(kPolicy.is_due(busy(1)));
    EXPECT_FALSE(kPolicy.is_due(busy(kFull - 1)));
    EXPECT_TRUE(kPolicy.is_due(busy(kFull)));
    EXPECT_TRUE(kPolicy.is_due(busy(kFull + 1)));
}

TEST(BatchPolicyTest, ABusyDeviceGetsABatchOncePacketsAreOld) {
    for (const size_t waiting : {size_t{1}, kFull - 1}) {
        EXPECT_FALSE(kPolicy.is_due(busy(waiting, kDelay - 1)));
        EXPECT_TRUE(kPolicy.is_due(busy(waiting, kDelay)));
    }
    BatchPolicy at_once = kPolicy;
    at_once.max_delay_ns = 0;
    EXPECT_TRUE(at_once.is_due(busy(1, 0)));
}

TEST(BatchPolicyTest, FewPacketsGoAtEvenDistances) {
    const auto due = [](size_t packets, uint64_t since_start, uint64_t round_trip) {
        Load load = busy(1);
        load.packets = packets;
        load.since_start = since_start;
        load.round_trip = round_trip;
        return kPolicy.is_due(load);
    };
    constexpr uint64_t kRoundTrip = 40'000;
    EXPECT_FALSE(due(1, kRoundTrip / 4 - 1, kRoundTrip));
    EXPECT_TRUE(due(1, kRoundTrip / 4, kRoundTrip));
    EXPECT_TRUE(due(BatchPolicy::kFew, kRoundTrip / 4, kRoundTrip));
    EXPECT_FALSE(due(BatchPolicy::kFew + 1, kRoundTrip / 4, kRoundTrip)) << "these are not few";
    EXPECT_FALSE(due(1, UINT64_MAX, 0)) << "nobody knows how long a round trip takes";
}

TEST(BatchPolicyTest, ABatchWaitsBehindTheWorkersOwnUntilItIsFull) {
    for (Load load : {idle(1), idle(kFull - 1), busy(kFull - 1, UINT64_MAX)}) {
        load.line = Line::own;
        EXPECT_FALSE(kPolicy.is_due(load)) << load.waiting;
    }
    for (Load load : {idle(kFull), busy(kFull)}) {
        load.line = Line::own;
        EXPECT_TRUE(kPolicy.is_due(load));
    }
}

TEST(BatchPolicyTest, ABatchWaitsBehindOtherWorkersUntilItsPacketsAreOld) {
    for (const auto& of : {idle, busy}) {
        const auto due = [&](size_t waiting, uint64_t waited_ns) {
            Load load = of(waiting, waited_ns);
            load.line = Line::others;
            return kPolicy.is_due(load);
        };
        EXPECT_FALSE(due(1, 0));
        EXPECT_FALSE(due(kFull - 1, 2 * kDelay - 1));
        EXPECT_TRUE(due(1, 2 * kDelay));
        EXPECT_TRUE(due(kFull, 0));
    }
}

}  // namespace
}  // namespace millrace::test
