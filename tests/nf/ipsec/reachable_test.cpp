// Policies that no packet can reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <ctime>
#include <random>

#include "millrace/nf/ipsec/reachable.hpp"

namespace millrace::nf::ipsec {
namespace {

Address ipv4(uint32_t host_order) { return {{__builtin_bswap32(host_order), 0, 0, 0}}; }
uint32_t mask_of(unsigned length) { return length == 0 ? 0 : ~uint32_t{0} << (32 - length); }

Selector selector(uint32_t src, unsigned src_length, uint32_t dst, unsigned dst_length) {
    Selector made;
    made.src = ipv4(src & mask_of(src_length));
    made.src_mask = ipv4(mask_of(src_length));
    made.dst = ipv4(dst & mask_of(dst_length));
    made.dst_mask = ipv4(mask_of(dst_length));
    return made;
}

/// All packets of a world of four addresses, three ports and two families that a selector takes.
std::bitset<96> packets_of(const Selector& s) {
    std::bitset<96> taken;
    unsigned bit = 0;
    for (const bool ipv6 : {false, true})
        for (uint32_t src = 0; src < 4; ++src)
            for (uint32_t dst = 0; dst < 4; ++dst)
                for (const uint16_t port : {5, 10, 20}) {
                    const bool inside = (ipv4(src).words[0] & s.src_mask.words[0]) == s.src.words[0] &&
                                        (ipv4(dst).words[0] & s.dst_mask.words[0]) == s.dst.words[0];
                    const bool ports = s.any_port || (s.dst_port_first <= port && port <= s.dst_port_last);
                    if (s.ipv6 == ipv6 && inside && ports) taken.set(bit);
                    ++bit;
                }
    return taken;
}

TEST(ReachablePolicies, AreFoundAsComparingAllPacketsFindsThem) {
    std::mt19937 random(11);
    unsigned hidden = 0;
    for (unsigned table = 0; table < 300; ++table) {
        ReachablePolicies policies;
        std::vector<std::vector<Selector>> all;
        for (unsigned i = 0; i < 12; ++i) {
            std::vector<Selector> selectors;
            for (unsigned count = 1 + random() % 2; count > 0; --count) {
                Selector made = selector(random() % 4, 30 + random() % 3, random() % 4, 30 + random() % 3);
                made.ipv6 = random() % 2 == 0;
                made.any_port = random() % 2 == 0;
                if (!made.any_port) {
                    made.dst_port_first = random() % 2 == 0 ? 10 : 0;
                    made.dst_port_last = random() % 2 == 0 ? 20 : 10;
                }
                selectors.push_back(made);
            }
            // One earlier selector for each of its own: what several take together only is not looked for.
            std::optional<size_t> expected;
            for (size_t earlier = 0; earlier < all.size() && !expected; ++earlier)
                if (std::ranges::all_of(selectors, [&](const Selector& own) {
                        return std::ranges::any_of(all[earlier], [&](const Selector& wide) {
                            return (packets_of(own) & ~packets_of(wide)).none() && (wide.any_port || !own.any_port);
                        });
                    }))
                    expected = earlier;
            EXPECT_EQ(policies.add(selectors), expected) << "table " << table << ", policy " << i;
            hidden += expected.has_value();
            all.push_back(std::move(selectors));
        }
    }
    EXPECT_GT(hidden, 300u);
}

TEST(ReachablePolicies, TellTheFirstThatHides) {
    ReachablePolicies policies;
    EXPECT_EQ(policies.add({selector(0x0a010000, 16, 0, 0)}), std::nullopt);
    EXPECT_EQ(policies.add({selector(0x0a000000, 8, 0, 0)}), std::nullopt);
    EXPECT_EQ(policies.add({selector(0x0a010200, 24, 0xc0000200, 24)}), 0u);
    EXPECT_EQ(policies.add({selector(0x0a020200, 24, 0xc0000200, 24)}), 1u);
    // Both of its selectors have to be hidden, and by one policy.
    EXPECT_EQ(policies.add({selector(0x0a020300, 24, 0, 0), selector(0x0b000000, 8, 0, 0)}), std::nullopt);
}

/// Nanoseconds of this thread for as many policies as a hub has that all spokes go to.
uint64_t time_of(unsigned spokes) {
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
    };
    const uint64_t begin = now();
    ReachablePolicies policies;
    for (unsigned i = 0; i < spokes; ++i)
        EXPECT_EQ(policies.add({selector(0x0a000000, 8, 0x14000000 + (i << 8), 24)}), std::nullopt);
    return now() - begin;
}

/// Ten times as many take ten times as long, and some more for the cache's sake; comparing each with each: a hundred.
TEST(ReachablePolicies, TakeTimeThatGrowsWithTheTable) {
    uint64_t few = ~uint64_t{0};
    for (unsigned attempt = 0; attempt < 3; ++attempt) few = std::min(few, time_of(4'000));
    EXPECT_LT(time_of(40'000), 40 * few);
}

}  // namespace
}  // namespace millrace::nf::ipsec
