// What of a GPU a chain or tenant works on.
#pragma once

#include <cstdint>

namespace millrace::schedule {

/// Neighbouring multiprocessors, by their numbers.
struct SmRange {
    uint32_t first = 0;
    uint32_t count = 0;  ///< 0: all that there are
    bool all() const { return count == 0; }
    friend bool operator==(const SmRange&, const SmRange&) = default;
};

/// Batches in flight of ordered chains, of all workers, for which partitions of their least size have room. Where there
/// may be more, such chains have no partition.
inline constexpr uint32_t kMaxOrderedBatches = 72;

struct GpuShare {
    SmRange sms;
    bool in_turn = false;  ///< its kernels never run beside those of others that take turns (Sharing::temporal)
    friend bool operator==(const GpuShare&, const GpuShare&) = default;
};

}  // namespace millrace::schedule
