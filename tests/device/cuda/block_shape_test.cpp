// Blocks fill whatever GPU it is.
#include <gtest/gtest.h>

#include "millrace/device/cuda/block_shape.hpp"
#include "millrace/device/cuda/compile/chain_source.hpp"

namespace millrace::device::cuda {
namespace {

uint32_t blocks(uint32_t packets, uint32_t per_block) { return (packets + per_block - 1) / per_block; }

TEST(BlockShape, SpreadsFewPacketsOverAsManyMultiprocessorsAsThereAre) {
    for (const uint32_t multiprocessors : {1, 4, 16, 64, 108, 132, 142, 192})
        for (const uint32_t packets : {1, 2, 31, 132, 133, 256, 1023, 1024}) {
            const uint32_t each = packets_of_block(8, 1024, multiprocessors, packets, 64);
            EXPECT_GE(each, 1u);
            EXPECT_LE(each, kMaxBlockPackets) << packets << " packets on " << multiprocessors;
            if (each == kMaxBlockPackets) continue;  // the device has not that many at once
            EXPECT_LE(blocks(packets, each), multiprocessors) << packets;
            if (each > 1) {
                EXPECT_GT(blocks(packets, each - 1), multiprocessors) << packets << ": no smaller blocks would do";
            }
        }
}

TEST(BlockShape, FillsTheMultiprocessorsWithLargeBatches) {
    for (const uint32_t multiprocessors : {16, 64, 132, 192}) {
        uint32_t before = 0;
        for (const uint32_t packets : {1025, 2048, 4096, 8192, 16384, 65535}) {
            const uint32_t each = packets_of_block(8, 1024, multiprocessors, packets, 64);
            EXPECT_GE(blocks(packets, each), std::min(multiprocessors * 2 / 3, packets / 32))
                << packets << " packets on " << multiprocessors;
            EXPECT_GE(each, before);
            before = each;
        }
        EXPECT_EQ(before, kMaxBlockPackets);
    }
    EXPECT_EQ(packets_of_block(8, 1024, 132, 8192, 64), 64u) << "as measured on an H200";
    EXPECT_EQ(packets_of_block(8, 1024, 66, 8192, 64), 128u) << "half a device";
    EXPECT_EQ(packets_of_block(8, 1024, 132, 65535, 1500), 32u) << "long frames keep all threads busy";
}

TEST(BlockShape, LanesSuitTheBatch) {
    EXPECT_EQ(lanes_for(kFewPackets, 64), KernelLanes::most) << "few packets have the GPU to themselves";
    EXPECT_EQ(lanes_for(kFewPackets + 1, 64), KernelLanes::one);
    EXPECT_EQ(lanes_for(kFewPackets + 1, kShortFrame - 1), KernelLanes::one);
    EXPECT_EQ(lanes_for(kFewPackets + 1, kShortFrame), KernelLanes::usual);
    EXPECT_EQ(lanes_for(65535, kLongFrame - 1), KernelLanes::usual);
    EXPECT_EQ(lanes_for(65535, kLongFrame), KernelLanes::most);
}

}  // namespace
}  // namespace millrace::device::cuda
