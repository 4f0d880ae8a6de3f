#include "millrace/nf/prefixes/lpm.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>

namespace millrace::nf::prefixes {
namespace {

using Rng = std::mt19937_64;

/// Longest-prefix match as plainly as it can be written: a map for each length.
template <unsigned Bytes>
class PlainTable {
public:
    using Address = typename Rib<Bytes>::Address;
    void insert(const Address& address, unsigned length, uint16_t value) { routes_[length][address] = value; }
    bool erase(const Address& address, unsigned length) { return routes_[length].erase(address) > 0; }
    uint16_t lookup(const Address& address) const {
        for (auto [length, routes] = std::pair{routes_.rbegin(), 0}; length != routes_.rend(); ++length) {
            const auto found = length->second.find(Rib<Bytes>::mask(address, length->first));
            if (found != length->second.end()) return found->second;
        }
        return 0;
    }

private:
    std::map<unsigned, std::map<Address, uint16_t>> routes_;
};

/// Addresses that share many bits, so that prefixes nest and meet.
template <unsigned Bytes>
typename Rib<Bytes>::Address crowded_address(Rng& rng) {
    typename Rib<Bytes>::Address address{};
    for (auto& byte : address) byte = static_cast<uint8_t>(rng() % 5 == 0 ? rng() : rng() % 2 * 0x80 + rng() % 3);
    address[0] = static_cast<uint8_t>(rng() % 2 * 0x20);
    return address;
}

template <class Table, unsigned Bytes>
void change_at_random(uint64_t seed, int rounds) {
    Rng rng(seed);
    Table table;
    PlainTable<Bytes> plain;
    std::vector<std::pair<typename Rib<Bytes>::Address, unsigned>> present;
    for (int i = 0; i < rounds; ++i) {
        // Growing, then shrinking: groups come and go.
        const bool grow = rng() % 100 < (i / (rounds / 4) % 2 == 0 ? 70u : 30u);
        if (grow || present.empty()) {
            const unsigned length = static_cast<unsigned>(
                rng() % 4 == 0 ? rng() % (8 * Bytes + 1) : std::min<uint64_t>(8 * Bytes, 16 + rng() % 17));
            const auto address = Rib<Bytes>::mask(crowded_address<Bytes>(rng), length);
            const auto value = static_cast<uint16_t>(1 + rng() % (kMaxTargets - 1));
            const bool is_new = !table.rib().find(address, length).has_value();
            ASSERT_EQ(table.insert(address, length, value), is_new);
            plain.insert(address, length, value);
            if (is_new) present.push_back({address, length});
        } else {
            const size_t which = rng() % present.size();
            const auto [address, length] = present[which];
            ASSERT_TRUE(table.erase(address, length));
            ASSERT_FALSE(table.erase(address, length));
            ASSERT_TRUE(plain.erase(address, length));
            present[which] = present.back();
            present.pop_back();
        }
        for (int k = 0; k < 20; ++k) {
            auto address = crowded_address<Bytes>(rng);
            if (!present.empty() && k % 2 == 0) {
                // At and just beside the borders of a prefix.
                address = present[rng() % present.size()].first;
                if (k % 4 == 0) address[Bytes - 1] = static_cast<uint8_t>(address[Bytes - 1] ^ (rng() % 2 ? 0xff : 1));
            }
            ASSERT_EQ(table.lookup(address), plain.lookup(address)) << "round " << i;
        }
    }
    for (const auto& [address, length] : present) ASSERT_TRUE(table.erase(address, length));
    EXPECT_EQ(table.rib().size(), 0u);
    EXPECT_EQ(table.groups_in_use(), 0u) << "groups without a prefix in them are freed";
    EXPECT_TRUE(std::all_of(table.root().begin(), table.root().end(), [](auto entry) { return entry == 0; }));
}

TEST(Ipv4Lpm, AnswersAsAPlainTableUnderRandomInsertsAndDeletes) { change_at_random<Ipv4Lpm, 4>(1, 6000); }
TEST(Ipv6Lpm, AnswersAsAPlainTableUnderRandomInsertsAndDeletes) { change_at_random<Ipv6Lpm, 16>(2, 20000); }

TEST(Ipv4Lpm, GivesNothingWhenEmpty) {
    Ipv4Lpm table;
    EXPECT_EQ(table.lookup({1, 2, 3, 4}), 0);
    EXPECT_FALSE(table.erase({0, 0, 0, 0}, 0));
}

TEST(Ipv4Lpm, FallsBackToTheCoveringPrefixAfterADelete) {
    Ipv4Lpm table;
    table.insert({10, 0, 0, 0}, 8, 1);
    table.insert({10, 1, 0, 0}, 16, 2);
    table.insert({10, 1, 2, 128}, 25, 3);
    table.insert({10, 1, 2, 129}, 32, 4);
    EXPECT_EQ(table.lookup({10, 1, 2, 129}), 4);
    EXPECT_TRUE(table.erase({10, 1, 2, 128}, 25));
    EXPECT_EQ(table.lookup({10, 1, 2, 129}), 4);
    EXPECT_EQ(table.lookup({10, 1, 2, 130}), 2);
    EXPECT_TRUE(table.erase({10, 1, 0, 0}, 16));
    EXPECT_EQ(table.lookup({10, 1, 2, 130}), 1);
    EXPECT_EQ(table.lookup({10, 1, 2, 129}), 4);
    EXPECT_TRUE(table.erase({10, 0, 0, 0}, 8));
    EXPECT_EQ(table.lookup({10, 9, 9, 9}), 0);
    EXPECT_EQ(table.groups_in_use(), 3u);
    EXPECT_TRUE(table.erase({10, 1, 2, 129}, 32));
    EXPECT_EQ(table.groups_in_use(), 0u);
}

TEST(Ipv4Lpm, ChangesTheValueOfARoute) {
    Ipv4Lpm table;
    EXPECT_TRUE(table.insert({0, 0, 0, 0}, 0, 1));
    EXPECT_FALSE(table.insert({0, 0, 0, 0}, 0, 2));
    EXPECT_EQ(table.lookup({9, 9, 9, 9}), 2);
    EXPECT_EQ(table.rib().size(), 1u);
}

TEST(Ipv4Lpm, RefusesARouteForWhichThereIsNoGroupAndKeepsItsAnswers) {
    Ipv4Lpm table;
    table.insert({0, 0, 0, 0}, 0, 9);
    for (unsigned i = 0; i < 32768; ++i)
        table.insert({10, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i), 1}, 32, 7);
    EXPECT_THROW(table.insert({11, 0, 0, 1}, 32, 8), std::length_error);
    EXPECT_EQ(table.lookup({11, 0, 0, 1}), 9);
    EXPECT_EQ(table.lookup({10, 127, 255, 1}), 7);
    EXPECT_EQ(table.rib().size(), 32769u);
    EXPECT_TRUE(table.erase({10, 0, 0, 1}, 32));
    EXPECT_TRUE(table.insert({11, 0, 0, 1}, 32, 8)) << "the freed group is used again";
    EXPECT_EQ(table.lookup({11, 0, 0, 1}), 8);
}

TEST(Ipv4Lpm, IsTheSameWhateverTheOrderOfItsRoutes) {
    Rng rng(3);
    std::vector<Ipv4Lpm::Route> routes;
    for (int i = 0; i < 3000; ++i) {
        const auto length = static_cast<uint8_t>(8 + rng() % 25);
        routes.push_back(
            {Rib<4>::mask(crowded_address<4>(rng), length), length, true, static_cast<uint16_t>(1 + i % 99)});
    }
    std::map<std::pair<Rib<4>::Address, unsigned>, uint16_t> last;
    for (const auto& route : routes) last[{route.address, route.length}] = route.value;
    Ipv4Lpm bulk, longest_first;
    bulk.load(routes);
    for (auto it = last.rbegin(); it != last.rend(); ++it)
        longest_first.insert(it->first.first, it->first.second, it->second);
    EXPECT_TRUE(bulk.rib() == longest_first.rib()) << "of equal prefixes the last one wins";
    for (int i = 0; i < 100000; ++i) {
        const auto address = crowded_address<4>(rng);
        ASSERT_EQ(bulk.lookup(address), longest_first.lookup(address));
    }
}

TEST(Ipv6Lpm, MatchesUpToTheLastBit) {
    Ipv6Lpm table;
    Rib<16>::Address address{0x20, 0x01, 0x0d, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0xf0};
    for (unsigned length = 1; length <= 128; ++length)
        table.insert(Rib<16>::mask(address, length), length, static_cast<uint16_t>(length));
    EXPECT_EQ(table.lookup(address), 128u);
    for (unsigned bit = 0; bit < 128; ++bit) {
        auto other = address;
        other[bit / 8] = static_cast<uint8_t>(other[bit / 8] ^ (0x80 >> bit % 8));
        EXPECT_EQ(table.lookup(other), bit) << "the first difference ends the match";
    }
}

/// What a device has of a copy's memory: it takes what a revision says has changed, if it has the contents before it.
template <class Entry>
struct Twin {
    std::vector<Entry> has;
    const Entry* memory = nullptr;
    uint64_t revision = 0, taken = 0, whole = 0;  // bytes

    void follow(const std::vector<Entry>& copy, const Revision& now) {
        const uint64_t bytes = copy.size() * sizeof(Entry);
        has.resize(copy.size());
        if (memory == copy.data() && revision != 0 && revision == now.before) {
            uint64_t behind = 0;
            for (const Revision::Range& range : now.changed) {
                ASSERT_GE(range.first, behind) << "apart and in order";
                behind = range.first + range.bytes;
                ASSERT_LE(behind, bytes);
                std::memcpy(reinterpret_cast<uint8_t*>(has.data()) + range.first,
                            reinterpret_cast<const uint8_t*>(copy.data()) + range.first, range.bytes);
            }
            taken += now.changed_bytes();
        } else {
            has = copy;
            taken += bytes;
        }
        whole += bytes;
        memory = copy.data();
        revision = now.now;
        ASSERT_TRUE(has == copy);
    }
};

/// Copies of several ages, each brought up now and then, are what the table is.
template <class Table, unsigned Bytes>
void copy_at_random(uint64_t seed) {
    Rng rng(seed);
    Table table;
    std::vector<typename Table::Copy> copies(3);
    using Entry = std::decay_t<decltype(table.root()[0])>;
    std::vector<Twin<Entry>> roots(3), groups(3);
    std::set<uint64_t> numbers;
    std::vector<std::pair<typename Rib<Bytes>::Address, unsigned>> present;
    for (int i = 0; i < 3000; ++i) {
        if (rng() % 100 < (i / 750 % 2 == 0 ? 70u : 30u) || present.empty()) {
            const unsigned length = static_cast<unsigned>(16 + rng() % (8 * Bytes - 15));
            present.emplace_back(Rib<Bytes>::mask(crowded_address<Bytes>(rng), length), length);
            table.insert(present.back().first, length, static_cast<uint16_t>(1 + rng() % 1000));
        } else {
            std::swap(present[rng() % present.size()], present.back());
            table.erase(present.back().first, present.back().second);
            present.pop_back();
        }
        if (i % 50 != 0) continue;
        const size_t which = rng() % copies.size();
        typename Table::Copy& copy = copies[which];
        table.bring_up(copy);
        EXPECT_TRUE(numbers.insert(copy.root_revision->now).second);
        EXPECT_TRUE(numbers.insert(copy.groups_revision->now).second);
        roots[which].follow(copy.root, *copy.root_revision);
        groups[which].follow(copy.groups, *copy.groups_revision);
        ASSERT_EQ(copy.version, table.version());
        ASSERT_TRUE(copy.root == table.root()) << i;
        ASSERT_TRUE(copy.groups == table.groups()) << i;
    }
    for (const auto& root : roots) EXPECT_LT(root.taken, root.whole / 4) << "a device gets little";
}

TEST(Ipv4Lpm, BringsCopiesUpWhereAGroupHasGone) {
    Ipv4Lpm table;
    Ipv4Lpm::Copy copy;
    table.insert({10, 0, 0, 1}, 32, 7);
    table.bring_up(copy);
    EXPECT_NE(copy.root[10], 0);
    table.erase({10, 0, 0, 1}, 32);
    table.bring_up(copy);
    EXPECT_EQ(copy.root[10], 0);
}
TEST(Ipv4Lpm, BringsCopiesUpByWhatHasChanged) { copy_at_random<Ipv4Lpm, 4>(11); }
TEST(Ipv6Lpm, BringsCopiesUpByWhatHasChanged) { copy_at_random<Ipv6Lpm, 16>(12); }

TEST(Rib, KeepsItsRunsWholeWhenRoutesGo) {
    Rng rng(4);
    Rib<4> rib;
    std::map<std::pair<Rib<4>::Address, unsigned>, uint16_t> plain;
    for (int i = 0; i < 50000; ++i) {
        const auto length = static_cast<unsigned>(8 + rng() % 25);
        const auto address = Rib<4>::mask(crowded_address<4>(rng), length);
        if (rng() % 2) {
            rib.set(address, length, static_cast<uint16_t>(i));
            plain[{address, length}] = static_cast<uint16_t>(i);
        } else {
            ASSERT_EQ(rib.remove(address, length), plain.erase({address, length}) > 0);
        }
        ASSERT_EQ(rib.size(), plain.size());
    }
    for (const auto& [key, value] : plain) ASSERT_EQ(rib.find(key.first, key.second), value);
    size_t count = 0;
    rib.for_each([&](const Rib<4>::Route& route) { count += plain.at({route.address, route.length}) == route.value; });
    EXPECT_EQ(count, plain.size());
}

}  // namespace
}  // namespace millrace::nf::prefixes
