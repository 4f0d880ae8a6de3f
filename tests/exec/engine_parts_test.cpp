// The parts of an offload engine by themselves: what each does with a batch, without the others.
#include <gtest/gtest.h>
#include <rte_cycles.h>

#include "lab/whole_frames.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/offload/arrivals.hpp"
#include "millrace/exec/offload/chain_loader.hpp"
#include "millrace/exec/offload/completion.hpp"
#include "millrace/exec/offload/fail_over.hpp"
#include "support/engine_runner.hpp"

namespace millrace::exec {
namespace {

using device::Status;
using device::sim::Fault;
using device::sim::SimDevice;
using device::sim::SimOptions;

OffloadOptions small() {
    OffloadOptions options;
    options.depth = 2;
    options.batch_bytes = 1 << 16;
    return options;
}

SimOptions with_faults(std::vector<Fault> faults) {
    SimOptions options;
    options.lag = 0;
    options.faults = std::move(faults);
    return options;
}

/// Of a device that never answers.
const std::vector<Fault> kSilent{{Fault::Kind::slow, 0, UINT64_MAX}};

/// All parts, put together as an engine does.
struct Parts {
    explicit Parts(std::vector<Fault> faults = {}, OffloadOptions with = small(), bool whole_frames = false)
        : device(std::make_shared<SimDevice>(with_faults(std::move(faults)))), options(std::move(with)),
          configuration(whole_frames ? lab::with_whole_frames(test::make_configuration("[mirror]", "sim"))
                                     : test::make_configuration("[mirror]", "sim")),
          program(configuration.chains[0]), counters(*program) {
        test::frame_pool();
        loader.load(program, counters, queue);
    }
    ~Parts() {
        if (!batches.in_flight().empty()) fail_over.run(Status::lost, 0);
    }
    /// Packets that have come now, and wait.
    void receive(size_t packets) {
        const auto frame = test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}}");
        std::vector<rte_mbuf*> mbufs;
        for (size_t i = 0; i < packets; ++i) mbufs.push_back(test::make_mbuf(frame, ++number));
        if (packets > 0) queue.add(mbufs, {});
        queue.arrived(rte_rdtsc(), packets);
    }
    /// Asks for the oldest batch until it is known what became of it.
    Status wait() {
        Status status = Status::pending;
        while (status == Status::pending) status = arrivals.look(*batches.in_flight().front());
        return status;
    }

    std::shared_ptr<SimDevice> device;
    OffloadOptions options;
    chain::Configuration configuration;
    std::shared_ptr<const chain::Program> program;
    ChainCounters counters;
    test::Collector collector{false};
    uint64_t number = 0;
    OrderedState states{device, device->order_gate(), options.patience};
    BatchTimeline timeline{nullptr, device};
    BatchPool batches{device, options, 32, false};
    CpuPath cpu{collector, nullptr, options};
    ChainQueues queues{64};
    ChainQueue& queue = queues.named("chain", false);
    ChainLoader loader{device, device->order_gate(), states, cpu, options, 32};
    BatchLauncher launcher{device, device->order_gate(), batches, states, timeline, nullptr, options};
    Arrivals arrivals{device, states, timeline, options.events, options.patience};
    FailOver fail_over{device, states, launcher, batches, queues, cpu, nullptr};
};

TEST(ChainQueues, KnowEachChainByItsNameAndItsGenerationByItsProgram) {
    Parts parts;
    ChainQueues queues(64);
    ChainQueue& packets = queues.named("a", false);
    ChainQueue& frames = queues.named("a", true);
    ChainQueue& other = queues.named("b", false);
    EXPECT_EQ(queues.size(), 3u);
    EXPECT_TRUE(frames.of_blocks());
    EXPECT_EQ(&queues.named("a", false), &packets);
    EXPECT_EQ(&queues.named("a", true), &frames);
    EXPECT_EQ(&queues.named("b", false), &other);
    EXPECT_EQ(queues.size(), 3u);
    EXPECT_EQ(queues.find(parts.program.get(), false), nullptr) << "it has no generation yet";
    parts.loader.load(parts.program, parts.counters, packets);
    EXPECT_EQ(queues.find(parts.program.get(), false), &packets);
    EXPECT_EQ(queues.find(parts.program.get(), true), nullptr);
    const auto next = std::make_shared<const chain::Program>(*parts.program);
    EXPECT_EQ(queues.find(next.get(), false), nullptr) << "another generation";
    ChainCounters counters(*next);
    parts.loader.load(next, counters, packets);
    EXPECT_EQ(queues.find(next.get(), false), &packets);
    EXPECT_EQ(queues.find(parts.program.get(), false), nullptr);
}

TEST(ChainQueues, FindFramesOfAPortInOtherQueues) {
    ChainQueues queues(64);
    ChainQueue& first = queues.named("a", true);
    ChainQueue& second = queues.named("b", true);
    queues.named("a", false);
    EXPECT_EQ(queues.with_run_of(3, nullptr), nullptr);
    uint8_t memory[64] = {};
    io::FrameSpot spot{};
    io::ReceiveBlock run;
    run.memory = memory;
    run.spots = &spot;
    run.count = 1;
    run.port = 3;
    second.add(run);
    EXPECT_EQ(queues.with_run_of(3, &first), &second);
    EXPECT_EQ(queues.with_run_of(3, &second), nullptr) << "its own may wait";
    EXPECT_EQ(queues.with_run_of(4, &first), nullptr);
}

TEST(BatchLauncher, TakesWhatABatchHoldsWhileThereAreBatches) {
    Parts parts(kSilent);
    EXPECT_FALSE(parts.launcher.is_due(parts.queue, rte_rdtsc(), 0, 0)) << "nothing waits";
    parts.receive(80);
    EXPECT_TRUE(parts.launcher.is_due(parts.queue, rte_rdtsc(), 80, 0));
    EXPECT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    EXPECT_EQ(parts.queue.waiting(), 48u);
    EXPECT_GT(parts.counters.bytes_to_device.get(), 0u) << "the worker has submitted it itself";
    EXPECT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    EXPECT_EQ(parts.batches.in_flight().size(), 2u);
    EXPECT_FALSE(parts.launcher.is_due(parts.queue, rte_rdtsc(), 80, 0)) << "no batch is idle";
    EXPECT_EQ(parts.launcher.launch(parts.queue), std::nullopt);
    EXPECT_EQ(parts.queue.waiting(), 16u) << "they wait on";
}

TEST(BatchLauncher, SaysThatTheDeviceTakesNothing) {
    Parts parts({{Fault::Kind::device_lost, 0}});
    parts.receive(1);
    const std::optional<Status> status = parts.launcher.launch(parts.queue);
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(parts.batches.in_flight().size(), 1u);
    EXPECT_NE(*status == Status::ok ? parts.wait() : *status, Status::ok);
    parts.fail_over.run(Status::lost, 1);
    EXPECT_EQ(parts.collector.outcomes.size(), 1u);
}

TEST(Arrivals, WaitForABatchAndRememberHowLongItTook) {
    Parts parts;
    EXPECT_EQ(parts.arrivals.round_trip(), 0u);
    parts.receive(32);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    Batch& batch = *parts.batches.in_flight().front();
    EXPECT_EQ(batch.state(), Batch::State::submitted);
    ASSERT_EQ(parts.wait(), Status::ok);
    EXPECT_EQ(batch.state(), Batch::State::back);
    EXPECT_GT(parts.arrivals.round_trip(), 0u);
    Completion completion(parts.collector, nullptr, parts.cpu, parts.timeline, 32);
    parts.batches.retire();
    completion.deliver(batch, rte_rdtsc());
    parts.batches.end(batch);
    EXPECT_EQ(parts.collector.outcomes.size(), 32u);
    EXPECT_EQ(parts.counters.retried_on_cpu.get(), 0u);
    EXPECT_EQ(parts.batches.idle(), 2u);
}

TEST(Arrivals, AskForTheFramesOfThoseThatGoOnOnceTheResultsAreHere) {
    OffloadOptions options = small();
    options.transfer_out = TransferOut::selective;
    Parts parts({}, options, true);
    parts.receive(4);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    const Batch& batch = *parts.batches.in_flight().front();
    std::vector<Batch::State> seen{batch.state()};
    for (Status status = Status::pending; status == Status::pending;) {
        status = parts.arrivals.look(*parts.batches.in_flight().front());
        if (seen.back() != batch.state()) seen.push_back(batch.state());
    }
    EXPECT_EQ(seen, (std::vector{Batch::State::submitted, Batch::State::rest, Batch::State::back}));
}

TEST(Arrivals, GiveUpADeviceThatDoesNotAnswer) {
    OffloadOptions options = small();
    options.patience = std::chrono::milliseconds(20);
    Parts parts(kSilent, options);
    parts.receive(1);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    EXPECT_EQ(parts.arrivals.look(*parts.batches.in_flight().front()), Status::pending);
    EXPECT_EQ(parts.wait(), Status::lost);
}

TEST(FailOver, RunsTheBatchesInTheirOrderAndThenThoseThatWait) {
    Parts parts(kSilent);
    parts.receive(70);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    parts.fail_over.run(Status::lost, 70);
    ASSERT_EQ(parts.collector.outcomes.size(), 70u);
    for (size_t i = 0; i < 70; ++i) EXPECT_EQ(parts.collector.outcomes[i].number, i + 1);
    EXPECT_EQ(parts.counters.retried_on_cpu.get(), 70u);
    EXPECT_TRUE(parts.batches.in_flight().empty());
    EXPECT_EQ(parts.queue.waiting(), 0u);
    EXPECT_TRUE(parts.states.broken()) << "no other device may go on from a state that is not known";
}

}  // namespace
}  // namespace millrace::exec
