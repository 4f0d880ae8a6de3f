// How many packets a block of a GPU's threads takes.
#pragma once

#include <algorithm>

#include "millrace/device/kernel/batch.hpp"

namespace millrace::device::cuda {

/// The packets of a block for a kernel that may choose, on a device of so many multiprocessors. What a block does with
/// one thread a packet takes as long for few packets as for many, so more of them waste less of a multiprocessor; but a
/// large batch still shall fill all multiprocessors, and long frames keep all threads busy anyway. Batches of up to
/// `spread` packets are spread over all multiprocessors; blocks of larger ones have at least `packets`.
inline uint32_t packets_of_block(uint32_t packets, uint32_t spread, uint32_t multiprocessors, uint32_t batch_packets,
                                 uint32_t mean_bytes) {
    constexpr uint32_t kBlockBytes = 48 << 10;
    if (batch_packets <= spread)
        return std::clamp((batch_packets + multiprocessors - 1) / multiprocessors, 1u, kMaxBlockPackets);
    const uint32_t fewest_blocks = std::max(multiprocessors * 8 / 11, 1u);  // others have two meanwhile
    const uint32_t wanted = std::min(kBlockBytes / std::max(mean_bytes, 1u), batch_packets / fewest_blocks);
    return std::clamp(wanted / 32 * 32, packets, kMaxBlockPackets);
}

}  // namespace millrace::device::cuda
