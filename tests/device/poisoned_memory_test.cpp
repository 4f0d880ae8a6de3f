// What a simulated device's memory holds before anybody has written to it, and what lies around it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "millrace/device/sim/poisoned_memory.hpp"

namespace millrace::device::sim {
namespace {

constexpr size_t kKilobyte = 1024, kMegabyte = size_t{1} << 20;

class PoisonedMemories : public testing::TestWithParam<size_t> {};

TEST_P(PoisonedMemories, ReadAsPoisonFromTheirFirstByteToTheirLast) {
    const PoisonedMemory memory(GetParam());
    EXPECT_EQ(memory.size(), GetParam());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % PoisonedMemory::kAlignment, 0u);
    EXPECT_EQ(std::count(memory.data(), memory.data() + memory.size(), PoisonedMemory::kPoison),
              static_cast<ptrdiff_t>(memory.size()));
}

TEST_P(PoisonedMemories, HoldWhatIsWrittenAndNobodyElseSeesIt) {
    const size_t bytes = GetParam();
    const PoisonedMemory written(bytes), beside(bytes);
    for (size_t i = 0; i < bytes; ++i) written.data()[i] = static_cast<uint8_t>(i * 7 >> 3);
    const PoisonedMemory later(bytes);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(written.data()[i], static_cast<uint8_t>(i * 7 >> 3)) << i;
    for (const PoisonedMemory* other : {&beside, &later})
        EXPECT_EQ(std::count(other->data(), other->data() + bytes, PoisonedMemory::kPoison),
                  static_cast<ptrdiff_t>(bytes));
}

TEST_P(PoisonedMemories, BeginAsTheirContentAndArePoisonBehindIt) {
    const size_t bytes = GetParam();
    for (const size_t short_by : {0, 1, 4096, 300'000}) {
        if (short_by > bytes) continue;
        std::vector<uint8_t> content(bytes - short_by);
        for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * 11 >> 2);
        const PoisonedMemory memory(bytes, content);
        EXPECT_TRUE(std::equal(content.begin(), content.end(), memory.data())) << short_by;
        EXPECT_EQ(std::count(memory.data() + content.size(), memory.data() + bytes, PoisonedMemory::kPoison),
                  static_cast<ptrdiff_t>(short_by));
    }
}

INSTANTIATE_TEST_SUITE_P(Of, PoisonedMemories,
                         testing::Values(0, 1, 255, 256, 257, 256 * kKilobyte - 1, 256 * kKilobyte, 256 * kKilobyte + 1,
                                         4 * kMegabyte - 1, 4 * kMegabyte, 4 * kMegabyte + 1, 16 * kMegabyte,
                                         33 * kMegabyte + 4097));

TEST(PoisonedMemoryDeathTest, FaultsBeyondTheEndAndBeforeThePagesOfALargeOne) {
    const size_t bytes = 5 * kMegabyte + 512;
    const PoisonedMemory memory(bytes);
    EXPECT_DEATH(memory.data()[bytes] = 1, "");
    EXPECT_DEATH(memory.data()[-static_cast<ptrdiff_t>(2 * 4096)] = 1, "");
}

}  // namespace
}  // namespace millrace::device::sim
