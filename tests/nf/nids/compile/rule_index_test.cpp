// Rules that no pattern leads to are found by addresses and ports: all of them, and no more than have the header.
#include "millrace/nf/nids/compile/rule_index.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"
#include "support/packet_builder.hpp"

namespace millrace::nf::nids {
namespace {

struct Span32 {
    uint32_t low, high;
};

/// What the index has for a value against a look at every range.
void check_index(unsigned bits, const std::vector<Span32>& spans, std::mt19937& random) {
    RangeIndexBuilder builder(bits);
    for (uint32_t i = 0; i < spans.size(); ++i) builder.add(spans[i].low, spans[i].high, i);
    builder.build();
    nf::Image image;
    NidsTables& tables = image.start<NidsTables>();
    std::vector<Listed> numbers;
    for (uint32_t i = 0; i < spans.size(); ++i) numbers.push_back(listed(i, 0, 0, false));
    builder.attach(image, tables.by_source, numbers);
    std::set<uint32_t> values{0, bits == 32 ? 0xffffffffu : (1u << bits) - 1};
    for (const Span32& span : spans)
        for (const uint32_t edge : {span.low - 1, span.low, span.high, span.high + 1}) values.insert(edge);
    for (int i = 0; i < 1000; ++i) values.insert(static_cast<uint32_t>(random()));
    for (uint32_t value : values) {
        if (bits < 32) value &= (1u << bits) - 1;
        std::vector<uint32_t> expected;
        for (uint32_t i = 0; i < spans.size(); ++i)
            if (spans[i].low <= value && value <= spans[i].high) expected.push_back(i);
        const List<Listed> list = detail::groups_at(tables.by_source, value);
        std::vector<uint32_t> found;
        for (uint32_t i = 0; i < list.count; ++i) found.push_back(list.first[i].number);
        ASSERT_EQ(found, expected) << value;
    }
}

TEST(RangeIndexBuilder, FindsAllRangesOfAValueForAnyNumberOfRanges) {
    std::mt19937 random(3);
    for (const unsigned bits : {18u, 32u})
        for (const size_t count : {0, 1, 31, 32, 33, 1023, 1024, 1025}) {
            std::vector<Span32> spans;
            for (size_t i = 0; i < count; ++i) {
                const uint32_t mask = bits == 32 ? 0xffffffffu : (1u << bits) - 1;
                const uint32_t low = static_cast<uint32_t>(random()) & mask;
                const uint32_t width = static_cast<uint32_t>(random()) >> (random() % 32);
                spans.push_back({low, low + std::min(width, mask - low)});
            }
            SCOPED_TRACE(std::to_string(bits) + " bits, " + std::to_string(count));
            check_index(bits, spans, random);
        }
    check_index(32, {{0, 0xffffffffu}, {0xffffffffu, 0xffffffffu}, {0, 0}}, random);
}

/// Whether the packet has all that the header `number` asks for.
template <class Buffers>
bool header_matches(uint32_t number, const HeaderTables& tables, const Packet& packet, Buffers& buffers) {
    return has_flags(tables.headers[number].flags, header_flags(packet, buffers)) &&
           has_endpoints(number, tables, packet, ports_of(tables, packet));
}

/// The rules that are tried for a packet, by the device's tables.
std::set<uint32_t> tried(const NidsTables& tables, const Packet& packet) {
    std::set<uint32_t> rules;
    for (uint32_t which = 0; which < detail::kIndexes; ++which) {
        const List<Listed> groups = detail::groups_without_pattern(tables, packet, which);
        for (uint32_t i = 0; i < groups.count; ++i) {
            const RuleGroup& group = tables.groups[groups.first[i].number];
            PayloadBuffers buffers(packet.payload(), packet.payload_bytes(), packet.layers().is_tcp());
            const bool has = header_matches(group.header, tables.header, packet, buffers);
            const bool may = may_be_for(groups.first[i], tables.header, header_flags(packet, buffers),
                                        ports_of(tables.header, packet));
            EXPECT_TRUE(may || !has);
            EXPECT_TRUE(has || !may || !tells_all(groups.first[i], tables.header));
            if (!has) continue;
            for (uint32_t k = 0; k < group.count; ++k) rules.insert(tables.grouped_rules[group.first + k]);
        }
    }
    return rules;
}

/// Of every combination of some addresses and ports.
std::vector<test::PacketSpec> packets() {
    std::vector<test::PacketSpec> all;
    const auto add = [&](test::PacketSpec spec) {
        for (const uint16_t src : {80, 443, 53, 5000})
            for (const uint16_t dst : {80, 443, 53, 6000}) {
                spec.payload = {'x'};
                spec.udp.reset();
                spec.tcp.emplace();
                spec.tcp->src = src;
                spec.tcp->dst = dst;
                all.push_back(spec);
                spec.tcp.reset();
                spec.udp.emplace();
                spec.udp->src = src;
                spec.udp->dst = dst;
                all.push_back(spec);
            }
    };
    for (const char* const src : {"10.1.2.3", "10.9.9.9", "192.0.2.7", "172.16.0.1"})
        for (const char* const dst : {"10.1.2.3", "10.1.9.9", "8.8.8.8"}) {
            test::PacketSpec spec;
            spec.ipv4.emplace();
            spec.ipv4->src = test::ipv4(src);
            spec.ipv4->dst = test::ipv4(dst);
            add(spec);
        }
    for (const char* const src : {"2001:db8::1", "2001:db9::1"}) {
        test::PacketSpec spec;
        spec.ipv6.emplace();
        spec.ipv6->src = test::ipv6(src);
        add(spec);
    }
    return all;
}

TEST(HeaderIndex, LeadsToEveryRuleWhoseHeaderAPacketHas) {
    const std::string address[] = {"any",
                                   "10.0.0.0/8",
                                   "10.1.2.3",
                                   "!10.1.2.3",
                                   "[10.1.0.0/16,192.0.2.0/24]",
                                   "[10.1.0.0/16,2001:db8::/32]",
                                   "2001:db8::/32"};
    const std::string port[] = {"any", "80", "[80,443]", "!80", "1024:", "53"};
    std::mt19937 random(4);
    const auto pick = [&](const auto& list) { return list[random() % std::size(list)]; };
    std::string text;
    constexpr size_t kRules = 1025;
    for (size_t i = 0; i < kRules; ++i) {
        const char* const protocols[] = {"tcp", "udp", "ip"};
        const char* const arrows[] = {"->", "->", "<>"};
        text += std::string("alert ") + pick(protocols) + " " + pick(address) + " " + pick(port) + " " + pick(arrows) +
                " " + pick(address) + " " + pick(port) + " (msg:\"t\"; dsize:>0; sid:" + std::to_string(i + 1) + ";)\n";
    }
    RuleFile file = parse_rules(text, "test.rules", Variables::defaults());
    ASSERT_TRUE(file.errors.empty()) << file.errors[0].message;
    const CompiledRules rules = compile(std::move(file.rules), false);
    ASSERT_EQ(rules.without_pattern.rules(), kRules);
    EXPECT_LT(rules.headers.size(), kRules) << "equal headers are one";
    nf::Image image;
    rules.attach(image);
    const auto& tables = *static_cast<const NidsTables*>(image.tables());
    size_t found = 0;
    for (const test::PacketSpec& spec : packets()) {
        test::Frame frame = test::build(spec);
        Packet packet;
        const auto bytes = static_cast<uint32_t>(frame.size());
        packet.attach(frame.data(), bytes, bytes, 0, 0);
        packet.parse();
        ASSERT_EQ(packet.payload_bytes(), 1u);
        std::set<uint32_t> expected;
        PayloadBuffers buffers(packet.payload(), packet.payload_bytes(), packet.layers().is_tcp());
        for (uint32_t i = 0; i < rules.compiled.size(); ++i)
            if (header_matches(rules.compiled[i].header, tables.header, packet, buffers)) expected.insert(i);
        EXPECT_EQ(tried(tables, packet), expected) << test::hex_dump(frame);
        found += expected.size();
    }
    EXPECT_GT(found, kRules);
}

}  // namespace
}  // namespace millrace::nf::nids
