// What a batch's ways of transfer cost: the laws that any figures must obey, and the choice that follows.
#include "millrace/exec/transfer/cost_model.hpp"

#include <gtest/gtest.h>

#include <random>

namespace millrace::test {
namespace {

using exec::BatchShape;
using exec::Estimate;
using exec::Pace;
using exec::TransferFigures;
using exec::TransferIn;
using exec::TransferOut;

double between(std::mt19937& random, double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
}

Pace random_pace(std::mt19937& random) {
    return {between(random, 0, 1e4), between(random, 0, 50), between(random, 0.001, 2)};
}

TransferFigures random_figures(std::mt19937& random) {
    TransferFigures f;
    for (Pace* pace : {&f.copy_in, &f.copy_out, &f.rows, &f.gather, &f.zero_copy, &f.heads_out, &f.pack})
        *pace = random_pace(random);
    f.copy_both = between(random, 1, 2);
    f.gather_both = between(random, 1, 2);
    f.call_ns = between(random, 1, 1e4);
    f.launch_ns = between(random, 1, 1e4);
    f.packet_ns = between(random, 0, 100);
    return f;
}

/// `packets` frames of `bytes` that lie in order and come back whole, or not at all.
BatchShape frames(size_t packets, uint32_t bytes, bool back) {
    BatchShape shape;
    shape.packets = packets;
    shape.bytes_in = shape.packed_bytes = packets * bytes;
    shape.row_bytes = bytes;
    shape.changes = shape.whole_back = back;
    shape.bytes_back = back ? packets * bytes : 0;
    return shape;
}

BatchShape random_shape(std::mt19937& random) {
    BatchShape shape = frames(1 + random() % 10000, 1 + random() % 2000, random() % 2 == 0);
    shape.packed_bytes += random() % 1000 * shape.packets;
    if (random() % 3 == 0) shape.row_bytes = 0;
    shape.runs = 1 + random() % shape.packets;
    shape.reachable = random() % 4 != 0;
    if (shape.changes) shape.whole_back = random() % 2 == 0;
    shape.workers = 1 + random() % 16;
    return shape;
}

TEST(CostModel, PacksContiguousFramesWithoutTheCpu) {
    const TransferFigures& figures = exec::built_in_figures();
    BatchShape shape = frames(8192, 64, true);
    const Estimate packed = estimate(figures, shape, TransferIn::packed);
    shape.contiguous_bytes = 8192 * 64;
    const Estimate together = estimate(figures, shape, TransferIn::packed);
    EXPECT_LT(together.cpu_ns, packed.cpu_ns / 3);
    // With workers enough the bus is what counts, and one copy takes it the least.
    for (const uint32_t bytes : {64u, 128u, 512u}) {
        shape = frames(8192, bytes, true);
        shape.contiguous_bytes = shape.bytes_in;
        shape.workers = 6;
        EXPECT_EQ(choose_in(figures, shape), TransferIn::packed) << bytes;
    }
    shape.fits_staging = false;
    EXPECT_NE(estimate(figures, shape, TransferIn::packed).obstacle, nullptr);
    EXPECT_NE(choose_in(figures, shape), TransferIn::packed);
}

TEST(CostModel, TakesLongerForMoreBytesAndMorePackets) {
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
        const TransferFigures figures = random_figures(random);
        const BatchShape less = random_shape(random);
        BatchShape more = less;
        const size_t packets = random() % 100, bytes = random() % 100;
        more.packets += packets;
        more.bytes_in += bytes * more.packets;
        more.packed_bytes += bytes * more.packets;
        if (more.row_bytes != 0) more.row_bytes += static_cast<uint32_t>(bytes);
        for (const TransferIn way : exec::kTransfersIn) {
            const Estimate a = estimate(figures, less, way), b = estimate(figures, more, way);
            EXPECT_LE(a.bus_ns, b.bus_ns * (1 + 1e-9)) << name_of(way);
            EXPECT_LE(a.cpu_ns, b.cpu_ns * (1 + 1e-9)) << name_of(way);
            EXPECT_LE(a.cost_ns(less.workers), b.cost_ns(less.workers) * (1 + 1e-9)) << name_of(way);
        }
        more = less;
        more.packets += packets;
        more.bytes_back += bytes;
        for (const TransferOut way : exec::kTransfersOut)
            EXPECT_LE(estimate(figures, less, way).cost_ns(less.workers),
                      estimate(figures, more, way).cost_ns(less.workers) * (1 + 1e-9))
                << name_of(way);
    }
}

TEST(CostModel, TakesTheCheapestOfThePossibleWays) {
    std::mt19937 random(2);
    size_t taken[std::size(exec::kTransfersIn)] = {};
    for (int i = 0; i < 20000; ++i) {
        const TransferFigures figures = random_figures(random);
        const BatchShape shape = random_shape(random);
        const TransferIn chosen = choose_in(figures, shape);
        ASSERT_NE(chosen, TransferIn::automatic);
        ASSERT_EQ(estimate(figures, shape, chosen).obstacle, nullptr);
        ++taken[static_cast<size_t>(chosen)];
        const double cost = estimate(figures, shape, chosen).cost_ns(shape.workers);
        for (const TransferIn way : {TransferIn::packed, TransferIn::rows, TransferIn::gather, TransferIn::zero_copy})
            if (const Estimate other = estimate(figures, shape, way); other.obstacle == nullptr) {
                EXPECT_LE(cost, other.cost_ns(shape.workers)) << name_of(way);
            }
        const TransferOut back = choose_out(figures, shape);
        ASSERT_NE(back, TransferOut::automatic);
        const double cost_back = estimate(figures, shape, back).cost_ns(shape.workers);
        for (const TransferOut way : {TransferOut::region, TransferOut::zero_copy})
            if (const Estimate other = estimate(figures, shape, way); other.obstacle == nullptr) {
                EXPECT_LE(cost_back, other.cost_ns(shape.workers)) << name_of(way);
            }
    }
    for (const TransferIn way : {TransferIn::packed, TransferIn::rows, TransferIn::gather, TransferIn::zero_copy})
        EXPECT_GT(taken[static_cast<size_t>(way)], 100u)
            << name_of(way) << " is never the cheapest: the test says little";
}

TEST(CostModel, CountsWhatIsScarcer) {
    const Estimate bus{nullptr, 1000, 800}, cpu{nullptr, 800, 1000};
    EXPECT_DOUBLE_EQ(bus.cost_ns(1), 1100);
    EXPECT_DOUBLE_EQ(cpu.cost_ns(1), 1100);
    EXPECT_TRUE(bus.bus_bound(1));
    EXPECT_FALSE(cpu.bus_bound(1));
    EXPECT_TRUE(cpu.bus_bound(2)) << "two cores have half of the work each";
    EXPECT_DOUBLE_EQ(cpu.cost_ns(2), 800 + 500.0 / 8);
    EXPECT_DOUBLE_EQ(bus.cost_ns(0), bus.cost_ns(1));
}

TEST(CostModel, GathersSmallFramesAndCopiesRowsOfLargeOnesOnAnH200) {
    const TransferFigures& figures = exec::built_in_figures();
    for (const bool back : {false, true}) {
        size_t crossings = 0;
        // With few workers their CPUs are what is scarce, and all but packing costs those about the same.
        const auto on_many = [&](uint32_t bytes) {
            BatchShape shape = frames(8192, bytes, back);
            shape.workers = 12;
            return choose_in(figures, shape);
        };
        TransferIn before = on_many(16);
        EXPECT_EQ(before, TransferIn::gather);
        uint32_t at = 0;
        for (uint32_t bytes = 16; bytes <= 2048; bytes += 2) {
            const TransferIn way = on_many(bytes);
            if (way == before) continue;
            ++crossings;
            at = bytes;
            before = way;
        }
        EXPECT_EQ(before, TransferIn::rows);
        EXPECT_EQ(crossings, 1u) << "from the one to the other, and no way back";
        EXPECT_GE(at, 64u);
        EXPECT_LE(at, 256u) << "measured: rows carry as much as one run from 256 bytes up";
    }
}

TEST(CostModel, LeavesRowsWhereRunsAreShort) {
    BatchShape shape = frames(8192, 1518, true);
    EXPECT_EQ(choose_in(exec::built_in_figures(), shape), TransferIn::rows);
    shape.runs = 4096;
    EXPECT_EQ(choose_in(exec::built_in_figures(), shape), TransferIn::gather);
    shape.reachable = false;
    EXPECT_EQ(choose_in(exec::built_in_figures(), shape), TransferIn::packed);
}

TEST(CostModel, TakesAnotherWayWhereTheOneThatIsAskedForCannotBeTaken) {
    const TransferFigures& figures = exec::built_in_figures();
    BatchShape shape = frames(100, 200, true);
    for (const TransferIn way : {TransferIn::packed, TransferIn::rows, TransferIn::gather})
        EXPECT_EQ(way_in(figures, shape, way), way);
    EXPECT_EQ(way_in(figures, shape, TransferIn::zero_copy), TransferIn::gather) << "whole frames are changed";
    EXPECT_EQ(way_out(figures, shape, TransferOut::zero_copy), TransferOut::region);
    shape.row_bytes = 0;
    EXPECT_EQ(way_in(figures, shape, TransferIn::rows), TransferIn::gather);
    shape.reachable = false;
    EXPECT_EQ(way_in(figures, shape, TransferIn::rows), TransferIn::packed);
    EXPECT_EQ(way_in(figures, shape, TransferIn::gather), TransferIn::packed);
    // Heads that come back are changed in memory of the engine's own, so any buffers will do.
    shape.whole_back = false;
    EXPECT_EQ(way_in(figures, shape, TransferIn::zero_copy), TransferIn::zero_copy);
    EXPECT_EQ(way_out(figures, shape, TransferOut::zero_copy), TransferOut::zero_copy);
    // Where none is changed they are read from the receive buffers.
    shape.changes = false;
    shape.bytes_back = 0;
    EXPECT_EQ(way_in(figures, shape, TransferIn::zero_copy), TransferIn::packed);
    EXPECT_EQ(way_out(figures, shape, TransferOut::zero_copy), TransferOut::region);
    shape.reachable = true;
    EXPECT_EQ(way_in(figures, shape, TransferIn::zero_copy), TransferIn::zero_copy);
    EXPECT_EQ(way_in(figures, shape, TransferIn::automatic), choose_in(figures, shape));
}

}  // namespace
}  // namespace millrace::test
