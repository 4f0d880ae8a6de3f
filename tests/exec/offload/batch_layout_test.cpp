// Where the frames and arrays of a batch lie: values, checked without an engine or a device.
#include <gtest/gtest.h>

#include <random>

#include "millrace/exec/offload/memory/frame_layout.hpp"
#include "millrace/exec/offload/memory/piece_layout.hpp"

namespace millrace::test {
namespace {

using exec::FrameLayout;
using exec::FramePlacer;
using exec::FrameRoom;
using exec::PieceLayout;
using exec::PieceNeeds;

constexpr size_t kMax = 1024;
constexpr size_t kManyBytes = size_t{1} << 20;
constexpr ptrdiff_t kPitch = 2048;
constexpr FrameRoom kHeads{.prefix = 64, .headroom = 0, .tailroom = 0};
constexpr FrameRoom kWhole{.prefix = chain::kWholeFrame, .headroom = 20, .tailroom = 12};

struct Received {
    const uint8_t* data;
    uint16_t length, port;
};

/// Lays frames of these lengths out, which lie at one distance in memory.
struct Laid {
    std::vector<device::FrameDescriptor> descriptors = std::vector<device::FrameDescriptor>(kMax);
    FrameLayout layout;

    Laid(const std::vector<uint16_t>& lengths, const FrameRoom& room, size_t most_packets = kMax,
         size_t most_bytes = kManyBytes) {
        static const uint8_t memory[kMax] = {};  // nobody reads it
        FramePlacer placer(descriptors.data(), room, most_packets, most_bytes, false);
        placer.expect(kPitch);
        placer.add(lengths.size(), [&](uint32_t i) { return Received{memory + i * kPitch, lengths[i], 7}; });
        layout = placer.layout();
    }
};

TEST(FrameLayoutTest, NoFramesTakeNothing) {
    const Laid laid({}, kHeads);
    EXPECT_EQ(laid.layout.count, 0u);
    EXPECT_EQ(laid.layout.bytes, 0u);
    EXPECT_EQ(laid.layout.crossing, 0u);
}

TEST(FrameLayoutTest, WholeFramesHaveTheRoomThatTheyAskFor) {
    const Laid laid({60, 1514, 61}, kWhole);
    ASSERT_EQ(laid.layout.count, 3u);
    EXPECT_EQ(laid.layout.crossing, 60u + 1514u + 61u);
    EXPECT_EQ(laid.layout.widest, 1514u);
    EXPECT_EQ(laid.layout.spacing, 0u) << "they lie unevenly";
    EXPECT_EQ(laid.layout.runs, 1u);
    EXPECT_EQ(laid.layout.pitch, kPitch);
    EXPECT_EQ(laid.layout.room.headroom, kWhole.headroom);
    uint32_t end = 0;  // of the frame before, and the room behind it
    for (size_t i = 0; i < 3; ++i) {
        const device::FrameDescriptor& frame = laid.descriptors[i];
        EXPECT_GE(frame.offset, end + kWhole.headroom) << i;
        EXPECT_EQ(frame.present, frame.length);
        EXPECT_EQ(frame.in_port, 7);
        end = frame.offset + frame.length + kWhole.tailroom;
    }
    EXPECT_LE(end, laid.layout.bytes + kWhole.headroom);
}

TEST(FrameLayoutTest, HeadsLieEvenly) {
    const Laid laid({60, 1514, 64}, kHeads);
    EXPECT_EQ(laid.layout.spacing, 64u);
    EXPECT_EQ(laid.layout.bytes, 3 * 64u);
    EXPECT_EQ(laid.layout.crossing, 60u + 64u + 64u);
    EXPECT_EQ(laid.descriptors[1].present, 64u);
    EXPECT_EQ(laid.descriptors[1].length, 1514u);
}

TEST(FrameLayoutTest, TakesAsManyAsThereIsRoomFor) {
    const std::vector<uint16_t> ten(10, 60);
    for (const size_t most : {0, 1, 9, 10, 11}) {
        EXPECT_EQ(Laid(ten, kHeads, most).layout.count, std::min<size_t>(most, 10));
        EXPECT_EQ(Laid(ten, kHeads, kMax, most * 64).layout.count, std::min<size_t>(most, 10));
    }
    EXPECT_EQ(Laid(ten, kHeads, kMax, 3 * 64 - 1).layout.count, 2u);
}

/// A run of frames is laid out as the same frames one by one, whether they are alike or not.
TEST(FrameLayoutTest, RunsLieAsTheirFramesWould) {
    std::vector<io::FrameSpot> spots;
    for (uint32_t i = 0; i < 40; ++i)
        spots.push_back(
            {.offset = i * 1536 + (i > 30 ? 64 : 0), .length = static_cast<uint16_t>(i < 20 ? 60 : 60 + i)});
    static const uint8_t memory[64] = {};  // nobody reads it
    const io::ReceiveBlock run{.memory = memory, .spots = spots.data(), .count = 40, .port = 3};
    for (const FrameRoom& room : {kHeads, kWhole})
        for (const size_t most : {0, 1, 7, 8, 19, 20, 39, 40})
            for (const size_t most_bytes : {size_t{64} * 12, kManyBytes}) {
                std::vector<device::FrameDescriptor> of_run(kMax), of_frames(kMax);
                FramePlacer at_once(of_run.data(), room, most, most_bytes, true),
                    each(of_frames.data(), room, most, most_bytes, true);
                at_once.expect(1536);
                each.expect(1536);
                EXPECT_EQ(at_once.add(run),
                          each.add(40, [&](uint32_t i) { return Received{run.data(i), spots[i].length, run.port}; }));
                const FrameLayout a = at_once.layout(), b = each.layout();
                ASSERT_EQ(a.count, b.count) << most;
                EXPECT_EQ(a.bytes, b.bytes);
                EXPECT_EQ(a.crossing, b.crossing);
                EXPECT_EQ(a.widest, b.widest);
                EXPECT_EQ(a.runs, b.runs);
                if (a.count > 0) {
                    EXPECT_EQ(a.spacing, b.spacing);
                }
                for (size_t i = 0; i < a.count; ++i) EXPECT_EQ(of_run[i].offset, of_frames[i].offset) << i;
            }
}

/// Frames of mbufs are laid out as the same frames one by one, however many of them wide instructions take at once.
TEST(FrameLayoutTest, MbufsLieAsTheirFramesWould) {
    std::mt19937 random(5);
    std::vector<rte_mbuf*> mbufs(kMax + 1);
    std::vector<exec::MbufShape> shapes(mbufs.size());
    constexpr ptrdiff_t kData = 256;
    for (const bool even : {false, true})
        for (const size_t count : {0, 1, 15, 16, 17, 31, 32, 33, 100, 1023, 1024, 1025}) {
            uint64_t address = 0x7f00'0000'0000;
            for (size_t i = 0; i < count; ++i) {
                mbufs[i] = reinterpret_cast<rte_mbuf*>(address);  // nobody looks at it
                address += random() % 50 == 0 ? 3 * kPitch : kPitch;
                shapes[i] = {static_cast<uint16_t>(even ? 64 : 60 + random() % 1500),
                             static_cast<uint16_t>(even ? 3 : random())};
            }
            const exec::MbufFrames frames{mbufs.data(), shapes.data(), count, kData};
            for (const FrameRoom& room : {kHeads, kWhole})
                for (const size_t most_bytes : {size_t{0}, size_t{64} * 12, size_t{30'000}, kManyBytes}) {
                    std::vector<device::FrameDescriptor> at_once(kMax), each(kMax);
                    FramePlacer placer(at_once.data(), room, kMax, most_bytes, false),
                        other(each.data(), room, kMax, most_bytes, false);
                    placer.expect(kPitch);
                    other.expect(kPitch);
                    const auto frame = [&](uint32_t i) {
                        return Received{frames.frame(i), shapes[i].length, shapes[i].port};
                    };
                    ASSERT_EQ(placer.add(frames), other.add(count, frame)) << count;
                    const FrameLayout a = placer.layout(), b = other.layout();
                    ASSERT_EQ(a.count, b.count) << count;
                    EXPECT_EQ(a.bytes, b.bytes);
                    EXPECT_EQ(a.crossing, b.crossing);
                    EXPECT_EQ(a.widest, b.widest);
                    EXPECT_EQ(a.runs, b.runs) << count;
                    if (a.count > 0) {
                        EXPECT_EQ(a.spacing, b.spacing);
                    }
                    ASSERT_EQ(std::memcmp(at_once.data(), each.data(), a.count * sizeof each[0]), 0) << count;
                }
        }
}

TEST(LandingsTest, NeighboursLandTogether) {
    static const uint8_t memory[4096] = {};
    exec::StagedRanges staged_ranges;
    EXPECT_EQ(staged_ranges.bytes(), 0u);
    staged_ranges.add(memory, 100, 0);
    staged_ranges.add(memory + 128, 100, 1);  // less than kFrameSpacing behind it
    ASSERT_EQ(staged_ranges.all().size(), 1u);
    EXPECT_EQ(staged_ranges.bytes(), 228u) << "with the gap";
    staged_ranges.add(memory + 228 + io::kFrameSpacing, 10, 2);
    ASSERT_EQ(staged_ranges.all().size(), 2u);
    EXPECT_EQ(staged_ranges.all()[1].at, PieceLayout::aligned(228));
    EXPECT_EQ(staged_ranges.all()[1].first, 2u);
    staged_ranges.add(memory, 10, 3);  // before it
    EXPECT_EQ(staged_ranges.all().size(), 3u);
    staged_ranges.clear();
    EXPECT_EQ(staged_ranges.bytes(), 0u);
}

/// Calls check(needs) for pieces of all kinds.
template <class Check>
void for_each_piece(const Check& check) {
    for (const size_t n : {0, 1, 63, 64, 65, 1023, 1024})
        for (const uint32_t back : {0u, 64u, exec::kMaxPrefix, chain::kWholeFrame})
            for (const unsigned flags : {0u, 1u, 2u, 4u, 8u, 15u}) {
                PieceNeeds needs;
                needs.packets = n;
                needs.frames_bytes = n * 136;
                needs.prefix_back = back;
                needs.heads_home = flags & 1 && back != chain::kWholeFrame;
                needs.sources = flags & 2;
                needs.events = flags & 4;
                needs.staging_bytes = flags & 8 ? needs.frames_bytes : 0;
                if (flags & 4) needs.chain = {.state_bytes = 4000, .emitters = 2, .keepers = 1, .counters = 64000};
                check(needs);
            }
}

TEST(PieceLayoutTest, ArraysLieOneBehindTheOther) {
    for_each_piece([](const PieceNeeds& needs) {
        const PieceLayout piece(needs);
        const size_t n = needs.packets;
        const bool whole = needs.prefix_back == chain::kWholeFrame;
        for (const size_t at : {piece.sources_at, piece.head_at, piece.back_at, piece.results_at, piece.snapshot_at,
                                piece.events_at, piece.left_at, piece.frames_at, piece.staging_at, piece.kept_at})
            EXPECT_EQ(at % PieceLayout::kAlign, 0u);
        EXPECT_GE(piece.sources_at, n * sizeof(device::FrameDescriptor));
        EXPECT_GE(piece.head_at, piece.sources_at + (needs.sources ? n * sizeof(uint64_t) : 0));
        EXPECT_GE(piece.back_at, piece.head_at + PieceLayout::head_of(needs.chain.counters));
        EXPECT_GE(piece.results_at, piece.back_at + (whole              ? needs.frames_bytes
                                                     : needs.heads_home ? 0
                                                                        : n * needs.prefix_back));
        EXPECT_GE(piece.snapshot_at, piece.results_at + n * sizeof(device::PacketResult));
        EXPECT_GE(piece.events_at, piece.snapshot_at + needs.chain.state_bytes);
        EXPECT_GE(piece.left_at, piece.events_at + (needs.events ? exec::event_room(n) * sizeof(Event) : 0));
        const size_t left_end = piece.left_at + n * needs.chain.emitters * sizeof(LeftEvents);
        if (whole) {
            EXPECT_EQ(piece.frames_at, piece.back_at) << "frames come back with the rest";
        } else {
            EXPECT_GE(piece.frames_at, left_end);
        }
        EXPECT_GE(piece.staging_at, whole ? left_end : piece.frames_at + needs.frames_bytes);
        EXPECT_GE(piece.kept_at, piece.staging_at + needs.staging_bytes);
        EXPECT_EQ(piece.bytes, piece.kept_at + piece.kept_bytes);
        EXPECT_GE(piece.kept_bytes, needs.chain.keepers * needs.frames_bytes);
    });
}

TEST(PieceLayoutTest, TakesNoMoreThanItIsSaidToAtMost) {
    for_each_piece([](const PieceNeeds& needs) {
        const PieceLayout piece(needs);
        const size_t n = needs.packets, staging = needs.staging_bytes > 0;
        EXPECT_LE(piece.input_bytes(), PieceLayout::most_input(n));
        EXPECT_LE(piece.bytes, (1 + staging + needs.chain.keepers) * needs.frames_bytes +
                                   PieceLayout::most_beside_frames(n, needs.chain));
        // What comes back ends with the first events, or with heads that a kernel writes behind them.
        const size_t heads_end = needs.heads_home ? piece.heads_at + n * needs.prefix_back : 0;
        const size_t events_end = piece.events_at + exec::kEagerEvents * sizeof(Event);
        EXPECT_LE(std::max(events_end, heads_end) - piece.head_at,
                  needs.frames_bytes + PieceLayout::most_back_beside_frames(n, needs.chain));
    });
}

}  // namespace
}  // namespace millrace::test
