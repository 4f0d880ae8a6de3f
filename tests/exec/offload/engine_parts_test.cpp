// The parts of an offload engine by themselves: what each does with a batch, without the others.
#include <gtest/gtest.h>
#include <rte_cycles.h>

#include <numeric>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/offload/finish/arrivals.hpp"
#include "millrace/exec/offload/chains/chain_loader.hpp"
#include "millrace/exec/offload/finish/completion.hpp"
#include "millrace/exec/offload/finish/fail_over.hpp"
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
    explicit Parts(std::vector<Fault> faults = {}, OffloadOptions with = small(), const std::string& nfs = "[mirror]")
        : Parts(std::make_shared<SimDevice>(with_faults(std::move(faults))), std::move(with), nfs) {}
    Parts(std::shared_ptr<SimDevice> on, OffloadOptions with, const std::string& nfs)
        : device(std::move(on)), options(std::move(with)), configuration(test::make_configuration(nfs, "sim")),
          program(configuration.chains[0]), counters(*program) {
        test::frame_pool();
        loader.load(program, counters, queue);
        if (!batches.fits(queue.chain->needs)) batches.fit(queue.chain->needs);
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
        while (status == Status::pending) status = arrivals.poll(*batches.in_flight().front());
        return status;
    }

    /// Takes the oldest batch in, which is back.
    void take_in() {
        Completion completion(collector, nullptr, cpu, timeline, 32);
        Batch& batch = *batches.in_flight().front();
        batches.retire();
        completion.deliver(batch, rte_rdtsc());
        batches.end(batch);
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
    parts.take_in();
    EXPECT_EQ(parts.collector.outcomes.size(), 32u);
    EXPECT_EQ(parts.counters.retried_on_cpu.get(), 0u);
    EXPECT_EQ(parts.batches.idle(), 2u);
}

TEST(Arrivals, AskForManyEventsOnceTheResultsAreHere) {
    const std::string rule = "'alert udp any any -> any any (msg:\"x\"; sid:";
    Parts parts(std::vector<Fault>(), small(),
                "[nids: {eve: \"" + testing::TempDir() + "arrivals.json\", rule: [" + rule + "1;)', " + rule +
                    "2;)', " + rule + "3;)']}]");
    parts.receive(32);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    const Batch& batch = *parts.batches.in_flight().front();
    std::vector<Batch::State> seen{batch.state()};
    for (Status status = Status::pending; status == Status::pending;) {
        status = parts.arrivals.poll(*parts.batches.in_flight().front());
        if (seen.back() != batch.state()) seen.push_back(batch.state());
    }
    EXPECT_EQ(seen, (std::vector{Batch::State::submitted, Batch::State::rest, Batch::State::back}));
    EXPECT_GT(batch.results().stored_events(), kEagerEvents);
}

TEST(Arrivals, GiveUpADeviceThatDoesNotAnswer) {
    OffloadOptions options = small();
    options.patience = std::chrono::milliseconds(20);
    Parts parts(kSilent, options);
    parts.receive(1);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    EXPECT_EQ(parts.arrivals.poll(*parts.batches.in_flight().front()), Status::pending);
    EXPECT_EQ(parts.wait(), Status::lost);
}

/// Remembers the steps that were launched; it takes its time for each.
class NotingDevice : public SimDevice {
public:
    Status launch(device::StreamId stream, const device::LoadedProgram& program, size_t step,
                  const device::BatchView& batch) override {
        steps.push_back(step);
        return SimDevice::launch(stream, program, step, batch);
    }
    std::vector<size_t> steps;
};

TEST(LongBatches, HaveTheirOrderedKernelsLaunchedOnceTheOthersAreDone) {
    const auto device = std::make_shared<NotingDevice>();
    OffloadOptions options = small();
    options.long_batch_bytes = 0;
    Parts parts(device, options, "[policer: {per: flow, rate: 1Gbps}, mirror]");
    const LoadedChain& chain = *parts.queue.chain;
    ASSERT_GT(chain.ordered_from, 0u);
    ASSERT_LT(chain.ordered_from, chain.ordered_to);
    parts.receive(32);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    const Batch& batch = *parts.batches.in_flight().front();
    EXPECT_EQ(batch.state(), Batch::State::half);
    EXPECT_EQ(device->steps.size(), chain.ordered_from);
    unsigned asked = 0;
    while (batch.state() == Batch::State::half) {
        ASSERT_EQ(device->steps.size(), chain.ordered_from) << "a kernel with an order was launched too early";
        ASSERT_EQ(parts.arrivals.poll(*parts.batches.in_flight().front()), Status::pending);
        ASSERT_EQ(parts.launcher.submit_ordered(), Status::ok);
        ++asked;
    }
    EXPECT_GT(asked, 1u) << "the device was done at once";
    std::vector<size_t> all(chain.loaded->steps().size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(device->steps, all);
    EXPECT_EQ(batch.record().order, 1u);
    ASSERT_EQ(parts.wait(), Status::ok);
    parts.take_in();
    EXPECT_EQ(parts.collector.outcomes.size(), 32u);
    EXPECT_EQ(parts.counters.retried_on_cpu.get(), 0u);
}

TEST(LongBatches, KeepShortOnesBehindThemInOrder) {
    const auto device = std::make_shared<NotingDevice>();
    OffloadOptions options = small();
    options.depth = 4;
    options.long_batch_bytes = 1000;
    Parts parts(device, options, "[policer: {per: flow, rate: 1Gbps}, mirror]");
    for (const size_t packets : {32, 1, 1}) {
        parts.receive(packets);
        ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
        EXPECT_EQ(parts.batches.in_flight().back()->part(), BatchPart::unordered) << packets;
    }
    for (uint64_t order = 1; order <= 3; ++order) {
        const Batch& batch = *parts.batches.in_flight().front();
        while (batch.state() == Batch::State::half) ASSERT_EQ(parts.launcher.submit_ordered(), Status::ok);
        EXPECT_EQ(batch.record().order, order);
        ASSERT_EQ(parts.wait(), Status::ok);
        parts.take_in();
    }
    parts.receive(1);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    EXPECT_EQ(parts.batches.in_flight().back()->part(), BatchPart::all) << "no long one is before it";
    ASSERT_EQ(parts.wait(), Status::ok);
    parts.take_in();
    EXPECT_EQ(parts.collector.outcomes.size(), 35u);
    for (size_t i = 0; i < 35; ++i) EXPECT_EQ(parts.collector.outcomes[i].number, i + 1);
    EXPECT_EQ(parts.counters.retried_on_cpu.get(), 0u);
}

class FailOverOf : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(WholeAndHalves, FailOverOf, testing::Values(OffloadOptions().long_batch_bytes, 0));

TEST_P(FailOverOf, BatchesRunsThemInTheirOrderAndThenThoseThatWait) {
    OffloadOptions options = small();
    options.long_batch_bytes = GetParam();
    Parts parts(kSilent, options, "[policer: {per: flow, rate: 1Gbps}, mirror]");
    parts.receive(70);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    ASSERT_EQ(parts.launcher.launch(parts.queue), Status::ok);
    EXPECT_EQ(parts.batches.in_flight().front()->state(),
              GetParam() == 0 ? Batch::State::half : Batch::State::submitted);
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
