#include "millrace/nf/nids/pattern/table_memory.hpp"

#include <gtest/gtest.h>

namespace millrace::nf::nids::pattern::test {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

/// Writes to the first and last entries, and frees: a wrong length would fault or trip a sanitizer.
template <class T>
void expect_usable(size_t count, bool large) {
    Table<T> table(count);
    for (const T& entry : table) ASSERT_EQ(entry, T{});
    if (count == 0) return;
    table.front() = table.back() = 7;
    if (large) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(table.data()) % kLargePage, 0u) << count;
    }
    const Table<T> copy = table;
    EXPECT_EQ(copy, table);
}

TEST(Table, BeginsOnALargePageWhenItFillsOne) {
    constexpr size_t kEntries = kLargePage / sizeof(uint16_t);
    for (const size_t count : {size_t{0}, size_t{1}, kEntries - 1}) expect_usable<uint16_t>(count, false);
    for (const size_t count : {kEntries, kEntries + 1, 5 * kEntries - 1, 5 * kEntries})
        expect_usable<uint16_t>(count, true);
    expect_usable<uint32_t>(kEntries / 2 - 1, false);
    expect_usable<uint32_t>(kEntries, true);
}

TEST(Table, MovesItsContentWhenItGrows) {
    Table<uint32_t> table;
    for (uint32_t i = 0; i < 3'000'000; ++i) table.push_back(i);
    for (uint32_t i = 0; i < 3'000'000; ++i) ASSERT_EQ(table[i], i);
}

}  // namespace
}  // namespace millrace::nf::nids::pattern::test
