#include "millrace/base/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace millrace {
namespace {

using Sums = std::array<uint64_t, Histogram::kBuckets>;

Sums sums_of(const Histogram& histogram) {
    Sums sums{};
    histogram.add_to(sums);
    return sums;
}

/// Values of every size, and those around powers of two.
std::vector<uint64_t> values() {
    std::vector<uint64_t> all = {0, UINT64_MAX};
    for (unsigned bit = 0; bit < 64; ++bit)
        for (const int64_t by : {-1, 0, 1}) all.push_back((uint64_t{1} << bit) + static_cast<uint64_t>(by));
    std::mt19937_64 random(1);
    for (int i = 0; i < 100'000; ++i) all.push_back(random() >> (random() % 64));
    return all;
}

TEST(Histogram, PutsEveryValueInABucketThatEndsWithinASixteenth) {
    for (const uint64_t value : values()) {
        const unsigned bucket = Histogram::bucket_of(value);
        ASSERT_LT(bucket, Histogram::kBuckets) << value;
        const uint64_t top = Histogram::bucket_top(bucket);
        ASSERT_GE(top, value);
        ASSERT_LE(top - value, value / 16) << value;
        ASSERT_EQ(Histogram::bucket_of(top), bucket);
        if (top < UINT64_MAX) {
            ASSERT_EQ(Histogram::bucket_of(top + 1), bucket + 1);
        }
    }
}

TEST(Histogram, HasNoPercentilesWithoutCounts) {
    for (const double percent : {0.0, 50.0, 100.0}) EXPECT_EQ(Histogram::percentile(Sums{}, percent), 0u);
}

TEST(Histogram, GivesTheLeastValueThatSoManyPercentDoNotExceed) {
    std::mt19937_64 random(2);
    for (size_t size = 1; size <= 1000; size += size < 200 ? 1 : 37) {
        Histogram histogram;
        std::vector<uint64_t> recorded;
        for (size_t i = 0; i < size; ++i) {
            recorded.push_back(random() >> (24 + random() % 40));
            histogram.record(recorded.back());
        }
        std::sort(recorded.begin(), recorded.end());
        for (const unsigned thousandth : {1u, 500u, 900u, 950u, 990u, 999u, 1000u}) {
            const size_t rank = (size * thousandth + 999) / 1000;  // so many do not exceed it
            const uint64_t expected = Histogram::bucket_top(Histogram::bucket_of(recorded[rank - 1]));
            ASSERT_EQ(Histogram::percentile(sums_of(histogram), thousandth / 10.0), expected)
                << thousandth << " of " << size;
        }
    }
}

TEST(Histogram, CountsManyAtOnceAndAddsUpThoseOfWorkers) {
    Histogram one, other;
    one.record(10, 1000);
    other.record(1000, 3000);
    other.record(0, 0);
    Sums sums{};
    one.add_to(sums);
    other.add_to(sums);
    EXPECT_EQ(Histogram::percentile(sums, 25), 10u);
    EXPECT_EQ(Histogram::percentile(sums, 25.1), Histogram::bucket_top(Histogram::bucket_of(1000)));
    EXPECT_EQ(Histogram::percentile(sums, 100), Histogram::bucket_top(Histogram::bucket_of(1000)));
}

}  // namespace
}  // namespace millrace
