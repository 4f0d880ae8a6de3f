// How many packets are due, by a clock of a thousand ticks a second that only the test moves.
#include "millrace/io/source/pacer.hpp"

#include <gtest/gtest.h>

#include <random>

namespace millrace::io {
namespace {

constexpr double kTicks = 1000;

TEST(Pacer, WithoutARateEverythingIsDue) {
    Pacer pacer(0, 0, kTicks);
    for (const uint32_t wanted : {0u, 1u, 1000u, UINT32_MAX}) EXPECT_EQ(pacer.due(wanted, 1), wanted);
    EXPECT_EQ(pacer.age_ns(0), 0u);
    EXPECT_EQ(pacer.interval_ns(), 0u);
    EXPECT_EQ(pacer.given_up(), 0u);
}

TEST(Pacer, LetsPacketsGoAtTheRateFromTheFirstQuestionOn) {
    Pacer pacer(125, 0, kTicks);  // one in eight ticks
    EXPECT_EQ(pacer.due(5, 1'000'000), 1u) << "the first at once, whatever the clock says";
    pacer.took(1);
    uint32_t sent = 1;
    for (uint64_t tick = 1; tick <= 1000; ++tick) {
        const uint32_t n = pacer.due(5, 1'000'000 + tick);
        pacer.took(n);
        sent += n;
        EXPECT_EQ(sent, 1 + tick / 8) << tick;
    }
    EXPECT_EQ(pacer.interval_ns(), 8'000'000u);
}

TEST(Pacer, CountsWhatWasDueWhoeverAsksHowOften) {
    std::mt19937 rng(3);
    for (const double rate : {1.0, 7.0, 1e3, 1e6, 12.5e6}) {
        Pacer pacer(rate, 1e12, kTicks);
        uint64_t now = 1, sent = 0;
        for (int i = 0; i < 1000; ++i) {
            const uint32_t n = pacer.due(rng() % 2 == 0 ? UINT32_MAX : rng() % 100, now);
            pacer.took(n);
            sent += n;
            now += rng() % 50;
        }
        sent += pacer.due(UINT32_MAX, now);
        EXPECT_NEAR(static_cast<double>(sent), 1 + static_cast<double>(now - 1) / kTicks * rate, 1.5) << rate;
        EXPECT_EQ(pacer.given_up(), 0u);
    }
}

TEST(Pacer, KeepsTenMillisecondsOrAsManyAsThereAreDescriptorsAndGivesUpTheRest) {
    Pacer brief(100'000, 0, kTicks);
    EXPECT_EQ(brief.due(UINT32_MAX, 1), 1u);
    EXPECT_EQ(brief.due(UINT32_MAX, 1001), 1000u);
    EXPECT_EQ(brief.given_up(), 99'001u) << "a second's packets and the first, less ten milliseconds'";
    Pacer queue(100'000, 64, kTicks);
    queue.due(1, 1);
    EXPECT_EQ(queue.due(UINT32_MAX, 1001), 64u);
    EXPECT_EQ(queue.given_up(), 99'937u);
    queue.took(64);
    EXPECT_EQ(queue.due(UINT32_MAX, 1001), 0u) << "time stands still";
}

TEST(Pacer, TellsHowLongPacketsHaveBeenDue) {
    Pacer pacer(1000, 100, kTicks);  // one a tick
    pacer.due(1, 1);
    EXPECT_EQ(pacer.due(UINT32_MAX, 51), 51u);
    EXPECT_EQ(pacer.age_ns(0), 50'000'000u);
    EXPECT_EQ(pacer.age_ns(49), 1'000'000u);
    EXPECT_EQ(pacer.age_ns(50), 0u);
    EXPECT_EQ(pacer.age_ns(51), 0u) << "not due yet";
}

TEST(Pacer, TakesAnotherRateFromNowOn) {
    Pacer pacer(1000, 1e9, kTicks);
    pacer.due(1, 1);
    pacer.took(pacer.due(UINT32_MAX, 101));
    pacer.set_rate(10'000);
    EXPECT_EQ(pacer.due(UINT32_MAX, 201), 1000u);
    EXPECT_EQ(pacer.interval_ns(), 100'000u);
}

}  // namespace
}  // namespace millrace::io
