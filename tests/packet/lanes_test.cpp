#include "millrace/packet/lanes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

template <class T>
class LanesOf : public testing::Test {};
using Counts = testing::Types<Lanes<1>, Lanes<2>, Lanes<4>, Lanes<8>, Lanes<16>, Lanes<32>>;
TYPED_TEST_SUITE(LanesOf, Counts);

constexpr uint32_t kSizes[] = {0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025};

TYPED_TEST(LanesOf, ForEachVisitsEveryIndexOnce) {
    for (const uint32_t n : kSizes) {
        std::vector<unsigned> visits(n);
        TypeParam{}.for_each(n, [&](uint32_t i) { ++visits.at(i); });
        EXPECT_EQ(visits, std::vector<unsigned>(n, 1));
    }
}

TYPED_TEST(LanesOf, ForEachGoesLaneByLaneOnTheHost) {
    std::vector<uint32_t> order;
    TypeParam{}.for_each(100, [&](uint32_t i) { order.push_back(i % TypeParam::count); });
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << "no order between indexes may be relied upon";
}

TYPED_TEST(LanesOf, OnceRunsOnce) {
    unsigned runs = 0;
    TypeParam{}.once([&] { ++runs; });
    EXPECT_EQ(runs, 1u);
}

TYPED_TEST(LanesOf, MinimumFindsTheSmallest) {
    for (const uint32_t n : kSizes) {
        for (const uint32_t at : {0u, n / 2, n - 1}) {
            const uint32_t least = TypeParam{}.minimum(n, [&](uint32_t i) { return i == at ? 3u : 5u + i; });
            EXPECT_EQ(least, n == 0 ? 0xffffffffu : 3u);
        }
    }
}

TYPED_TEST(LanesOf, SumAddsModulo32Bits) {
    for (const uint32_t n : kSizes)
        EXPECT_EQ(TypeParam{}.sum(n, [](uint32_t i) { return 0x01000001u * i; }), 0x01000001u * (n * (n - 1) / 2));
}

TYPED_TEST(LanesOf, AnyFindsTheOneThatHolds) {
    for (const uint32_t n : kSizes) {
        EXPECT_FALSE(TypeParam{}.any(n, [](uint32_t) { return false; }));
        for (const uint32_t at : {0u, n / 2, n - 1})
            EXPECT_EQ(TypeParam{}.any(n, [&](uint32_t i) { return i == at; }), n > 0);
    }
}

TYPED_TEST(LanesOf, NumberCountsThoseThatHold) {
    constexpr uint32_t kCount = TypeParam::count;
    for (const uint32_t every : {1u, 2u, 3u, kCount, kCount + 1}) {
        std::vector<uint32_t> places(kCount, 1000);
        const uint32_t all = TypeParam{}.number([&](uint32_t lane) { return (lane + 1) % every == 0; },
                                                [&](uint32_t lane, uint32_t place) { places[lane] = place; });
        EXPECT_EQ(all, kCount / every);
        for (uint32_t lane = 0; lane < kCount; ++lane)
            EXPECT_EQ(places[lane], (lane + 1) % every == 0 ? lane / every : 1000) << lane;
    }
}

TYPED_TEST(LanesOf, PerLaneKeepsAValueForEachLane) {
    PerLane<uint32_t, TypeParam> values;
    TypeParam lanes;
    lanes.for_each(TypeParam::count, [&](uint32_t i) { EXPECT_EQ(values.of(i), 0u); });
    lanes.for_each(TypeParam::count, [&](uint32_t i) { values.of(i) = 100 + i; });
    lanes.for_each(TypeParam::count, [&](uint32_t i) { EXPECT_EQ(values.of(i), 100 + i); });
}

}  // namespace
}  // namespace millrace
