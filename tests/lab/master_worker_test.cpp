// An engine on a thread of its own: order, draining, and an engine that dies.
#include "lab/compared/master_worker.hpp"

#include <gtest/gtest.h>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/io/metadata.hpp"
#include "support/device_work.hpp"
#include "support/devices.hpp"
#include "support/packet_builder.hpp"
#include "support/test_chain.hpp"

namespace millrace::test {
namespace {

/// Counts packets whose flow they do not follow in order.
class OrderWatch : public exec::Delivery {
public:
    void deliver(const chain::Program&, exec::ChainCounters&, rte_mbuf* const* mbufs, const exec::Verdict*,
                 size_t count) override {
        for (size_t i = 0; i < count; ++i) wrong += io::packet_number(mbufs[i]) != ++seen;
        rte_pktmbuf_free_bulk(const_cast<rte_mbuf**>(mbufs), static_cast<unsigned>(count));
    }
    uint64_t seen = 0, wrong = 0;
};

TEST(HandOver, KeepsTheOrderAndComesBackWithAllPacketsHoweverSlowTheWorkerIs) {
    frame_pool();
    const chain::Configuration mirror = make_configuration("[mirror]", "sim");
    exec::ChainCounters counters(*mirror.chains[0]);
    OrderWatch watch;
    lab::HandOverEngine engine(
        watch,
        [](exec::Delivery& delivery) {
            exec::OffloadOptions options;
            options.batch_bytes = 1 << 20;
            return std::make_unique<exec::OffloadEngine>(open_device("sim"), delivery, 512, options);
        },
        std::nullopt);
    const Frame frame = build_packet("{ipv4: {}, udp: {src: 1, dst: 2}}");
    uint64_t number = 0;
    // More than its lists hold, in bursts of all lengths.
    for (size_t burst = 1; number < 60'000; burst = burst % 600 + 7) {
        while (engine.in_flight() + burst > 6000) engine.poll();
        std::vector<rte_mbuf*> mbufs;
        for (size_t i = 0; i < burst; ++i) mbufs.push_back(make_mbuf(frame, ++number));
        engine.submit(mirror.chains[0], counters, mbufs.data(), mbufs.size());
    }
    engine.drain();
    EXPECT_EQ(engine.describe().find("failed"), std::string::npos) << engine.describe();
    claim_device_work();
    EXPECT_EQ(watch.seen, number);
    EXPECT_EQ(watch.wrong, 0u);
    EXPECT_EQ(counters.received_packets.get(), number);
}

TEST(HandOver, IsDrainedWhenItsEngineHasCountedWhatItDelivered) {
    struct SlowToCount : exec::Engine {
        explicit SlowToCount(exec::Delivery& delivery) : delivery_(delivery) {}
        void submit(const std::shared_ptr<const chain::Program>& program, exec::ChainCounters& counters,
                    rte_mbuf* const* mbufs, size_t count) override {
            const std::vector<exec::Verdict> verdicts(count);
            delivery_.deliver(*program, counters, mbufs, verdicts.data(), count);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            counters.batches.add(1);
        }
        void poll() override {}
        size_t in_flight() const override { return 0; }
        void drain() override {}
        std::string describe() const override { return "slow to count"; }
        exec::Delivery& delivery_;
    };
    struct Nobody : exec::Delivery {
        void deliver(const chain::Program&, exec::ChainCounters&, rte_mbuf* const*, const exec::Verdict*,
                     size_t) override {}
    } nobody;
    const chain::Configuration mirror = make_configuration("[mirror]", "cpu");
    exec::ChainCounters counters(*mirror.chains[0]);
    lab::HandOverEngine engine(
        nobody, [](exec::Delivery& delivery) { return std::make_unique<SlowToCount>(delivery); }, std::nullopt);
    rte_mbuf* const mbufs[2] = {};
    for (uint64_t batches = 1; batches <= 5; ++batches) {
        engine.submit(mirror.chains[0], counters, mbufs, 2);
        engine.drain();
        EXPECT_EQ(engine.in_flight(), 0u);
        EXPECT_EQ(counters.batches.get(), batches);
    }
}

TEST(HandOver, TellsTheMasterWhatItsEngineDiedOf) {
    struct Dying : exec::Engine {
        void submit(const std::shared_ptr<const chain::Program>&, exec::ChainCounters&, rte_mbuf* const*,
                    size_t) override {}
        void poll() override { throw std::runtime_error("no memory left"); }
        size_t in_flight() const override { return 0; }
        void drain() override {}
        std::string describe() const override { return "dying"; }
    };
    const chain::Configuration mirror = make_configuration("[mirror]", "cpu");
    exec::ChainCounters counters(*mirror.chains[0]);
    OrderWatch watch;
    lab::HandOverEngine engine(watch, [](exec::Delivery&) { return std::make_unique<Dying>(); }, std::nullopt);
    engine.submit(mirror.chains[0], counters, nullptr, 0);
    EXPECT_THROW(
        {
            while (true) engine.poll();
        },
        std::runtime_error);
}

TEST(HandOver, RefusesACoreThatIsNotThere) {
    const chain::Configuration mirror = make_configuration("[mirror]", "cpu");
    exec::ChainCounters counters(*mirror.chains[0]);
    OrderWatch watch;
    lab::HandOverEngine engine(
        watch, [](exec::Delivery& delivery) { return std::make_unique<exec::CpuEngine>(delivery); }, 100'000);
    EXPECT_THROW(engine.submit(mirror.chains[0], counters, nullptr, 0), std::runtime_error);
}

}  // namespace
}  // namespace millrace::test
