// Contiguous frames: the ring they lie in, the source that gives them out, the sink that takes them.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "io/support.hpp"
#include "millrace/io/clock.hpp"
#include "millrace/io/memory/frame_ring.hpp"
#include "millrace/io/source/source_port.hpp"

namespace millrace::io {
namespace {

using test::kContiguous;
using test::ports;

TEST(FramesAlike, AreThoseOfOneLengthAtOneDistance) {
    const auto one_by_one = [](const std::vector<FrameSpot>& spots) {
        uint32_t n = 1;
        while (n < spots.size() && spots[n].length == spots[0].length &&
               spots[n].offset - spots[n - 1].offset == spots[1].offset - spots[0].offset)
            ++n;
        return n;
    };
    std::mt19937 rng(71);
    for (uint32_t count = 1; count <= 70; ++count)
        for (uint32_t other = 1; other <= count; ++other)  // the first that differs, by its length or by where it lies;
                                                           // or none does
            for (const bool by_length : {false, true}) {
                std::vector<FrameSpot> spots(count);
                const auto length = static_cast<uint16_t>(rng() % UINT16_MAX),
                           distance = static_cast<uint16_t>(kFrameSpacing * (1 + rng() % 30));
                for (uint32_t i = 0; i < count; ++i) spots[i] = {UINT32_MAX - 70 * 64 * 31 + i * distance, length};
                if (other < count && by_length)
                    spots[other].length = static_cast<uint16_t>(length + (rng() % 2 == 0 ? 1 : -1));
                for (uint32_t i = by_length ? count : other; i < count; ++i) spots[i].offset += kFrameSpacing;
                EXPECT_EQ(frames_alike(spots.data(), count), one_by_one(spots))
                    << count << " frames, differing at " << other;
            }
}

TEST(FrameRing, KeepsFramesApartAndGivesOutEachOnce) {
    std::vector<uint16_t> lengths;
    for (uint32_t i = 0; i < 1000; ++i) lengths.push_back(static_cast<uint16_t>(i * 7 % 1519));
    FrameRing ring(lengths);
    ASSERT_EQ(ring.frames(), 1000u);
    for (uint32_t i = 0; i < 1000; ++i) {
        ASSERT_EQ(reinterpret_cast<uintptr_t>(ring.frame(i)) % kFrameSpacing, 0u);
        ASSERT_GE(ring.frame(i), ring.memory().data());
        ASSERT_LE(ring.frame(i) + lengths[i],
                  i + 1 < 1000 ? ring.frame(i + 1) : ring.memory().data() + ring.memory().size());
    }
    const ReceiveBlock first = ring.take(0, 700);
    EXPECT_EQ(first.count, 700u);
    EXPECT_EQ(first.data(13), ring.frame(13));
    EXPECT_EQ(first.spots[13].length, lengths[13]);
    EXPECT_EQ(ring.take(700, 700).count, 300u) << "a run ends with the ring";
    EXPECT_EQ(ring.take(0, 1).count, 0u) << "all are out";
    ring.give_back(600);
    EXPECT_EQ(ring.take(0, 1000).count, 600u);
    EXPECT_EQ(ring.out(), 1000u);
}

/// All frames of a ring, every fourth of a port from the third on.
ReceiveBlock all_of(FrameRing& ring, uint64_t first_ns, uint64_t interval_ns) {
    ReceiveBlock run = ring.take(0, ring.frames());
    run.first_number = 3;
    run.number_step = 4;
    run.first_ns = first_ns;
    run.interval_ns = interval_ns;
    return run;
}

TEST(ReceiveBlock, PartsKnowTheirNumbersAndTimes) {
    FrameRing ring(std::vector<uint16_t>(10, 64));
    const ReceiveBlock run = all_of(ring, 1000, 50);
    const ReceiveBlock part = run.part(4, 3);
    EXPECT_EQ(part.count, 3u);
    EXPECT_EQ(part.data(1), run.data(5));
    EXPECT_EQ(part.number(1), run.number(5));
    EXPECT_EQ(part.number(1), 23u);
    EXPECT_EQ(part.timestamp_ns(1), 1250u);
}

TEST(ReceiveBlock, JoinsWhatGoesOnWhereItEndsAndNothingElse) {
    FrameRing ring(std::vector<uint16_t>(12, 64));
    const ReceiveBlock all = all_of(ring, 1'000'000, 5000);
    ReceiveBlock run = all.part(0, 4);
    EXPECT_FALSE(run.join(all.part(5, 2))) << "there is a frame between them";
    EXPECT_FALSE(run.join(all.part(0, 4)));
    const auto refused = [&](auto&& change) {
        ReceiveBlock other = all.part(4, 3);
        change(other);
        return !run.join(other) && run.count == 4;
    };
    EXPECT_TRUE(refused([](ReceiveBlock& other) { other.port = 1; }));
    EXPECT_TRUE(refused([](ReceiveBlock& other) { other.memory += 64; }));
    EXPECT_TRUE(refused([](ReceiveBlock& other) { other.first_number += 4; }));
    EXPECT_TRUE(refused([](ReceiveBlock& other) { other.number_step = 1; }));
    EXPECT_TRUE(refused([](ReceiveBlock& other) { other.interval_ns = 4999; }));
    EXPECT_TRUE(refused([](ReceiveBlock& other) { other.first_ns += ReceiveBlock::kMaxShiftNs + 1; }));
    EXPECT_TRUE(refused([](ReceiveBlock& other) { other.first_ns -= ReceiveBlock::kMaxShiftNs + 1; }));
    ReceiveBlock late = all.part(4, 3);
    late.first_ns += ReceiveBlock::kMaxShiftNs;
    ASSERT_TRUE(run.join(late));
    ASSERT_TRUE(run.join(all.part(7, 5)));
    EXPECT_EQ(run.count, 12u);
    for (uint32_t i = 0; i < 12; ++i) {
        EXPECT_EQ(run.data(i), all.data(i));
        EXPECT_EQ(run.number(i), all.number(i));
        EXPECT_EQ(run.timestamp_ns(i), all.timestamp_ns(i));
    }
}

/// All that a source with these options gives out, by number, taken as runs or with mbufs.
std::map<uint64_t, std::vector<uint8_t>> given_out(const std::string& options, bool runs, uint16_t queues,
                                                   const SourceDelivery& sources) {
    const auto made = ports(
        "in: { source: {" + options + "}, queues: " + std::to_string(queues) + " }\nout: { sink: { keep: 100000 } }\n",
        sources);
    Port &in = *made[0], &out = *made[1];
    EXPECT_TRUE(!runs || in.receives_blocks());
    for (bool last = false; !last;) {
        last = in.exhausted();
        for (uint16_t queue = 0; queue < queues; ++queue) {
            if (!runs) {
                rte_mbuf* mbufs[32];
                const uint16_t n = in.receive(queue, mbufs, 32);
                EXPECT_EQ(out.send(0, mbufs, n), n);
                continue;
            }
            const ReceiveBlock run = in.receive_block(queue, 100);
            std::vector<FramePieces> pieces;
            for (uint32_t i = 0; i < run.count; ++i) {
                // In two pieces, as what has a new head.
                const auto head = static_cast<uint16_t>(std::min<uint32_t>(run.spots[i].length, 20 + i));
                pieces.push_back(
                    {run.data(i), run.data(i) + head, head, static_cast<uint16_t>(run.spots[i].length - head), i});
            }
            EXPECT_EQ(out.send_frames(0, run, pieces), pieces.size());
            in.give_back(queue, run.count);
        }
    }
    std::map<uint64_t, std::vector<uint8_t>> frames;
    for (const SunkFrame& frame : dynamic_cast<SinkPort&>(out).sample()) {
        EXPECT_TRUE(frames.emplace(frame.number, frame.bytes).second) << "number " << frame.number << " came twice";
        EXPECT_NE(frame.timestamp_ns, 0u);
        const auto known = dynamic_cast<SourcePort&>(in).frame_of(frame.number);
        EXPECT_EQ(known, frame.bytes) << "the source does not know what it sent as " << frame.number;
    }
    uint64_t bytes = 0;
    for (const auto& [number, frame] : frames) bytes += frame.size();
    EXPECT_EQ(in.counters().received_packets, frames.size());
    EXPECT_EQ(in.counters().received_bytes, bytes);
    EXPECT_EQ(out.counters().sent_bytes, bytes);
    EXPECT_EQ(in.trouble(), "");
    return frames;
}

TEST(ContiguousFrames, SourceGivesTheSameFramesAsInBuffers) {
    for (const std::string options : {"count: 12345, size: imix, flows: 100", "count: 3000, size: 64",
                                      "count: 2000, size: [60, 113, 9000], flows: 3", "count: 1"})
        for (const uint16_t queues : {1, 3}) {
            const auto buffers = given_out(options, false, queues, {});
            EXPECT_EQ(buffers, given_out(options, true, queues, kContiguous)) << options;
            EXPECT_EQ(buffers, given_out(options, false, queues, kContiguous)) << options << ", with mbufs";
        }
}

TEST(ContiguousFrames, SinkCountsHowOldEachFrameIs) {
    constexpr uint32_t kFrames = 10000;
    const uint64_t second = 1'000'000'000, step = 1'000'000;
    const std::vector<uint16_t> lengths(kFrames, 64);
    FrameRing ring(lengths);
    ReceiveBlock run = ring.take(0, kFrames);
    std::vector<FramePieces> all, some;
    for (uint32_t i = 0; i < kFrames; ++i) all.push_back({run.data(i), nullptr, 64, 0, i});
    for (uint32_t i = 0; i < kFrames; i += 1 + i % 3) some.push_back(all[i]);  // others went elsewhere
    for (const uint64_t interval : {step, uint64_t{0}})
        for (const auto* frames : {&all, &some}) {
            const auto made = ports("out: { sink: { latency: true } }\n");
            auto& sink = dynamic_cast<SinkPort&>(*made[0]);
            run.interval_ns = interval;
            const uint64_t now = wall_clock_ns();
            run.first_ns = now - 10 * second;
            Histogram expected;
            for (const FramePieces& frame : *frames) expected.record(now - run.timestamp_ns(frame.index));
            EXPECT_EQ(sink.send_frames(0, run, *frames), frames->size());
            std::array<uint64_t, Histogram::kBuckets> sums{}, own{};
            sink.add_latency_to(sums);
            expected.add_to(own);
            EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), frames->size());
            for (const double percent : {1., 25., 50., 90., 99.}) {
                // It was asked some time later.
                const uint64_t a = Histogram::percentile(own, percent), b = Histogram::percentile(sums, percent);
                EXPECT_GE(b, a) << percent;
                EXPECT_LE(b, (a + second) + (a + second) / 8) << percent;
            }
        }
}

TEST(ContiguousFrames, SourceWaitsForFramesToComeBack) {
    const auto made = ports("in: { source: { size: 64, flows: 16 }, buffers: 64 }\n", kContiguous);
    uint32_t out = 0;
    while (const uint32_t n = made[0]->receive_block(0, 1000).count) out += n;
    EXPECT_GE(out, 64u);
    EXPECT_EQ(made[0]->counters().details.at("pool-empty"), 1u);
    made[0]->give_back(0, 10);
    EXPECT_EQ(made[0]->receive_block(0, 1000).count, 10u);
    EXPECT_FALSE(made[0]->exhausted());
}

TEST(ContiguousFrames, SourceNoticesWhenSomebodyWritesIntoItsFrames) {
    const auto made = ports("in: { source: { size: 64, flows: 16 }, buffers: 64 }\n", kContiguous);
    const std::span<uint8_t> frames = made[0]->memory().back();  // behind the pool's
    std::fill(frames.begin(), frames.end(), uint8_t{0x5a});
    for (int i = 0; i < 200 && !made[0]->exhausted(); ++i) made[0]->give_back(0, made[0]->receive_block(0, 10).count);
    EXPECT_TRUE(made[0]->exhausted());
    EXPECT_NE(made[0]->trouble().find("written into received frame"), std::string::npos) << made[0]->trouble();
}

}  // namespace
}  // namespace millrace::io
