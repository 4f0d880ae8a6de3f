// Tables of every size give the answers of an independent search, where they are small, where they become large and
// where they become small again.
#include <gtest/gtest.h>

#include <ctime>
#include <memory>
#include <random>

#include "millrace/nf/prefixes/linear_routes.hpp"
#include "millrace/nf/prefixes/lpm.hpp"
#include "nf/router/reference.hpp"

namespace millrace::nf::prefixes {
namespace {

using test::ReferenceTable;
using Rng = std::mt19937_64;

template <unsigned Bytes>
using Address = typename Rib<Bytes>::Address;

template <unsigned Bytes>
Prefix prefix_of(const Address<Bytes>& address, unsigned length) {
    Prefix prefix;
    prefix.ipv6 = Bytes == 16;
    prefix.length = static_cast<uint8_t>(length);
    std::copy(address.begin(), address.end(), prefix.bytes.begin());
    return prefix;
}

/// A table, and the same routes where nothing is shared with it.
template <class Table, unsigned Bytes>
struct Pair {
    Table table;
    ReferenceTable reference;
    std::vector<typename Table::Route> routes;

    void insert(const Address<Bytes>& any, unsigned length, uint16_t value) {
        const auto address = Rib<Bytes>::mask(any, length);
        if (table.insert(address, length, value))
            routes.push_back({address, static_cast<uint8_t>(length), true, value});
        reference.insert(prefix_of<Bytes>(address, length), value);
    }
    void erase_any(Rng& rng) {
        std::swap(routes[rng() % routes.size()], routes.back());
        erase_last();
    }
    void erase_last() {
        ASSERT_TRUE(table.erase(routes.back().address, routes.back().length));
        reference.erase(prefix_of<Bytes>(routes.back().address, routes.back().length));
        routes.pop_back();
    }
    /// By the host's search, and by devices'.
    void compare_at(const Address<Bytes>& address) const {
        const uint32_t wanted = reference.lookup(address.data(), Bytes == 16, kTargetNone);
        ASSERT_EQ(table.lookup(address), wanted) << routes.size();
        PrefixTables tables;
        if constexpr (Bytes == 4) {
            tables.ipv4_root = {table.root().data(), table.root().size()};
            tables.ipv4_groups = {table.groups().data(), table.groups().size()};
            ASSERT_EQ(lookup_ipv4(tables, load_be32(address.data())), wanted) << routes.size();
        } else {
            tables.ipv6_root = {table.root().data(), table.root().size()};
            tables.ipv6_groups = {table.groups().data(), table.groups().size()};
            ASSERT_EQ(lookup_ipv6(tables, address.data()), wanted) << routes.size();
        }
    }
    /// At the first and the last address of prefixes, beside these, and anywhere.
    void compare(Rng& rng, size_t times) const {
        for (size_t i = 0; i < times; ++i) {
            Address<Bytes> address{};
            if (routes.empty() || i % 5 == 4) {
                for (uint8_t& byte : address) byte = static_cast<uint8_t>(rng());
                compare_at(address);
                continue;
            }
            const auto& route = routes[rng() % routes.size()];
            address = route.address;
            if (i % 5 >= 2)
                for (unsigned bit = route.length; bit < 8 * Bytes; ++bit)
                    address[bit / 8] = static_cast<uint8_t>(address[bit / 8] | 0x80 >> bit % 8);
            // Behind the last, or before the first.
            const bool is_up = i % 5 == 3;
            for (unsigned at = Bytes; i % 2 == 1 && at-- > 0;) {
                address[at] = static_cast<uint8_t>(address[at] + (is_up ? 1 : -1));
                if (address[at] != (is_up ? 0 : 0xff)) break;
            }
            compare_at(address);
            if (testing::Test::HasFatalFailure()) return;
        }
    }
};

/// Prefixes as those of published tables: most are long, and some cover many others.
template <unsigned Bytes>
Address<Bytes> any_address(Rng& rng) {
    Address<Bytes> address{};
    for (uint8_t& byte : address) byte = static_cast<uint8_t>(rng());
    if constexpr (Bytes == 16) address[0] = static_cast<uint8_t>(0x20 + rng() % 8);
    return address;
}
template <unsigned Bytes>
unsigned any_length(Rng& rng) {
    constexpr unsigned kAll = 8 * Bytes;
    if (rng() % 16 == 0) return static_cast<unsigned>(rng() % (kAll + 1));
    return static_cast<unsigned>(kAll / 4 + rng() % (kAll - kAll / 4 + 1));
}
template <class Table, unsigned Bytes>
void fill(Pair<Table, Bytes>& pair, Rng& rng, size_t count) {
    while (pair.routes.size() < count)
        pair.insert(any_address<Bytes>(rng), any_length<Bytes>(rng), static_cast<uint16_t>(1 + rng() % 30000));
}

template <class Table, unsigned Bytes>
void compare_sizes(uint64_t seed) {
    Rng rng(seed);
    for (const size_t count : {0, 1, 2, 10, 31, 32, 33, 1023, 1024, 1025, 10'000}) {
        Pair<Table, Bytes> pair;
        fill(pair, rng, count);
        pair.compare(rng, 3000);
        if (count <= Table::kFewRoutes) {
            EXPECT_TRUE(pair.table.is_small()) << count;
        }
        if (count == 10'000) {
            EXPECT_FALSE(pair.table.is_small());
        }
    }
}
TEST(SizesOfTables, AnswerAsAnIndependentSearchIpv4) { compare_sizes<Ipv4Lpm, 4>(1); }
TEST(SizesOfTables, AnswerAsAnIndependentSearchIpv6) { compare_sizes<Ipv6Lpm, 16>(2); }

TEST(SizesOfTables, AnswerAMillionRoutesAsAnIndependentSearch) {
    Rng rng(3);
    Pair<Ipv4Lpm, 4> pair;
    while (pair.routes.size() < 1'000'000)
        pair.insert(any_address<4>(rng), static_cast<unsigned>(12 + rng() % 13),
                    static_cast<uint16_t>(1 + rng() % 999));
    for (int i = 0; i < 2000; ++i) pair.insert(any_address<4>(rng), static_cast<unsigned>(25 + rng() % 8), 7);
    pair.insert({}, 0, 30000);
    EXPECT_FALSE(pair.table.is_small());
    pair.compare(rng, 100'000);
}

/// Each length, with a default route or without one, in a table that is small and in one that is large.
template <class Table, unsigned Bytes>
void compare_lengths(uint64_t seed) {
    Rng rng(seed);
    for (const bool is_large : {false, true})
        for (const bool with_default : {false, true}) {
            Pair<Table, Bytes> pair;
            if (is_large) fill(pair, rng, 10'000);
            if (with_default) pair.insert({}, 0, 9);
            ASSERT_EQ(pair.table.is_small(), !is_large);
            const size_t before = pair.routes.size();
            const auto address = any_address<Bytes>(rng);
            for (unsigned length = 1; length <= 8 * Bytes; ++length) {
                pair.insert(address, length, static_cast<uint16_t>(100 + length));
                auto beside = address;
                pair.compare_at(beside);
                for (unsigned bit = 0; bit < 8 * Bytes; ++bit) {
                    beside = address;
                    beside[bit / 8] = static_cast<uint8_t>(beside[bit / 8] ^ 0x80 >> bit % 8);
                    pair.compare_at(beside);
                }
            }
            while (pair.routes.size() > before) {
                pair.erase_last();
                pair.compare_at(address);
            }
            ASSERT_EQ(pair.table.is_small(), !is_large);
        }
}
TEST(SizesOfTables, MatchEveryLengthIpv4) { compare_lengths<Ipv4Lpm, 4>(4); }
TEST(SizesOfTables, MatchEveryLengthIpv6) { compare_lengths<Ipv6Lpm, 16>(5); }

/// A copy, which must always be what the table is.
template <class Table>
void bring_up(const Table& table, typename Table::Copy& copy) {
    table.bring_up(copy);
    ASSERT_TRUE(copy.root == table.root());
    ASSERT_TRUE(copy.groups == table.groups());
}

template <class Table, unsigned Bytes>
void go_over(uint64_t seed) {
    Rng rng(seed);
    Pair<Table, Bytes> pair;
    typename Table::Copy followed, seldom;
    for (int turn = 0; turn < 2; ++turn) {
        while (pair.table.is_small()) {
            ASSERT_LE(pair.table.groups().size(), Table::kSmallGroups * kGroupEntries);
            if (pair.routes.size() % 100 == 0) bring_up(pair.table, followed);
            fill(pair, rng, pair.routes.size() + 1);
        }
        const size_t border = pair.routes.size();
        EXPECT_GT(border, 2 * Table::kFewRoutes) << "some changes are between a step and the one back";
        pair.compare(rng, 20'000);
        bring_up(pair.table, followed);
        // Changes at the border do not go to and fro.
        for (int i = 0; i < 50; ++i) {
            pair.erase_any(rng);
            ASSERT_FALSE(pair.table.is_small());
            fill(pair, rng, border);
        }
        fill(pair, rng, border + 500);
        pair.compare(rng, 5000);
        if (turn == 0) bring_up(pair.table, seldom);
        while (!pair.table.is_small()) {
            if (pair.routes.size() % 100 == 0) bring_up(pair.table, followed);
            pair.erase_any(rng);
        }
        EXPECT_EQ(pair.routes.size(), Table::kFewRoutes);
        EXPECT_LT(pair.table.groups_in_use(), Table::kSmallGroups / 2);
        pair.compare(rng, 20'000);
        bring_up(pair.table, followed);
        if (turn == 1) bring_up(pair.table, seldom);
    }
    while (!pair.routes.empty()) pair.erase_any(rng);
    EXPECT_EQ(pair.table.groups_in_use(), 0u);
    pair.compare(rng, 100);
    bring_up(pair.table, followed);
}
TEST(SizesOfTables, AnswerTheSameWhereTheyBecomeLargeAndSmallAgainIpv4) { go_over<Ipv4Lpm, 4>(6); }
TEST(SizesOfTables, AnswerTheSameWhereTheyBecomeLargeAndSmallAgainIpv6) { go_over<Ipv6Lpm, 16>(7); }

/// Bytes of what a table has, the routes by prefix left out.
template <class Table>
size_t bytes_of(const Table& table) {
    return (table.root().capacity() + table.groups().capacity()) * (sizeof(table.root()[0]) + 1);
}

TEST(SizesOfTables, TakeMemoryAsTheyGetRoutes) {
    Rng rng(8);
    for (const auto& [count, most] : std::vector<std::pair<size_t, size_t>>{
             {0, 0}, {1, 4 << 10}, {10, 32 << 10}, {100, 256 << 10}, {Ipv4Lpm::kFewRoutes, 1 << 20}}) {
        Pair<Ipv4Lpm, 4> pair;
        fill(pair, rng, count);
        EXPECT_LE(bytes_of(pair.table), most) << count;
    }
    Pair<Ipv6Lpm, 16> ipv6;
    fill(ipv6, rng, 10);
    EXPECT_LE(bytes_of(ipv6.table), size_t{192} << 10);
}

TEST(SizesOfTables, GiveMemoryBackWithTheirRoutes) {
    Rng rng(9);
    Pair<Ipv4Lpm, 4> pair;
    fill(pair, rng, 10'000);
    EXPECT_GT(bytes_of(pair.table), size_t{48} << 20);
    typename Ipv4Lpm::Copy copy;
    bring_up(pair.table, copy);
    while (pair.routes.size() > 10) pair.erase_last();
    EXPECT_LE(bytes_of(pair.table), size_t{1} << 20);
    bring_up(pair.table, copy);
    EXPECT_LE((copy.root.capacity() + copy.groups.capacity()) * sizeof(Ipv4Entry), size_t{1} << 20);
}

TEST(SizesOfTables, TakeAFractionOfASecondToBecomeLargeOrSmall) {
    Rng rng(10);
    Pair<Ipv4Lpm, 4> pair;
    double longest = 0;
    const auto timed = [&](auto&& change) {
        const std::clock_t begin = std::clock();
        change();
        longest = std::max(longest, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    };
    while (pair.table.is_small()) timed([&] { fill(pair, rng, pair.routes.size() + 1); });
    RecordProperty("growing-ms", std::to_string(longest * 1e3));
    std::printf("large at %zu routes: %.1f ms\n", pair.routes.size(), longest * 1e3);
    EXPECT_LT(longest, 1);
    longest = 0;
    while (!pair.table.is_small()) timed([&] { pair.erase_last(); });
    std::printf("small at %zu routes: %.1f ms\n", pair.routes.size(), longest * 1e3);
    EXPECT_LT(longest, 1);
}

}  // namespace
}  // namespace millrace::nf::prefixes
