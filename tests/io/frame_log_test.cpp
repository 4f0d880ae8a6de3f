// Memory for contiguous frames of any length.
#include "millrace/io/memory/frame_log.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace millrace::io {
namespace {

TEST(FrameLog, KeepsFramesInOrderAndApartWhateverComesBackWhen) {
    struct Out {
        ReceiveBlock run;
        std::vector<uint8_t> fill;
    };
    std::mt19937 rng(12);
    for (const uint32_t most : {1u, 2u, 7u, 1000u}) {
        FrameLog log(most, 1 << 21);
        std::deque<Out> out;
        uint8_t fill = 0;
        uint64_t frames = 0;
        for (int round = 0; round < 3000; ++round) {
            Out next;
            for (uint32_t want = rng() % 40; want > 0; --want) {
                const auto bytes = static_cast<uint16_t>(rng() % 10 == 0 ? 1 + rng() % 65535 : 14 + rng() % 1500);
                uint8_t* const place = log.add(bytes);
                if (place == nullptr) break;
                ASSERT_EQ(reinterpret_cast<uintptr_t>(place) % kFrameSpacing, 0u);
                ASSERT_GE(place, log.memory().data());
                ASSERT_LE(place + bytes, log.memory().data() + log.memory().size());
                next.fill.push_back(++fill);
                std::fill_n(place, bytes, fill);
            }
            next.run = log.take();
            ASSERT_EQ(next.run.count, next.fill.size());
            frames += next.run.count;
            if (next.run.count > 0) out.push_back(std::move(next));
            while (!out.empty() && (rng() % 3 == 0 || log.out() == most)) {
                const Out& oldest = out.front();
                for (uint32_t i = 0; i < oldest.run.count; ++i) {
                    if (i > 0) {
                        ASSERT_GT(oldest.run.spots[i].offset, oldest.run.spots[i - 1].offset);
                    }
                    for (uint32_t k = 0; k < oldest.run.spots[i].length; k += 13)
                        ASSERT_EQ(oldest.run.data(i)[k], oldest.fill[i]);
                }
                log.give_back(oldest.run.count);
                out.pop_front();
            }
        }
        EXPECT_GT(frames, 1000u) << most;
    }
}

TEST(FrameLog, IsFullWhenNothingComesBackAndEmptyWhenAllHas) {
    FrameLog log(100'000, 1 << 21);
    uint32_t added = 0;
    while (log.add(64) != nullptr) ++added;
    EXPECT_EQ(added, (1u << 21) / 64);
    EXPECT_EQ(log.take().count, added);
    EXPECT_EQ(log.add(1), nullptr);
    log.give_back(added);
    EXPECT_EQ(log.out(), 0u);
    EXPECT_NE(log.add(65535), nullptr);
}

}  // namespace
}  // namespace millrace::io
