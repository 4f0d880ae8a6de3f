// Classes of ports against the ranges that they are made of.
#include "millrace/nf/nids/compile/port_classes.hpp"

#include <gtest/gtest.h>

#include <random>

namespace millrace::nf::nids {
namespace {

/// `count` sets of a few ranges each, the first of all ports.
void make(size_t count, std::mt19937& random, std::vector<PortSet>& sets, std::vector<PortRange>& ranges) {
    sets.emplace_back();
    while (sets.size() < count) {
        PortSet set{static_cast<uint32_t>(ranges.size()), 0};
        for (uint32_t at = random() % 3 == 0 ? 0 : random() % 65536; at < 65536; at += 2 + random() % 40000) {
            const uint32_t high = random() % 4 == 0 ? 65535 : std::min<uint32_t>(65535, at + random() % 300);
            ranges.push_back({static_cast<uint16_t>(at), static_cast<uint16_t>(high)});
            ++set.count;
            at = high;
        }
        sets.push_back(set);
    }
}

TEST(PortClasses, TellWhatRangesTell) {
    std::mt19937 random(5);
    for (const size_t count : {1, 2, 31, 32, 33, 1023, 1025, 4097}) {
        std::vector<PortSet> sets;
        std::vector<PortRange> ranges;
        make(count, random, sets, ranges);
        const PortClasses classes = classify_ports(sets, ranges);
        ASSERT_EQ(classes.of_port.size(), 65536u);
        ASSERT_EQ(classes.words, (std::min<size_t>(count, kMaxClassedSets) + 31) / 32);
        for (uint32_t port = 0; port < 65536; port += port < 2 || port > 65500 ? 1 : 1 + random() % 200) {
            const uint32_t* row = classes.sets.data() + size_t{classes.of_port[port]} * classes.words;
            for (size_t set = 0; set < std::min<size_t>(count, kMaxClassedSets); ++set) {
                const auto first = ranges.begin() + sets[set].first;
                const bool in = set == 0 || std::any_of(first, first + sets[set].count, [&](const PortRange& range) {
                                    return range.low <= port && port <= range.high;
                                });
                ASSERT_EQ(row[set / 32] >> set % 32 & 1, in) << "port " << port << ", set " << set << " of " << count;
            }
        }
    }
}

TEST(PortClasses, AreFewWhereSetsAreFew) {
    const std::vector<PortSet> sets{{}, {0, 1}, {1, 1}};
    const PortClasses classes = classify_ports(sets, {{80, 80}, {0, 65535}});
    EXPECT_EQ(classes.sets, (std::vector<uint32_t>{5, 7}));
}

}  // namespace
}  // namespace millrace::nf::nids
