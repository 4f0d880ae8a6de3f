// How many packets are due by now.
#pragma once

#include <rte_cycles.h>

#include <algorithm>
#include <cstdint>

namespace millrace::io {

/// Paces one queue to a number of packets per second. Time starts with the first question. What was
/// not fetched in time stays due, up to 10 ms worth: a stalled worker gets a burst, not a flood.
class Pacer {
public:
    /// 0 packets per second: everything is due at once.
    explicit Pacer(double packets_per_second = 0) : per_tick_(packets_per_second / static_cast<double>(rte_get_tsc_hz())) {
        most_ = std::max(packets_per_second * 0.01, 1.0);
    }

    /// How many of `wanted` may go now.
    uint16_t due(uint16_t wanted) {
        if (per_tick_ <= 0) return wanted;
        const uint64_t now = rte_rdtsc();
        if (last_ == 0) last_ = now;
        credit_ = std::min(credit_ + static_cast<double>(now - last_) * per_tick_, most_);
        last_ = now;
        return static_cast<uint16_t>(std::min<double>(wanted, credit_));
    }
    void took(uint16_t count) { credit_ -= count; }

private:
    double per_tick_;
    double most_ = 0;
    double credit_ = 1;
    uint64_t last_ = 0;
};

}  // namespace millrace::io
