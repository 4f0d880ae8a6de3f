#include "millrace/base/large_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/resident_memory.hpp"

namespace millrace::test {
namespace {

constexpr size_t kLargePage = size_t{2} << 20, kCacheLine = 64;

/// Writes to the first and last entries, and frees: a wrong length would fault or trip a sanitizer.
template <class T>
void expect_usable(size_t count, bool large) {
    for (int turn = 0; turn < 2; ++turn) {  // what the second one gets the first has had
        LargePageVector<T> table(count);
        for (const T& entry : table) ASSERT_EQ(entry, T{});
        if (count == 0) return;
        std::ranges::fill(table, T{7});
        EXPECT_EQ(reinterpret_cast<uintptr_t>(table.data()) % (large ? kLargePage : kCacheLine), 0u) << count;
        const LargePageVector<T> copy = table;
        EXPECT_EQ(copy, table);
    }
}

TEST(LargePages, BeginsOnALargePageWhenItFillsOne) {
    constexpr size_t kEntries = kLargePage / sizeof(uint16_t);
    for (const size_t count : {size_t{0}, size_t{1}, kEntries - 1}) expect_usable<uint16_t>(count, false);
    for (const size_t count : {kEntries, kEntries + 1, 5 * kEntries - 1, 5 * kEntries})
        expect_usable<uint16_t>(count, true);
    expect_usable<uint32_t>(kEntries / 2 - 1, false);
    expect_usable<uint32_t>(kEntries, true);
}

TEST(ZeroPages, TakeNoMemoryUntilTheyAreTouched) {
    constexpr int64_t kEntries = int64_t{64} << 20;  // 512 MiB
    const int64_t before = resident_bytes();
    ZeroPageVector<uint64_t> table(kEntries);
    EXPECT_LT(resident_bytes(), before + kEntries);
    table[kEntries / 2] = 7;
    EXPECT_LT(resident_bytes(), before + kEntries);
    EXPECT_EQ(table[kEntries - 1], 0u);
    EXPECT_EQ(table[kEntries / 2], 7u);
}

TEST(ZeroPages, ArePresentWhereThatIsAskedFor) {
    for (const size_t entries : {size_t{1}, size_t{5'000}, size_t{30'000'001}}) {
        const int64_t before = resident_bytes();
        ZeroPageVector<uint64_t> table(entries);
        table[entries / 2] = 7;
        make_present(table.data(), table.size() * sizeof table[0]);
        if (entries > 1'000'000) {
            EXPECT_GT(resident_bytes(), before + static_cast<int64_t>(entries * sizeof table[0] / 10 * 9));
        }
        EXPECT_EQ(std::ranges::count(table, 0u), static_cast<ptrdiff_t>(entries - 1));
        EXPECT_EQ(table[entries / 2], 7u) << "what it holds stays";
    }
}

TEST(LargePages, MovesItsContentWhenItGrows) {
    LargePageVector<uint32_t> table;
    for (uint32_t i = 0; i < 3'000'000; ++i) table.push_back(i);
    for (uint32_t i = 0; i < 3'000'000; ++i) ASSERT_EQ(table[i], i);
}

}  // namespace
}  // namespace millrace::test
