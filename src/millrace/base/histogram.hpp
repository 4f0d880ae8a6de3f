// Latency counts over a wide range with a bounded error, in the way of HDR histograms.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace {

/// A counter that one thread writes and any thread reads.
class Counter {
public:
    void add(uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
    uint64_t get() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<uint64_t> value_{0};
};

/// Counts of nanoseconds: 16 buckets for every power of two, so a value is off by less than 1/16.
/// One writer, any number of readers.
class Histogram {
public:
    static constexpr unsigned kSubBits = 4;
    static constexpr unsigned kBuckets = (64 - kSubBits + 1) << kSubBits;

    void record(uint64_t nanoseconds, uint64_t count = 1) { counts_[bucket_of(nanoseconds)].add(count); }

    /// Adds this histogram's counts to `sums`, of kBuckets elements.
    void add_to(std::array<uint64_t, kBuckets>& sums) const {
        for (unsigned i = 0; i < kBuckets; ++i) sums[i] += counts_[i].get();
    }

    static unsigned bucket_of(uint64_t v) {
        if (v < (1u << kSubBits)) return static_cast<unsigned>(v);
        const unsigned exponent = static_cast<unsigned>(std::bit_width(v)) - 1 - kSubBits;
        return ((exponent + 1) << kSubBits) + static_cast<unsigned>((v >> exponent) & ((1u << kSubBits) - 1));
    }
    /// The largest value that falls into a bucket.
    static uint64_t bucket_top(unsigned bucket) {
        if (bucket < (1u << kSubBits)) return bucket;
        const unsigned exponent = (bucket >> kSubBits) - 1;
        const uint64_t base = (uint64_t{1} << kSubBits) | (bucket & ((1u << kSubBits) - 1));
        return ((base + 1) << exponent) - 1;
    }
    /// The least value that at least `percent` of the counts do not exceed; 0 without counts.
    static uint64_t percentile(const std::array<uint64_t, kBuckets>& counts, double percent) {
        uint64_t total = 0;
        for (const uint64_t count : counts) total += count;
        if (total == 0) return 0;
        // What rounding adds to a whole number is not to ask for one more.
        const auto wanted = static_cast<uint64_t>(
            std::ceil(static_cast<double>(total) * percent / 100.0 * (1 - 1e-12)));
        uint64_t seen = 0;
        for (unsigned i = 0; i < kBuckets; ++i) {
            seen += counts[i];
            if (seen >= wanted && seen > 0) return bucket_top(i);
        }
        return bucket_top(kBuckets - 1);
    }

private:
    std::array<Counter, kBuckets> counts_;
};

}  // namespace millrace
