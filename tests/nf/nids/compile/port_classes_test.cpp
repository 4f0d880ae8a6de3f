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
        // Each set is the source's of one header, the destination's of another, the application's of a third.
        std::vector<RuleHeader> headers(count);
        for (uint32_t i = 0; i < count; ++i) {
            headers[i].src_ports = i;
            headers[i].dst_ports = static_cast<uint32_t>((i + 1) % count);
            headers[i].application_ports = static_cast<uint32_t>((i + 2) % count);
        }
        const PortClasses classes = classify_ports(headers, sets, ranges);
        ASSERT_EQ(classes.of_port.size(), 65536u);
        if (count < kMaxClassedSets) ASSERT_EQ(classes.headers, count);
        else ASSERT_GT(classes.headers, 1000u);
        ASSERT_LE(classes.bits.size(), kMaxClassWords);
        const auto in = [&](uint32_t set, uint32_t port) {
            const auto first = ranges.begin() + sets[set].first;
            return set == 0 || std::any_of(first, first + sets[set].count, [&](const PortRange& range) {
                       return range.low <= port && port <= range.high;
                   });
        };
        for (uint32_t port = 0; port < 65536; port += port < 2 || port > 65500 ? 1 : 1 + random() % 200) {
            const uint32_t* row = classes.bits.data() + size_t{classes.of_port[port]} * classes.words;
            for (uint32_t i = 0; i < classes.headers; ++i) {
                const RuleHeader& header = headers[i];
                const uint32_t expected = (in(header.src_ports, port) ? port_bits::kSrc : 0) |
                                          (in(header.dst_ports, port) ? port_bits::kDst : 0) |
                                          (in(header.application_ports, port) ? port_bits::kApplication : 0);
                ASSERT_EQ(row[i / 8] >> i % 8 * 4 & 15, expected) << "port " << port << ", header " << i;
            }
        }
    }
}

TEST(PortClasses, AreFewWhereSetsAreFew) {
    const std::vector<PortSet> sets{{}, {0, 1}, {1, 1}};
    RuleHeader header;
    header.src_ports = 1;
    header.dst_ports = 2;
    const PortClasses classes = classify_ports({header}, sets, {{80, 80}, {0, 65535}});
    EXPECT_EQ(classes.bits, (std::vector<uint32_t>{port_bits::kDst | port_bits::kApplication, port_bits::kAll >> 1}));
}

TEST(PortClasses, EndWithTheFirstHeaderThatHasASetBeyond) {
    std::vector<RuleHeader> headers(kMaxClassedSets + 2);
    for (uint32_t i = 0; i < headers.size(); ++i) headers[i].dst_ports = i;
    std::vector<PortSet> sets(headers.size(), {0, 1});
    EXPECT_EQ(classify_ports(headers, sets, {{80, 80}}).headers, kMaxClassedSets);
}

TEST(PortClasses, LeaveOutHeadersThatThereIsNoRoomFor) {
    std::vector<PortSet> sets(1);
    std::vector<PortRange> ranges;
    for (uint32_t i = 0; i < 2000; ++i) {
        ranges.push_back({static_cast<uint16_t>(i * 3), static_cast<uint16_t>(i * 3)});
        sets.push_back({i, 1});
    }
    std::vector<RuleHeader> headers(70'000);
    for (uint32_t i = 0; i < headers.size(); ++i) headers[i].src_ports = i % 2001;
    const PortClasses classes = classify_ports(headers, sets, ranges);
    EXPECT_LE(classes.bits.size(), kMaxClassWords);
    EXPECT_GT(classes.headers, 10'000u);
    EXPECT_LT(classes.headers, headers.size());
}

TEST(PortClasses, HaveOneWordWhereThereIsNoHeader) {
    EXPECT_EQ(classify_ports({}, {{}}, {}).bits, std::vector<uint32_t>{0});
}

}  // namespace
}  // namespace millrace::nf::nids
