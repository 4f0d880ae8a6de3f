// Neighbours among a block's threads whose packets have one key, in order of arrival. Device code only.
#pragma once

#include "millrace/packet/platform.hpp"

#if MILLRACE_GPU

namespace millrace::nf {

/// The threads with packets of this one's key, and the lanes of its warp among them. All threads of the block make
/// theirs together; one without a packet is alone.
struct KeyRun {
    static constexpr uint32_t kAll = 0xffffffff;
    static constexpr uint32_t kWarps = 8;  ///< of a block

    uint32_t head, end;      ///< threads: the first one, and the one behind the last
    uint32_t warp, lane;     ///< of the thread
    uint32_t first_lane;     ///< of the warp, that has the key
    uint32_t below;          ///< lanes with the key, below this one
    bool from_before;        ///< it begins in a warp before
    bool goes_on;            ///< that of the last lane does, in the next warp
    uint32_t of_last;        ///< lanes of the last lane's
    uint32_t warp_of_first;  ///< where the first lane's begins

    MILLRACE_DEVICE KeyRun(uint32_t from, uint32_t to)
        : head(from), end(to), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {
        from_before = head < warp * 32;
        first_lane = from_before ? 0 : head - warp * 32;
        below = ((1u << lane) - 1) & ~((1u << first_lane) - 1);
        goes_on = __shfl_sync(kAll, end, 31) > warp * 32 + 32;
        of_last = ~((1u << __shfl_sync(kAll, first_lane, 31)) - 1);
        warp_of_first = smaller(__shfl_sync(kAll, head, 0) / 32, warp);
    }
    /// Tells all threads behind the next barrier for which ones `is_so`, by a word for each warp.
    MILLRACE_DEVICE void publish(bool is_so, uint32_t* of_warps) const {
        const uint32_t bits = __ballot_sync(kAll, is_so);
        if (lane == 0) of_warps[warp] = bits;
    }
    /// The first of these threads whose bit is set; or their end.
    MILLRACE_DEVICE uint32_t first_of(const uint32_t* of_warps) const {
        for (uint32_t w = head / 32; w * 32 < end; ++w) {
            const uint32_t bits = of_warps[w] & (w == head / 32 ? kAll << head % 32 : kAll);
            if (bits != 0) return smaller(w * 32 + lowest(bits), end);
        }
        return end;
    }

    MILLRACE_DEVICE static uint32_t lowest(uint32_t bits) {
        return static_cast<uint32_t>(__ffs(static_cast<int>(bits))) - 1;
    }
    MILLRACE_DEVICE static uint32_t highest(uint32_t bits) {
        return 31 - static_cast<uint32_t>(__clz(static_cast<int>(bits)));
    }
};

}  // namespace millrace::nf

#endif
