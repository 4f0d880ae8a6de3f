// Packets with mbufs of their own on their way through a device: what is known of them without a look at the mbufs, and
// what they leave in.
#include "millrace/exec/offload/finish/carriers.hpp"

#include <gtest/gtest.h>
#include <rte_cycles.h>

#include <algorithm>
#include <set>

#include "millrace/chain/frames/whole_frames.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/offload/chains/chain_queue.hpp"
#include "support/device_work.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {
namespace {

using exec::Carriers;
using exec::ChainQueue;
using exec::MbufRun;

const Frame& frame() {
    static const Frame made = build_packet("{ipv4: {}, udp: {src: 1, dst: 2}}");
    return made;
}

std::vector<rte_mbuf*> make_mbufs(size_t count, uint64_t first_number = 1) {
    std::vector<rte_mbuf*> mbufs;
    for (size_t i = 0; i < count; ++i) mbufs.push_back(make_mbuf(frame(), first_number + i));
    return mbufs;
}

void free_all(const std::vector<rte_mbuf*>& mbufs) {
    for (rte_mbuf* mbuf : mbufs) rte_pktmbuf_free(mbuf);
}

class CarriersTest : public ::testing::Test {
protected:
    void SetUp() override { frame_pool(); }
};

TEST_F(CarriersTest, AreOfferedAgainUntilTheyAreUsedAndGiveOutWhenAllAreOnTheirWay) {
    Carriers carriers;
    const auto first = carriers.offer(Carriers::kAtOnce);
    ASSERT_EQ(first.size(), Carriers::kAtOnce);
    rte_mbuf* const one = first[0];
    EXPECT_EQ(carriers.offer(1)[0], one);
    carriers.used(1);
    EXPECT_NE(carriers.offer(1)[0], one);
    std::vector<rte_mbuf*> out{one};
    while (true) {
        const auto more = carriers.offer(1);
        if (more.empty()) break;
        out.push_back(more[0]);
        carriers.used(1);
    }
    EXPECT_EQ(out.size(), Carriers::kMax);
    EXPECT_EQ(std::set<rte_mbuf*>(out.begin(), out.end()).size(), out.size());
    free_all(out);
    EXPECT_EQ(carriers.offer(1).size(), 1u);
}

TEST_F(CarriersTest, AQueueKnowsWhatItsMbufsShare) {
    ChainQueue queue(false, 64);
    const io::BurstNotes notes{
        .written = false, .first_number = 100, .number_step = 2, .first_ns = 5000, .interval_ns = 10};
    const std::vector<rte_mbuf*> mbufs = make_mbufs(40);
    EXPECT_EQ(queue.add(std::span(mbufs).first(10), notes), 10 * frame().size());
    queue.add(std::span(mbufs).subspan(10, 10), notes.from(10));
    EXPECT_EQ(queue.mbuf_runs().size(), 1u) << "the second goes on where the first ends";
    queue.add(std::span(mbufs).subspan(20, 10), notes.from(40));
    EXPECT_EQ(queue.mbuf_runs().size(), 2u);
    rte_mbuf_refcnt_set(mbufs[35], 2);
    queue.add(std::span(mbufs).subspan(30, 10), {});
    ASSERT_EQ(queue.mbuf_runs().size(), 3u);
    for (size_t run = 0; run < 3; ++run) {
        const MbufRun& own = queue.mbuf_runs()[run];
        EXPECT_EQ(own.pool, run < 2 ? frame_pool().mempool() : nullptr) << run;
        if (run < 2) {
            EXPECT_EQ(reinterpret_cast<uint8_t*>(mbufs[run * 20]) + own.data,
                      rte_pktmbuf_mtod(mbufs[run * 20], uint8_t*));
        }
    }
    for (size_t i = 0; i < 40; ++i) {
        EXPECT_EQ(queue.mbufs()[i], mbufs[i]);
        EXPECT_EQ(queue.shapes()[i].length, frame().size());
    }
    queue.arrived(rte_rdtsc(), 40);
    std::vector<exec::Burst> bursts;
    queue.take(5, bursts);
    queue.write_metadata(18);
    for (size_t i = 0; i < 40; ++i) {
        const bool written = i >= 5 && i < 23;
        EXPECT_EQ(io::packet_number(mbufs[i]), !written ? i + 1 : i < 20 ? 100 + 2 * i : 180 + 2 * (i - 20)) << i;
        if (written && i < 20) {
            EXPECT_EQ(io::packet_timestamp_ns(mbufs[i]), 5000 + 10 * i);
        }
    }
    queue.take(35, bursts);
    EXPECT_TRUE(queue.mbuf_runs().empty());
    EXPECT_EQ(queue.waiting(), 0u);
    rte_mbuf_refcnt_set(mbufs[35], 1);
    free_all(mbufs);
}

TEST_F(CarriersTest, AQueueTakesMoreThanItHasRoomFor) {
    ChainQueue queue(false, 8);
    std::vector<rte_mbuf*> mbufs = make_mbufs(1024);
    std::vector<exec::Burst> bursts;
    size_t first = 0;
    for (size_t added = 0; added < mbufs.size();) {
        const size_t n = std::min<size_t>(100, mbufs.size() - added);
        queue.add(std::span(mbufs).subspan(added, n), {});
        queue.arrived(rte_rdtsc(), n);
        added += n;
        queue.take(37, bursts);
        first += 37;
        ASSERT_EQ(queue.waiting(), added - first);
        ASSERT_TRUE(std::equal(queue.mbufs().begin(), queue.mbufs().end(), mbufs.begin() + first));
    }
    free_all(mbufs);
}

/// Keeps what it is given, until it is told to let go.
class Keeper : public Collector {
public:
    Keeper() : Collector(false) {}
    ~Keeper() override { free_all(kept); }
    void deliver(const chain::Program&, exec::ChainCounters&, rte_mbuf* const* mbufs, const exec::Verdict* verdicts,
                 size_t count) override {
        kept.insert(kept.end(), mbufs, mbufs + count);
        for (size_t i = 0; i < count; ++i) dropped += verdicts[i].target.kind == chain::Target::Kind::drop;
    }
    std::vector<rte_mbuf*> kept;
    size_t dropped = 0;
};

struct Engine {
    explicit Engine(const std::string& nfs = "[mirror]")
        : configuration(chain::with_whole_frames(make_configuration(nfs, "sim"))), program(configuration.chains[0]),
          counters(*program) {
        exec::OffloadOptions options;
        options.batch_bytes = 1 << 20;
        options.depth = 8;  // three times as many batches may wait to be sent
        options.most_waiting = 1 << 14;
        device::sim::SimOptions sim;
        sim.lag = 0;
        engine = std::make_unique<exec::OffloadEngine>(std::make_shared<device::sim::SimDevice>(sim), keeper, 1024,
                                                       options);
    }
    void submit(const std::vector<rte_mbuf*>& mbufs, const io::BurstNotes& notes) {
        engine->submit(program, counters, mbufs.data(), mbufs.size(), notes);
        engine->drain();
    }
    void expect_its_work(uint64_t packets) const { expect_work(Work::device_alone, {engine.get()}, counters, packets); }
    chain::Configuration configuration;
    std::shared_ptr<const chain::Program> program;
    exec::ChainCounters counters;
    Keeper keeper;
    std::unique_ptr<exec::OffloadEngine> engine;
};

TEST_F(CarriersTest, BringWholeFramesOnWithTheirMetadataWhileBuffersGoBackAtOnce) {
    const uint32_t available = frame_pool().available();
    Engine engine;
    const io::BurstNotes notes{
        .written = false, .first_number = 7, .number_step = 3, .first_ns = 1000, .interval_ns = 5};
    for (const size_t count : {1, 31, 32, 33, 127, 128, 129, 1025}) {
        engine.submit(make_mbufs(count), notes);
        ASSERT_EQ(engine.keeper.kept.size(), count);
        EXPECT_EQ(frame_pool().available(), available) << "a receive buffer is still out";
        for (size_t i = 0; i < count; ++i) {
            rte_mbuf* const mbuf = engine.keeper.kept[i];
            ASSERT_NE(mbuf->pool, frame_pool().mempool());
            EXPECT_EQ(io::packet_number(mbuf), 7 + 3 * i);
            EXPECT_EQ(io::packet_timestamp_ns(mbuf), 1000 + 5 * i);
            EXPECT_EQ(mbuf->port, 0u);
            EXPECT_EQ(mbuf->pkt_len, frame().size());
            EXPECT_EQ(rte_mbuf_check(mbuf, 1, nullptr), 0);
            Frame expected = frame();
            std::swap_ranges(expected.begin(), expected.begin() + 6, expected.begin() + 6);  // as mirror does
            ASSERT_EQ(Frame(rte_pktmbuf_mtod(mbuf, uint8_t*), rte_pktmbuf_mtod(mbuf, uint8_t*) + mbuf->data_len),
                      expected);
        }
        free_all(std::exchange(engine.keeper.kept, {}));
    }
    engine.expect_its_work(1 + 31 + 32 + 33 + 127 + 128 + 129 + 1025);
}

TEST_F(CarriersTest, TakeOverMetadataThatPortsHaveWritten) {
    Engine engine;
    engine.submit(make_mbufs(100, 42), {});
    ASSERT_EQ(engine.keeper.kept.size(), 100u);
    for (size_t i = 0; i < 100; ++i) EXPECT_EQ(io::packet_number(engine.keeper.kept[i]), 42 + i);
    engine.expect_its_work(100);
}

TEST_F(CarriersTest, AreDoneWithoutWhereNoneIsLeft) {
    Engine engine;
    constexpr size_t kBurst = 1024;
    for (uint64_t number = 1; number < Carriers::kMax + 2 * kBurst; number += kBurst) {
        engine.submit(make_mbufs(kBurst), {.written = false, .first_number = number});
    }
    ASSERT_EQ(engine.keeper.kept.size(), Carriers::kMax + 2 * kBurst);
    size_t carried = 0;
    for (size_t i = 0; i < engine.keeper.kept.size(); ++i) {
        carried += engine.keeper.kept[i]->pool != frame_pool().mempool();
        ASSERT_EQ(io::packet_number(engine.keeper.kept[i]), i + 1);
    }
    EXPECT_GT(carried, Carriers::kMax - Carriers::kAtOnce);
    EXPECT_LE(carried, Carriers::kMax);
    engine.expect_its_work(engine.keeper.kept.size());
}

TEST_F(CarriersTest, AreNotForPacketsThatOthersHold) {
    const uint32_t available = frame_pool().available();
    Engine engine;
    const std::vector<rte_mbuf*> mbufs = make_mbufs(40);
    rte_mbuf_refcnt_set(mbufs[3], 2);
    engine.submit(mbufs, {.written = false, .first_number = 1});
    EXPECT_EQ(engine.keeper.kept, mbufs);
    EXPECT_EQ(frame_pool().available(), available - 40);
    for (size_t i = 0; i < 40; ++i) EXPECT_EQ(io::packet_number(mbufs[i]), i + 1);
    engine.expect_its_work(40);
    free_all(std::exchange(engine.keeper.kept, {}));
    rte_pktmbuf_free(mbufs[3]);
    EXPECT_EQ(frame_pool().available(), available);
}

}  // namespace
}  // namespace millrace::test
