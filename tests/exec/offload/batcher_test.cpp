// The adaptive batcher: an idle device gets packets at once, a busy one in batches, and none waits beyond max-delay.
#include <gtest/gtest.h>
#include <rte_cycles.h>

#include <thread>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/io/metadata.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using device::sim::SimDevice;
using device::sim::SimOptions;

class Batcher : public testing::Test {
protected:
    void TearDown() override {
        if (engine_ == nullptr) return;
        engine_->drain();
        expect_work(work_, {engine_.get()}, *counters_, submitted_);
    }
    /// An engine on a device that does nothing for its first `slow_polls` polls.
    void start(uint64_t slow_polls, uint32_t max_batch, std::chrono::nanoseconds max_delay, unsigned depth = 4,
               size_t full_burst = SIZE_MAX, std::shared_ptr<exec::CallThread> call_thread = nullptr) {
        SimOptions sim;
        sim.lag = 0;
        if (slow_polls > 0) sim.faults = {{Fault::Kind::slow, 0, slow_polls}};
        submitted_ = 0;
        configuration_ = make_configuration("[mirror]", "sim");
        auto program = std::make_shared<chain::Program>(*configuration_.chains[0]);
        program->max_batch = max_batch;
        program->max_delay = max_delay;
        program_ = program;
        counters_ = std::make_unique<exec::ChainCounters>(*program_);
        exec::OffloadOptions options;
        options.depth = depth;
        options.full_burst = full_burst;
        options.call_thread = std::move(call_thread);
        options.batch_bytes = 1 << 20;
        options.patience = std::chrono::milliseconds(200);
        engine_ = std::make_unique<exec::OffloadEngine>(std::make_shared<SimDevice>(sim), collector_, 1024, options);
    }
    void submit(size_t packets) {
        const Frame frame = build_packet("{ipv4: {}, udp: {src: 1, dst: 2}}");
        std::vector<rte_mbuf*> mbufs;
        for (size_t i = 0; i < packets; ++i) mbufs.push_back(make_mbuf(frame, ++number_));
        submitted_ += packets;
        engine_->submit(program_, *counters_, mbufs.data(), mbufs.size());
    }
    uint64_t batches() const { return counters_->batches.get(); }

    chain::Configuration configuration_;
    std::shared_ptr<const chain::Program> program_;
    std::unique_ptr<exec::ChainCounters> counters_;
    Collector collector_;
    std::unique_ptr<exec::OffloadEngine> engine_;
    uint64_t number_ = 0, submitted_ = 0;
    Work work_ = Work::device_alone;
};

TEST_F(Batcher, SendsAPacketAtOnceWhenTheDeviceIsIdle) {
    frame_pool();
    start(0, 1024, std::chrono::seconds(10));
    submit(1);
    engine_->poll();
    engine_->poll();
    EXPECT_EQ(collector_.outcomes.size(), 1u) << "a lone packet waited although the device was idle";
}

TEST_F(Batcher, PutsNoBatchInLineBehindOneThatStillWaitsThere) {
    frame_pool();
    constexpr auto kNap = std::chrono::milliseconds(40);
    const auto thread = std::make_shared<exec::CallThread>();
    const auto nap = [&](void*) { std::this_thread::sleep_for(kNap); };
    exec::CallThread::SubmissionQueue other(thread, nap);
    start(0, 1024, std::chrono::nanoseconds(0), 4, SIZE_MAX, thread);
    other.submit(nullptr);
    for (int i = 0; i < 5; ++i) {
        submit(1);
        engine_->poll();
    }
    while (collector_.outcomes.size() < 5) engine_->poll();
    EXPECT_EQ(batches(), 2u) << "the first packet, and all that came while it waited";
    const uint64_t in_line = exec::to_nanoseconds(
        counters_->stages[static_cast<size_t>(exec::BatchStage::in_line)].get());
    EXPECT_GE(in_line, static_cast<uint64_t>(std::chrono::nanoseconds(kNap).count()) / 2);
}

/// Two other workers' batches: the thread is at the first, and the second waits.
TEST_F(Batcher, PutsNoBatchInLineBehindAnotherWorkersBeforeItsPacketsAreOld) {
    frame_pool();
    for (const auto max_delay : {std::chrono::milliseconds(10'000), std::chrono::milliseconds(10)}) {
        const bool old = max_delay < std::chrono::seconds(1);
        const auto thread = std::make_shared<exec::CallThread>();
        std::atomic<bool> begun{false}, go{false};
        const auto run = [&](void*) {
            begun = true;
            while (!go) std::this_thread::yield();
        };
        exec::CallThread::SubmissionQueue first(thread, run), second(thread, run);
        collector_.outcomes.clear();
        start(0, 1024, max_delay, 4, SIZE_MAX, thread);
        first.submit(nullptr);
        while (!begun) std::this_thread::yield();
        EXPECT_FALSE(second.line()) << "the thread is at it";
        second.submit(nullptr);
        EXPECT_TRUE(first.line()) << "who looks doesn't matter";
        for (int i = 0; i < 5; ++i) {
            submit(1);
            if (old) std::this_thread::sleep_for(2 * max_delay);
            engine_->poll();
        }
        go = true;
        while (collector_.outcomes.size() < 5) engine_->poll();
        expect_work(work_, {engine_.get()}, *counters_, submitted_);
        EXPECT_EQ(batches(), old ? 2u : 1u)
            << "the first packet gets in line when it is old, and what comes behind it goes together; or all five";
        engine_.reset();
    }
}

TEST_F(Batcher, TellsWhatBatchesGoThrough) {
    frame_pool();
    constexpr uint64_t kNap = 20'000'000;  // ns
    start(3, 1024, std::chrono::seconds(10), 1);
    const uint64_t from = rte_rdtsc();
    submit(1);
    engine_->poll();
    submit(2);  // wait for the first
    std::this_thread::sleep_for(std::chrono::nanoseconds(kNap));
    while (collector_.outcomes.size() < 3) engine_->poll();
    const uint64_t all = exec::to_nanoseconds(rte_rdtsc() - from);
    const auto of = [&](exec::BatchStage stage) {
        return exec::to_nanoseconds(counters_->stages[static_cast<size_t>(stage)].get());
    };
    EXPECT_EQ(batches(), 2u);
    EXPECT_GE(of(exec::BatchStage::waiting), kNap);
    EXPECT_GE(of(exec::BatchStage::round_trip), kNap);
    for (const exec::BatchStage stage : {exec::BatchStage::layout, exec::BatchStage::calls, exec::BatchStage::results})
        EXPECT_GT(of(stage), 0u);
    // The second waited during the round trip of the first.
    uint64_t sum = 0;
    for (const Counter& stage : counters_->stages) sum += exec::to_nanoseconds(stage.get());
    EXPECT_LE(sum, 2 * all);
}

TEST_F(Batcher, FillsABatchWhileBurstsAreFull) {
    frame_pool();
    start(0, 1024, std::chrono::seconds(10), 4, 64);
    const auto turn = [&](size_t packets) {
        if (packets > 0) submit(packets);
        engine_->poll();
        engine_->poll();
        return collector_.outcomes.size();
    };
    submit(64);
    engine_->poll();
    EXPECT_EQ(counters_->bytes_to_device.get(), 0u) << "more was there to be received";
    EXPECT_EQ(turn(0), 64u) << "nothing more was there";
    EXPECT_EQ(turn(63), 127u) << "a burst that is not full says that it was all";
    for (int i = 0; i < 15; ++i) {
        submit(64);
        engine_->poll();
    }
    EXPECT_EQ(batches(), 2u);
    submit(64);
    engine_->poll();
    while (engine_->in_flight() > 0) engine_->poll();
    EXPECT_EQ(batches(), 3u) << "a batch of 1,024 in one piece";
    EXPECT_EQ(collector_.outcomes.size(), 127u + 1024u);
}

TEST_F(Batcher, LetsAFullBurstWaitNoLongerThanMaxDelay) {
    frame_pool();
    start(0, 1024, std::chrono::milliseconds(1), 4, 64);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
    // Full bursts, but few of them.
    submit(64);
    engine_->poll();
    std::this_thread::sleep_until(until);
    submit(64);
    engine_->poll();
    // It has begun; nothing more is submitted. A busy machine takes its time to end it.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (counters_->bytes_to_device.get() == 0 && std::chrono::steady_clock::now() < patience) engine_->poll();
    EXPECT_GT(counters_->bytes_to_device.get(), 0u);
    engine_->drain();
    EXPECT_EQ(collector_.outcomes.size(), 128u);
}

TEST_F(Batcher, GathersWhatComesWhileTheDeviceIsBusyIntoOneBatch) {
    frame_pool();
    start(50, 1024, std::chrono::seconds(10));
    submit(1);
    engine_->poll();
    for (int i = 0; i < 20; ++i) {
        submit(10);
        engine_->poll();
    }
    EXPECT_EQ(batches(), 0u);
    while (engine_->in_flight() > 0) engine_->poll();
    EXPECT_EQ(collector_.outcomes.size(), 201u);
    EXPECT_EQ(batches(), 2u) << "the first packet, and all that came during its round trip";
}

TEST_F(Batcher, SpreadsFewPacketsOverBatchesAtEvenDistances) {
    frame_pool();
    start(0, 1024, std::chrono::seconds(10));
    submit(1);
    engine_->poll();
    while (engine_->in_flight() > 0) engine_->poll();
    // It is known now how long a round trip takes, which is next to nothing: others go while the first is on its way.
    submit(1);
    engine_->poll();
    for (int i = 0; i < 3; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        submit(10);
        engine_->poll();
    }
    engine_->drain();
    EXPECT_EQ(collector_.outcomes.size(), 32u);
    EXPECT_GE(batches(), 4u) << "packets waited for a device that had room";
}

TEST_F(Batcher, SendsAFullBatchToABusyDevice) {
    frame_pool();
    start(1000, 64, std::chrono::seconds(10));
    submit(1);
    engine_->poll();
    submit(64 * 3 + 5);
    engine_->poll();
    while (engine_->in_flight() > 5) engine_->poll();
    engine_->drain();
    EXPECT_EQ(collector_.outcomes.size(), 64u * 3 + 6);
    EXPECT_EQ(batches(), 5u);
}

TEST_F(Batcher, LetsNoPacketWaitBeyondMaxDelay) {
    frame_pool();
    start(UINT64_MAX / 2, 1024, std::chrono::milliseconds(2), 2);
    work_ = Work::fault;  // it never answers
    submit(1);
    engine_->poll();
    submit(3);
    engine_->poll();
    const uint64_t before = counters_->bytes_to_device.get();
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    engine_->poll();
    EXPECT_GT(counters_->bytes_to_device.get(), before) << "packets older than max-delay stayed with the host";
}

TEST_F(Batcher, KeepsTheOrderOfArrivalAcrossBatches) {
    frame_pool();
    start(0, 32, std::chrono::nanoseconds(0));
    for (int i = 0; i < 100; ++i) {
        submit(static_cast<size_t>(i % 40));
        engine_->poll();
    }
    engine_->drain();
    for (size_t i = 0; i < collector_.outcomes.size(); ++i) ASSERT_EQ(collector_.outcomes[i].number, i + 1);
    EXPECT_EQ(collector_.outcomes.size(), number_);
}

}  // namespace
}  // namespace millrace::test
