// How many packets are due by now.
#pragma once

#include <rte_cycles.h>

#include <algorithm>
#include <cstdint>

namespace millrace::io {

/// Paces one queue to a number of packets per second. Time starts with the first question. What was
/// not fetched in time stays due, up to a number of packets: 10 ms worth, so that a stalled worker gets
/// a burst and not a flood, or as many as a NIC's queue has descriptors, beyond which packets are lost.
class Pacer {
public:
    /// 0 packets per second: everything is due at once. `most_waiting` 0: 10 ms worth.
    /// `ticks_per_second` of the clock that `due` is told.
    explicit Pacer(double packets_per_second = 0, double most_waiting = 0,
                   double ticks_per_second = static_cast<double>(rte_get_tsc_hz()))
        : most_waiting_(most_waiting), ticks_per_second_(ticks_per_second) {
        set_rate(packets_per_second);
    }

    /// From now on.
    void set_rate(double packets_per_second) {
        per_tick_ = packets_per_second / ticks_per_second_;
        nanoseconds_ = packets_per_second > 0 ? 1e9 / packets_per_second : 0;
        most_ = most_waiting_ > 0 ? most_waiting_ : std::max(packets_per_second * 0.01, 1.0);
    }

    /// How many of `wanted` may go now.
    uint32_t due(uint32_t wanted) { return per_tick_ <= 0 ? wanted : due(wanted, rte_rdtsc()); }
    /// The same at the time `now`, which is not 0.
    uint32_t due(uint32_t wanted, uint64_t now) {
        if (per_tick_ <= 0) return wanted;
        if (last_ == 0) last_ = now;
        credit_ += static_cast<double>(now - last_) * per_tick_;
        last_ = now;
        if (credit_ > most_) {
            late_ += credit_ - most_;
            credit_ = most_;
        }
        return static_cast<uint32_t>(std::min<double>(wanted, credit_));
    }
    /// For how long packet `index` of those that are due has been, as of the last question; 0 without a rate. In
    /// nanoseconds.
    uint64_t age_ns(uint32_t index) const {
        return static_cast<uint64_t>(std::max(credit_ - 1 - index, 0.0) * nanoseconds_);
    }
    /// Until the next packet is due, as of the last question; 0 without a rate. In nanoseconds.
    uint64_t until_due_ns() const { return static_cast<uint64_t>(std::max(1 - credit_, 0.0) * nanoseconds_); }
    /// Between two packets; 0 without a rate.
    uint64_t interval_ns() const { return static_cast<uint64_t>(nanoseconds_); }
    void took(uint32_t count) {
        if (per_tick_ > 0) credit_ -= count;
    }
    /// Packets that were due so long that they are no more.
    uint64_t given_up() const { return static_cast<uint64_t>(late_); }

private:
    double most_waiting_, ticks_per_second_;
    double per_tick_ = 0, nanoseconds_ = 0, most_ = 0;
    double credit_ = 1, late_ = 0;
    uint64_t last_ = 0;
};

}  // namespace millrace::io
