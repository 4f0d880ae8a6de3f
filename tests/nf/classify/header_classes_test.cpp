#include "millrace/nf/classify/acl/header_classes.hpp"

#include <stdexcept>

#include "engines.hpp"

namespace millrace::nf::classify::test {
namespace {

bool holds(const std::vector<std::pair<uint8_t, uint8_t>>& ranges, uint8_t number) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& range) { return range.first <= number && number <= range.second; });
}

/// Of every header that differs in protocol, ports, flags and connection, the class must lie in the box's ranges where
/// the header does.
void expect_exact(const RuleSet& rules) {
    const HeaderClasses classes(rules.boxes);
    for (const Box& box : rules.boxes) {
        const auto ranges = classes.ranges_of(box);
        HeaderKey key;
        key.ip_version = 4;
        key.src_port = box.src_port.low;
        key.dst_port = box.dst_port.low;
        for (unsigned has = 0; has < 4 * kConnections; ++has)
            for (unsigned i = 0; i < 256; ++i) {
                key.connection = static_cast<Connection>(has / 4);
                key.has = static_cast<uint8_t>(has % 4);
                key.protocol = key.has_flags() ? 6 : static_cast<uint8_t>(i);
                key.tcp_flags = static_cast<uint8_t>(key.has_flags() ? i : 0);
                const uint8_t number = key.has_flags() ? classes.of_tcp(key.connection, key.tcp_flags, key.has_ports())
                                                       : classes.of(key.connection, key.protocol, key.has_ports());
                ASSERT_EQ(holds(ranges, number), matches(box, key)) << text_of(box) << ": " << text_of(key);
            }
    }
}

TEST(HeaderClasses, HoldWhatTheBoxesHold) {
    expect_exact(RuleSet{});
    expect_exact(rules_of("deny ip\n"));
    expect_exact(
        rules_of("deny tcp flags SF/SF\ndeny tcp flags S/SA\npermit tcp to any port 80\npermit udp from any port 53\n"
                 "permit icmp\ndeny ip to any port 22\ndeny ip flags R/R\ndeny 132\npermit ip\n"));
    expect_exact(
        rules_of("deny ip state invalid\npermit ip state established,related\npermit tcp flags S/SA state new\n"
                 "permit udp to any port 53 state new,untracked\ndeny tcp to any port 22\npermit icmp state new\n"));
    RuleSet masks;
    masks.files.push_back("masks");
    for (const ByteMatch protocol :
         {ByteMatch{0, 0}, ByteMatch{0x10, 0x10}, ByteMatch{0, 0x01}, ByteMatch{6, 0xff}, ByteMatch{4, 0xf5}})
        for (const ByteMatch flags : {ByteMatch{0, 0}, ByteMatch{0x02, 0x12}, ByteMatch{0, 0xff}})
            for (const uint16_t port : {0, 1}) {
                Box box;
                box.protocol = protocol;
                box.tcp_flags = flags;
                box.dst_port.low = port;
                masks.add(Rule{}, box);
            }
    expect_exact(masks);
}

TEST(HeaderClasses, AreFewAndMostQuestionsAreOneRange) {
    const RuleSet rules = rules_of(
        "deny tcp flags SF/SF\npermit tcp to any port 80\npermit tcp\npermit udp to any port 53\npermit udp\n"
        "deny ip to any port 22\npermit icmp\npermit ip\n");
    const HeaderClasses classes(rules.boxes);
    EXPECT_LE(classes.size(), 12u);
    for (const Box& box : rules.boxes) {
        const bool common = box.tcp_flags.any() && (box.protocol.any() || box.protocol.value != 1);
        EXPECT_LE(classes.ranges_of(box).size(), common ? 1u : 2u) << text_of(box);
    }
}

TEST(HeaderClasses, OfConnectionsAreThereOnlyWhereRulesAskForThem) {
    const std::string rules = "permit tcp to any port 80\npermit udp\n";
    const size_t without = HeaderClasses(rules_of(rules).boxes).size();
    EXPECT_EQ(HeaderClasses(rules_of(rules + "permit ip state established,related\n").boxes).size(), 2 * without);
    const RuleSet usual = rules_of(
        "deny ip state invalid\npermit ip state established,related\npermit tcp state new\n");
    const HeaderClasses classes(usual.boxes);
    for (const Box& box : usual.boxes) EXPECT_LE(classes.ranges_of(box).size(), 1u) << text_of(box);
}

TEST(HeaderClasses, RefuseMoreThanAByteHolds) {
    RuleSet rules;
    rules.files.push_back("flags");
    for (unsigned bit = 0; bit < 8; ++bit) {
        Box box;
        box.tcp_flags = {static_cast<uint8_t>(1u << bit), static_cast<uint8_t>(1u << bit)};
        rules.add(Rule{}, box);
    }
    EXPECT_EQ(HeaderClasses(rules.boxes).size(), 256u);
    expect_exact(rules);
    Box ports;
    ports.dst_port.high = 1023;
    rules.add(Rule{}, ports);
    EXPECT_THROW(HeaderClasses{rules.boxes}, std::runtime_error);
}

}  // namespace
}  // namespace millrace::nf::classify::test
