// Rules from text: what is read, and what is said of mistakes.
#include <gtest/gtest.h>

#include "nf/classify/engines.hpp"

namespace millrace::nf::classify {
namespace {

using test::rules_of;

std::vector<Diagnostic> mistakes_of(const std::function<void(RuleSet&)>& load) {
    RuleSet rules;
    try {
        load(rules);
    } catch (const ConfigError& error) {
        return error.diagnostics();
    }
    return {};
}

/// The one mistake of a text rule: `column: message | hint`.
std::string mistake_in_file(const std::string& rule) {
    const auto mistakes = mistakes_of(
        [&](RuleSet& rules) { load_text_rules("permit ip\n" + rule + "\n", "edge.rules", rules); });
    if (mistakes.size() != 1 || mistakes[0].where.file != "edge.rules" || mistakes[0].where.line != 2)
        return "no or another mistake";
    return std::to_string(mistakes[0].where.column) + ": " + mistakes[0].message + " | " + mistakes[0].hint;
}

std::string bench_mistake_in(const std::string& rule, bool match_flags = false) {
    const auto mistakes = mistakes_of([&](RuleSet& rules) {
        load_classbench("@10.0.0.0/8 0.0.0.0/0 0 : 1 2 : 3 0x06/0xFF\n" + rule + "\n", "bench",
                        {.match_flags = match_flags}, rules);
    });
    if (mistakes.size() != 1 || mistakes[0].where.line != 2) return "no or another mistake";
    return std::to_string(mistakes[0].where.column) + ": " + mistakes[0].message;
}

TEST(TextRules, ReadEveryPartOfARule) {
    const auto rule = parse_text_rule(
        "  deny tcp,udp from 10.0.0.0/8, 192.0.2.1 port 1024-65535 to any port 22-23,80 priority -7 name \"no # way\" "
        "# why");
    ASSERT_TRUE(rule.has_value());
    EXPECT_EQ(rule->action, Action::deny);
    EXPECT_EQ(rule->match.protocols, (std::vector<ByteMatch>{{6, 0xff}, {17, 0xff}}));
    ASSERT_EQ(rule->match.src.size(), 2u);
    EXPECT_EQ(rule->match.src[0].text(), "10.0.0.0/8");
    EXPECT_EQ(rule->match.src[1].text(), "192.0.2.1/32");
    EXPECT_EQ(rule->match.src_ports, (std::vector<PortRange>{{1024, 65535}}));
    EXPECT_TRUE(rule->match.dst.empty());
    EXPECT_EQ(rule->match.dst_ports, (std::vector<PortRange>{{22, 23}, {80, 80}}));
    EXPECT_EQ(rule->priority, -7);
    EXPECT_EQ(rule->name, "no # way");
    EXPECT_EQ(
        rule->text,
        "deny tcp,udp from 10.0.0.0/8, 192.0.2.1 port 1024-65535 to any port 22-23,80 priority -7 name \"no # way\"");
}

TEST(TextRules, ReadStatesOfConnections) {
    const auto states = [](const char* text) { return parse_text_rule(text)->connections; };
    EXPECT_TRUE(states("permit ip").any());
    EXPECT_TRUE(states("permit ip state any").any());
    EXPECT_TRUE(states("permit ip state new,established,related,invalid,untracked").any());
    const ConnectionSet some = states("deny tcp to any port 80 state established, related priority 3");
    for (const Connection in : {Connection::established, Connection::related}) EXPECT_TRUE(some.contains(in));
    for (const Connection out : {Connection::opening, Connection::invalid, Connection::untracked})
        EXPECT_FALSE(some.contains(out));
    EXPECT_EQ(mistake_in_file("permit ip state estabished"),
              "17: 'estabished' is not a state of connections | did you mean 'established'?");
    EXPECT_EQ(mistake_in_file("permit ip state 7"),
              "17: '7' is not a state of connections | the states are untracked, new, established, related, invalid");
    EXPECT_EQ(mistake_in_file("permit ip state new state new"),
              "21: 'state' stands twice in this rule | keep one of them");
    EXPECT_EQ(mistake_in_file("permit ip state new, any"),
              "17: 'any' stands in a list with other values | write 'any' alone");
}

TEST(YamlRules, ReadStatesOfConnections) {
    RuleSet rules;
    load_yaml_rules(Config::parse("[{action: permit, state: new}, {action: deny, state: [invalid, untracked]}, "
                                  "{action: deny, state: any}]"),
                    rules);
    ASSERT_EQ(rules.boxes.size(), 3u);
    EXPECT_EQ(rules.boxes[0].connections, set_of({Connection::opening}));
    EXPECT_EQ(rules.boxes[1].connections, set_of({Connection::invalid, Connection::untracked}));
    EXPECT_TRUE(rules.boxes[2].connections.any());
    for (const char* wrong : {"state: [new, any]", "state: []", "state: old"})
        EXPECT_THROW(load_yaml_rules(Config::parse("[{action: permit, " + std::string(wrong) + "}]"), rules),
                     ConfigError)
            << wrong;
}

TEST(TextRules, SkipEmptyLinesAndComments) {
    EXPECT_FALSE(parse_text_rule(""));
    EXPECT_FALSE(parse_text_rule(" \t "));
    EXPECT_FALSE(parse_text_rule("  # permit ip"));
    const RuleSet rules = rules_of("# head\r\n\r\npermit ip\r\n");
    ASSERT_EQ(rules.rules.size(), 1u);
    EXPECT_EQ(rules.rules[0].line, 3u);
}

TEST(TextRules, MakeABoxForEachCombinationWithinAFamily) {
    const RuleSet rules = rules_of(
        "permit tcp,udp from 10.0.0.0/8,2001:db8::/32 to 192.0.2.1,2001:db8::1 port 1,2\npermit ip\npermit ip to "
        "::1\n");
    EXPECT_EQ(rules.boxes.size(), 8u + 1 + 1);  // two pairs of addresses of four share a family
    EXPECT_TRUE(rules.boxes[8].ipv4 && rules.boxes[8].ipv6);
    EXPECT_TRUE(!rules.boxes[9].ipv4 && rules.boxes[9].ipv6);
    EXPECT_EQ(rules.rules[2].first_box, 9u);
}

TEST(TextRules, GoBackIntoTheSameWords) {
    for (const char* text :
         {"ip from any to any", "tcp from 10.0.0.0/8 port 5 to any port 22-23", "udp from any to 2001:db8::/32",
          "ip from 0.0.0.0/0 to 0.0.0.0/0", "ip from ::/0 to ::/0", "tcp from any to any flags S/SA",
          "ip from any to any state new,established", "tcp from any to any flags S/SA state invalid",
          "icmpv6 from any to ::1/128", "254 from any to any"}) {
        EXPECT_EQ(text_of(rules_of(std::string("permit ") + text).boxes[0]), text);
    }
}

TEST(TextRules, PointAtTheWordThatIsWrong) {
    EXPECT_EQ(mistake_in_file("drop tcp"), "1: 'drop' is neither permit nor deny | did you mean 'deny'?");
    EXPECT_EQ(mistake_in_file("  permit tcpp from any"), "10: 'tcpp' is not a protocol | did you mean 'tcp'?");
    EXPECT_EQ(mistake_in_file("permit tcp form any"), "12: 'form' is not expected here | did you mean 'from'?");
    EXPECT_EQ(mistake_in_file("permit tcp from 10.0.0.1/8"),
              "17: '10.0.0.1/8' has bits set behind its length | write 10.0.0.0/8");
    EXPECT_EQ(mistake_in_file("permit tcp from 10.0.0.256"),
              "17: '10.0.0.256' is not an IP address or prefix | write it as 192.0.2.0/24, 2001:db8::/32, or 'any'");
    EXPECT_EQ(mistake_in_file("permit tcp from"), "16: an address or 'any' is missing at the end of the rule | ");
    EXPECT_EQ(mistake_in_file("permit tcp from , 10.0.0.1"), "17: an address or 'any' is missing before the comma | ");
    EXPECT_EQ(mistake_in_file("permit tcp to any port 22-x"),
              "27: 'x' is not a port | write a number from 0 to 65535, or a range such as 8000-8099");
    EXPECT_EQ(mistake_in_file("permit tcp to any port 23-22"), "24: '23-22' ends before it begins | write 22-23");
    EXPECT_EQ(mistake_in_file("permit tcp to any, 10.0.0.1"),
              "15: 'any' stands in a list with other values | write 'any' alone");
    EXPECT_EQ(mistake_in_file("permit tcp to any from any"),
              "19: 'from' does not belong here | the order is: action, protocol, from ADDRESS port PORT, to ADDRESS "
              "port PORT, options");
    EXPECT_EQ(mistake_in_file("permit tcp port 80"),
              "12: 'port' does not belong here | the order is: action, protocol, from ADDRESS port PORT, to ADDRESS "
              "port PORT, options");
    EXPECT_EQ(mistake_in_file("permit tcp priority 1 priority 2"),
              "23: 'priority' stands twice in this rule | keep one of them");
    EXPECT_EQ(mistake_in_file("permit tcp priority high"),
              "21: 'high' is not a priority | write a whole number from -2147483648 to 2147483647; the higher is tried "
              "first");
    EXPECT_EQ(mistake_in_file("permit tcp priority 2147483648"),
              "21: '2147483648' is not a priority | write a whole number from -2147483648 to 2147483647; the higher is "
              "tried first");
    EXPECT_EQ(mistake_in_file("permit tcp name \"open"),
              "17: the quotation mark is not closed | end the name with '\"'");
    EXPECT_EQ(mistake_in_file("permit tcp flags S/X"),
              "20: 'X' is not a TCP flag | the flags are F(IN), S(YN), R(ST), P(SH), A(CK), U(RG), E(CE) and (C)W(R)");
}

TEST(TextRules, RefuseWhatNoPacketCanBe) {
    EXPECT_EQ(mistake_in_file("permit icmp to any port 5"),
              "1: the rule asks for a port, and icmp has none that a firewall sees | leave the port out, or write tcp "
              "or udp");
    EXPECT_EQ(mistake_in_file("permit udp flags S/SA"), "1: the rule asks for TCP flags, and udp has none | write tcp");
    EXPECT_EQ(mistake_in_file("permit ip from 10.0.0.1 to ::1"),
              "1: no packet has an IPv4 and an IPv6 address | write both addresses in one family");
}

TEST(TextRules, RefuseListsThatMultiplyBeyondReason) {
    std::string ports = "0";
    for (int i = 1; i < 300; ++i) ports += "," + std::to_string(2 * i);
    EXPECT_EQ(mistake_in_file("permit tcp from any port " + ports + " to any port " + ports),
              "1: the lists of this rule make more than 65536 combinations | split it into several rules");
}

TEST(TextRules, ReportEveryWrongLineUpToSome) {
    const auto three = mistakes_of(
        [](RuleSet& rules) { load_text_rules("x\npermit ip\ny\n\nz\n", "edge.rules", rules); });
    ASSERT_EQ(three.size(), 3u);
    EXPECT_EQ(three[1].where.line, 3u);
    EXPECT_EQ(three[2].where.line, 5u);
    std::string many;
    for (int i = 0; i < 1000; ++i) many += "nonsense\n";
    const auto some = mistakes_of([&](RuleSet& rules) { load_text_rules(many, "edge.rules", rules); });
    ASSERT_EQ(some.size(), 51u);
    EXPECT_EQ(some[50].message, "950 more lines are wrong");
}

TEST(YamlRules, TellTheLineOfEachMistake) {
    const auto mistakes = mistakes_of([](RuleSet& rules) {
        load_yaml_rules(Config::parse("- permit tcp\n- permit tcpp\n- {action: drop}\n- {action: deny, port: 5}\n- "
                                      "''\n- {action: deny, protocol: icmp, dst-port: 5}\n",
                                      "chain.yaml"),
                        rules);
    });
    ASSERT_EQ(mistakes.size(), 5u);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(mistakes[i].where.line, i + 2);
    EXPECT_EQ(mistakes[0].message, "'tcpp' is not a protocol");
    EXPECT_EQ(mistakes[1].message, "'drop' is not one of permit, deny");
    EXPECT_EQ(mistakes[2].message, "unknown field 'port'");
    EXPECT_EQ(mistakes[3].message, "this rule is empty");
    EXPECT_EQ(mistakes[4].message, "the rule asks for a port, and icmp has none that a firewall sees");
}

TEST(ClassBench, ReadsTabsBlanksAndTheFlagsColumn) {
    RuleSet rules;
    load_classbench(
        "@10.0.0.0/8\t192.0.2.1/32\t5 : 5\t0 : 65535\t0x06/0xFF\t0x1000/0x1000\t\n"
        "@10.0.0.0/8 192.0.2.1/32 5:6 0 : 65535 0x00/0x00 \r\n\n# comment\n"
        "@2001:db8::/32\t::/0\t0 : 65535\t0 : 65535\t0x3A/0xff\t0x0303/0xffff\t\n",
        "bench", {.match_flags = true}, rules);
    ASSERT_EQ(rules.boxes.size(), 3u);
    EXPECT_EQ(text_of(rules.boxes[0]), "tcp from 10.0.0.0/8 port 5 to 192.0.2.1/32 flags A/A");
    EXPECT_EQ(text_of(rules.boxes[1]), "ip from 10.0.0.0/8 port 5-6 to 192.0.2.1/32");
    EXPECT_EQ(text_of(rules.boxes[2]), "icmpv6 from 2001:db8::/32 to any");
    EXPECT_TRUE(rules.boxes[2].ipv6 && !rules.boxes[2].ipv4);
    EXPECT_EQ(rules.rules[2].line, 5u);
}

TEST(ClassBench, PointsAtTheColumnThatIsWrong) {
    const std::string good = "@10.0.0.0/8 0.0.0.0/0 0 : 1 2 : 3 0x06/0xFF";
    EXPECT_EQ(bench_mistake_in(good), "no or another mistake");
    EXPECT_EQ(bench_mistake_in("10.0.0.0/8 0.0.0.0/0 0 : 1 2 : 3 0x06/0xFF"),
              "1: '@' is missing at the start of the rule");
    EXPECT_EQ(bench_mistake_in("@10.0.0.1/8 0.0.0.0/0 0 : 1 2 : 3 0x06/0xFF"),
              "2: '10.0.0.1/8' has bits set behind its length");
    EXPECT_EQ(bench_mistake_in("@10.0.0.0/8 ::/0 0 : 1 2 : 3 0x06/0xFF"), "1: one address is IPv4, the other IPv6");
    EXPECT_EQ(bench_mistake_in("@10.0.0.0/8 0.0.0.0/0 1 : 0 2 : 3 0x06/0xFF"),
              "23: the port range ends before it begins");
    EXPECT_EQ(bench_mistake_in("@10.0.0.0/8 0.0.0.0/0 0 - 1 2 : 3 0x06/0xFF"), "25: ':' is missing between two ports");
    EXPECT_EQ(bench_mistake_in("@10.0.0.0/8 0.0.0.0/0 0 : 65536 2 : 3 0x06/0xFF"),
              "27: a port from 0 to 65535 is wanted here");
    EXPECT_EQ(bench_mistake_in("@10.0.0.0/8 0.0.0.0/0 0 : 1 2 : 3 6"), "35: the protocol has no mask");
    EXPECT_EQ(bench_mistake_in("@10.0.0.0/8 0.0.0.0/0 0 : 1 2 : 3 0x106/0xFF"),
              "35: '0x106' is not a hexadecimal number up to 0xFF");
    EXPECT_EQ(bench_mistake_in("@10.0.0.0/8 0.0.0.0/0 0 : 1 2 : 3"), "34: the protocol is missing");
    EXPECT_EQ(bench_mistake_in(good + " 0x0000/0x0000 more"), "59: there is more behind the rule");
    EXPECT_EQ(bench_mistake_in(good + " 0x0001/0x0001"), "no or another mistake");
    EXPECT_EQ(bench_mistake_in(good + " 0x0001/0x0001", true),
              "51: the low byte of the TCP flags is masked, and holds none");
}

TEST(RuleSet, RefusesMoreBoxesThanItsLimit) {
    RuleSet rules;
    rules.boxes.resize(RuleSet::kMaxBoxes);
    EXPECT_THROW(rules.add(Rule{}, Box{}), WordMistake);
    EXPECT_THROW(rules.add(Rule{}, FiveTupleMatch{}, ByteMatch{}), WordMistake);
}

TEST(RuleSet, OrdersByPriorityThenAsLoaded) {
    const RuleSet rules = rules_of(
        "permit tcp\npermit udp priority 5\npermit icmp\npermit 47 priority 5\npermit ip priority -1\n");
    EXPECT_EQ(rules.in_order(), (std::vector<uint32_t>{1, 3, 0, 2, 4}));
}

}  // namespace
}  // namespace millrace::nf::classify
