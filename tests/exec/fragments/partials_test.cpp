// What the table of incomplete packets finds is what a map finds, whatever comes and goes.
#include "millrace/exec/fragments/partials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "millrace/packet/bytes.hpp"

namespace millrace::exec {
namespace {

FragmentKey key_of(uint32_t source, uint32_t id, uint16_t port) {
    FragmentKey key;
    key.version = 4;
    store_be32(key.src, source);
    key.id = id;
    key.port = port;
    return key;
}

/// What the table ought to hold, oldest first.
struct Kept {
    uint32_t source, id;
    uint16_t port;
    uint32_t index;
};

class Room : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Partials, Room, testing::Values(1, 2, 31, 32, 33, 1000));

TEST_P(Room, FindsWhatAListFinds) {
    constexpr uint16_t kPorts = 3;
    Partials partials(GetParam(), kPorts);
    ASSERT_EQ(partials.lines(), kPorts + 1u);
    std::vector<Kept> kept;
    std::mt19937 rng(7);
    for (int step = 0; step < 4000; ++step) {
        // One port more than there are: what came by none.
        const uint32_t source = rng() % 5, id = rng() % (2 * GetParam() + 1);
        const auto port = static_cast<uint16_t>(rng() % (kPorts + 1));
        const FragmentKey key = key_of(source, id, port);
        const auto same = std::ranges::find_if(
            kept, [&](const Kept& k) { return k.source == source && k.id == id && k.port == port; });
        ASSERT_EQ(partials.find(key), same != kept.end() ? same->index : Partials::kNone);
        if (same != kept.end()) {
            partials.remove(same->index);
            kept.erase(same);
        } else if (!partials.is_full()) {
            const uint32_t index = partials.begin(key, static_cast<uint64_t>(step));
            ASSERT_EQ(partials[index].since_ns, static_cast<uint64_t>(step));
            kept.push_back({source, id, port, index});
        }
        ASSERT_EQ(partials.is_full(), kept.size() == GetParam());
        const auto from_there = [&](const Kept& k) { return k.source == source && k.port == port; };
        const Partials::OfSource of_source = partials.of_source(key);
        ASSERT_EQ(of_source.packets, static_cast<uint32_t>(std::ranges::count_if(kept, from_there)));
        const auto oldest = std::ranges::find_if(kept, from_there);
        ASSERT_EQ(of_source.oldest, oldest != kept.end() ? oldest->index : Partials::kNone);
        for (uint16_t line = 0; line <= kPorts; ++line) {
            const auto first = std::ranges::find_if(kept, [&](const Kept& k) { return k.port == line; });
            ASSERT_EQ(partials.oldest(line), first != kept.end() ? first->index : Partials::kNone);
        }
        ASSERT_EQ(partials.oldest_of_any() == Partials::kNone, kept.empty());
    }
}

TEST(Partials, WhatCameByNoPortHasALineOfItsOwn) {
    const Partials partials(1, 2);
    EXPECT_EQ(partials.line_of(0), 0u);
    EXPECT_EQ(partials.line_of(1), 1u);
    EXPECT_EQ(partials.line_of(2), 2u);
    EXPECT_EQ(partials.line_of(UINT16_MAX), 2u);
}

}  // namespace
}  // namespace millrace::exec
