#include "millrace/base/large_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST(LargePages, MovesItsContentWhenItGrows) {
    LargePageVector<uint32_t> table;
    for (uint32_t i = 0; i < 3'000'000; ++i) table.push_back(i);
    for (uint32_t i = 0; i < 3'000'000; ++i) ASSERT_EQ(table[i], i);
}

}  // namespace
}  // namespace millrace::test
