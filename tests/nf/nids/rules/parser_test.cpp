// The rule language: what is read, what is refused, and where it says so.
#include <gtest/gtest.h>

#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"

namespace millrace::nf::nids {
namespace {

RuleFile parsed(const std::string& text) { return parse_rules(text, "test.rules", Variables::defaults()); }

Rule one(const std::string& text) {
    RuleFile file = parsed(text);
    EXPECT_TRUE(file.errors.empty()) << text << ": " << (file.errors.empty() ? "" : file.errors[0].message);
    EXPECT_EQ(file.rules.size(), 1u) << text;
    return file.rules.empty() ? Rule{} : file.rules[0];
}

Rule with(const std::string& options) {
    return one("alert tcp any any -> any any (msg:\"t\"; " + options + " sid:1;)");
}

void expect_broken(const std::string& text, uint32_t line, uint32_t column, const std::string& part) {
    const RuleFile file = parsed(text);
    ASSERT_EQ(file.errors.size(), 1u) << text;
    EXPECT_EQ(file.errors[0].where.line, line) << text;
    EXPECT_EQ(file.errors[0].where.column, column) << text << ": " << file.errors[0].message;
    EXPECT_NE(file.errors[0].message.find(part), std::string::npos) << file.errors[0].message;
}

TEST(RuleParser, KeepsWhatARuleSaysOfItself) {
    const Rule rule = one(
        "alert tcp any any -> any 80 (msg:\"a \\\"b\\\"\\; c\"; gid:3; sid:12; rev:4; classtype:trojan-activity; "
        "priority:2; "
        "reference:cve,2020-1; metadata:created_at 2020_01_01, policy drop;)");
    EXPECT_EQ(rule.message, "a \"b\"; c");
    EXPECT_EQ(rule.gid, 3u);
    EXPECT_EQ(rule.sid, 12u);
    EXPECT_EQ(rule.revision, 4u);
    EXPECT_EQ(rule.class_type, "trojan-activity");
    EXPECT_EQ(rule.priority, 2u);
    EXPECT_EQ(rule.references.at(0), "cve,2020-1");
    ASSERT_EQ(rule.metadata.size(), 2u);
    EXPECT_EQ(rule.metadata[1].second, "drop");
    EXPECT_EQ(rule.where.line, 1u);
}

TEST(RuleParser, JoinsLinesByBackslashAndByOpenParentheses) {
    const RuleFile file = parsed(
        "# comment\n\nalert tcp any any -> any any \\\n  (msg:\"a\"; sid:1;)\n#alert off\nalert http (\n  msg:\"b\";\n "
        " # why\n  sid:2;\n)\n");
    ASSERT_EQ(file.rules.size(), 2u);
    EXPECT_EQ(file.rules[0].where.line, 3u);
    EXPECT_EQ(file.rules[1].where.line, 6u);
    EXPECT_EQ(file.rules[1].sid, 2u);
}

TEST(RuleParser, SaysWhereARuleIsBroken) {
    expect_broken("\n alrt tcp any any -> any any (sid:1;)", 2, 2, "not an action");
    expect_broken("alert tcp any any => any (sid:1;)", 1, 22, "words");
    expect_broken("alert tcp any any >> any any (sid:1;)", 1, 19, "not a direction");
    expect_broken("alert tcp 10.0.0.256 any -> any any (sid:1;)", 1, 11, "not an address");
    expect_broken("alert tcp [10.0.0.1,,1.1.1.1] any -> any any (sid:1;)", 1, 21, "missing");
    expect_broken("alert tcp $HOM_NET any -> any any (sid:1;)", 1, 11, "not defined");
    expect_broken("alert tcp any 70000 -> any any (sid:1;)", 1, 15, "not a port");
    expect_broken("alert tcp any 90:80 -> any any (sid:1;)", 1, 15, "ends before");
    expect_broken("alert tcp any any -> any any", 1, 1, "options are missing");
    expect_broken("alert tcp any any -> any any (msg:\"a; sid:1;)", 1, 30, "not closed");
    expect_broken("alert tcp any any -> any any (sid:x;)", 1, 35, "not a number");
    expect_broken("alert tcp any any -> any any (content:\"|4|\"; sid:1;)", 1, 42, "half a byte");
    expect_broken("alert tcp any any -> any any (content:\"|4g|\"; sid:1;)", 1, 42, "hexadecimal");
    expect_broken("alert tcp any any -> any any (content:\"\"; sid:1;)", 1, 39, "empty");
    expect_broken("alert tcp any any -> any any (depth:4; content:\"a\"; sid:1;)", 1, 31, "no content before");
    expect_broken("alert tcp any any -> any any (flags:Q; sid:1;)", 1, 37, "bits");
    expect_broken("alert tcp any any -> any any (\\\n  dsize:4<>2; sid:1;)", 2, 9, "ends before");
    expect_broken("alert tcp any any -> any any (pcre:\"/a/k\"; sid:1;)", 1, 39, "flag");
    expect_broken("alert tcp any any -> any any (byte_test:1,~,1,0; sid:1;)", 1, 43, "comparison");
    expect_broken("alert tcp any any -> any any (flow:sideways; sid:1;)", 1, 36, "flow");
    expect_broken("alert tcp any any -> any any (threshold:type limit, count 1; sid:1;)", 1, 41, "needs");
}

TEST(RuleParser, GoesOnBehindABrokenRule) {
    const RuleFile file = parsed("alert tcp any any -> any any (msg:\"open\nalert tcp any any -> any any (sid:2;)\n");
    EXPECT_EQ(file.errors.size(), 1u);
    ASSERT_EQ(file.rules.size(), 1u);
    EXPECT_EQ(file.rules[0].sid, 2u);
}

TEST(RuleParser, SaysWhyARuleIsNotSupported) {
    EXPECT_EQ(with("flowbits:isset,a; flowbits:noalert;").unsupported_group, "noalert: it never alerts");
    EXPECT_EQ(with("hostbits:set,a,src; noalert;").unsupported_group, "it only sets hostbits");
    EXPECT_EQ(with("hostbits:isset,a,src;").unsupported_group, "hostbits isset: needs the packets before");
    EXPECT_EQ(with("xbits:isset,a,track tx;").unsupported_group, "xbits of a transaction");
    EXPECT_EQ(with("flowbits:setx,a,group;").unsupported_group, "flowbits of a group");
    EXPECT_EQ(with("flowbits:isset,any,group;").unsupported_group, "flowbits of a group");
    EXPECT_EQ(with("ja3.hash; content:\"a\";").unsupported_group, "keyword ja3.hash");
    EXPECT_EQ(
        with("byte_math:bytes 1, offset 0, oper +, rvalue 1, result r; content:\"a\"; offset:r;").unsupported_group,
        "keyword byte_math");
    EXPECT_EQ(one("alert pkthdr any any -> any any (sid:1;)").unsupported_group, "protocol pkthdr");
    EXPECT_EQ(one("alert tcp !any any -> any any (sid:1;)").unsupported_group, "the header's addresses are none");
}

TEST(RuleParser, ReadsFlowbits) {
    const Rule rule = with("flowbits:isset, a|b c ; flowbits:isnotset,d; flowbits:set,e&f; flowbits:noalert;");
    EXPECT_EQ(rule.unsupported, "");
    EXPECT_TRUE(rule.silent);
    ASSERT_EQ(rule.flow_bits.size(), 3u);
    EXPECT_EQ(rule.flow_bits[0].verb, StateVerb::is_set);
    EXPECT_EQ(rule.flow_bits[0].names, (std::vector<std::string>{"a", "b c"}));
    EXPECT_FALSE(rule.flow_bits[0].all);
    EXPECT_EQ(rule.flow_bits[1].verb, StateVerb::is_not_set);
    EXPECT_EQ(rule.flow_bits[2].verb, StateVerb::set);
    EXPECT_TRUE(rule.flow_bits[2].all);
    EXPECT_TRUE(rule.sets_state());
    EXPECT_EQ(with("flowbits:toggle,a;").flow_bits.at(0).verb, StateVerb::toggle);
    EXPECT_EQ(with("flowbits:unset,a;").flow_bits.at(0).verb, StateVerb::unset);
    expect_broken("alert tcp any any -> any any (flowbits:isset; sid:1;)", 1, 40, "names no bit");
    expect_broken("alert tcp any any -> any any (flowbits:set,a|b; sid:1;)", 1, 44, "which of these");
    expect_broken("alert tcp any any -> any any (flowbits:isset,a|; sid:1;)", 1, 46, "missing");
    expect_broken("alert tcp any any -> any any (flowbits:isset,a|b&c; sid:1;)", 1, 46, "either");
    expect_broken("alert tcp any any -> any any (flowbits:ask,a; sid:1;)", 1, 40, "nothing that flowbits does");
}

TEST(RuleParser, ReadsStreamSizes) {
    const Rule rule = with("stream_size: server , < , 50; stream_size:either,!=,4294967295;");
    EXPECT_EQ(rule.unsupported, "");
    ASSERT_EQ(rule.stream_sizes.size(), 2u);
    EXPECT_EQ(rule.stream_sizes[0].ends, StreamEnds::server);
    EXPECT_EQ(rule.stream_sizes[0].comparison, Comparison::less);
    EXPECT_EQ(rule.stream_sizes[0].bytes, 50u);
    EXPECT_EQ(rule.stream_sizes[1].ends, StreamEnds::either);
    EXPECT_EQ(rule.stream_sizes[1].comparison, Comparison::not_equal);
    EXPECT_EQ(rule.stream_sizes[1].bytes, 0xffffffffu);
    EXPECT_EQ(with("stream_size:client,>=,0;").stream_sizes.at(0).comparison, Comparison::greater_equal);
    EXPECT_EQ(with("stream_size:both,=,1;").stream_sizes.at(0).ends, StreamEnds::both);
    EXPECT_EQ(with("stream_size:>5,to_server;").unsupported_group, "stream_size in the language of Snort 3");
    EXPECT_EQ(with("stream_size:client,>,1; noalert;").unsupported_group, "noalert: it never alerts");
    expect_broken("alert tcp any any -> any any (stream_size:server; sid:1;)", 1, 31, "needs 3 values");
    expect_broken("alert tcp any any -> any any (stream_size:all,<,1; sid:1;)", 1, 43, "no end");
    expect_broken("alert tcp any any -> any any (stream_size:both,<>,1; sid:1;)", 1, 48, "not a comparison");
    expect_broken("alert tcp any any -> any any (stream_size:both,<,x; sid:1;)", 1, 50, "not a number");
    expect_broken("alert tcp any any -> any any (stream_size:both,<,4294967296; sid:1;)", 1, 50, "not between");
}

TEST(RuleParser, ReadsFlowints) {
    const Rule rule = with("flowint: a.b , >= , 10; flowint:a.b,isset; flowint:c,notset; flowint:c,+,a.b; noalert;");
    EXPECT_EQ(rule.unsupported, "");
    ASSERT_EQ(rule.flow_ints.size(), 4u);
    EXPECT_EQ(rule.flow_ints[0].verb, StateVerb::int_compares);
    EXPECT_EQ(rule.flow_ints[0].comparison, Comparison::greater_equal);
    EXPECT_EQ(rule.flow_ints[0].name, "a.b");
    EXPECT_EQ(rule.flow_ints[0].value, 10u);
    EXPECT_EQ(rule.flow_ints[1].verb, StateVerb::int_is_set);
    EXPECT_EQ(rule.flow_ints[2].verb, StateVerb::int_is_not_set);
    EXPECT_EQ(rule.flow_ints[3].verb, StateVerb::int_gains);
    EXPECT_EQ(rule.flow_ints[3].other, "a.b");
    EXPECT_TRUE(rule.sets_state());
    EXPECT_EQ(with("flowint:a,=,4294967295;").flow_ints.at(0).value, 0xffffffffu);
    EXPECT_EQ(with("flowint:a,-,1;").flow_ints.at(0).verb, StateVerb::int_loses);
    EXPECT_EQ(with("flowint:a,!=,1;").flow_ints.at(0).comparison, Comparison::not_equal);
    EXPECT_EQ(with("flowint:a,>,1; noalert;").unsupported_group, "noalert: it never alerts");
    expect_broken("alert tcp any any -> any any (flowint:a; sid:1;)", 1, 31, "needs a name");
    expect_broken("alert tcp any any -> any any (flowint:,isset; sid:1;)", 1, 31, "needs a name");
    expect_broken("alert tcp any any -> any any (flowint:a,~,1; sid:1;)", 1, 41, "nothing that flowint does");
    expect_broken("alert tcp any any -> any any (flowint:a,isset,1; sid:1;)", 1, 41, "nothing follows");
    expect_broken("alert tcp any any -> any any (flowint:a,==; sid:1;)", 1, 41, "follows the sign");
    expect_broken("alert tcp any any -> any any (flowint:a,==,; sid:1;)", 1, 44, "not a number");
    expect_broken("alert tcp any any -> any any (flowint:a,==,-1; sid:1;)", 1, 44, "not between");
    expect_broken("alert tcp any any -> any any (flowint:a,==,4294967296; sid:1;)", 1, 44, "not between");
}

TEST(RuleParser, ReadsXbits) {
    const Rule rule = with("xbits:isset, a.b , track ip_src; xbits:toggle,c,track ip_pair , expire 60; noalert;");
    EXPECT_EQ(rule.unsupported, "");
    ASSERT_EQ(rule.host_bits.size(), 2u);
    EXPECT_EQ(rule.host_bits[0].verb, StateVerb::is_set);
    EXPECT_EQ(rule.host_bits[0].name, "a.b");
    EXPECT_EQ(rule.host_bits[0].track, HostBit::Track::source);
    EXPECT_EQ(rule.host_bits[0].seconds, 30u);
    EXPECT_EQ(rule.host_bits[1].verb, StateVerb::toggle);
    EXPECT_EQ(rule.host_bits[1].track, HostBit::Track::pair);
    EXPECT_EQ(rule.host_bits[1].seconds, 60u);
    EXPECT_TRUE(rule.sets_state());
    EXPECT_TRUE(rule.asks_host_bits());
    EXPECT_TRUE(with("xbits:noalert; xbits:set,a,track ip_dst;").silent);
    EXPECT_EQ(with("xbits:isset,a,track ip_src; noalert;").unsupported_group, "noalert: it never alerts");
    expect_broken("alert tcp any any -> any any (xbits:ask,a,track ip_src; sid:1;)", 1, 37, "nothing that xbits does");
    expect_broken("alert tcp any any -> any any (xbits:set,a; sid:1;)", 1, 37, "whose it is");
    expect_broken("alert tcp any any -> any any (xbits:set,,track ip_src; sid:1;)", 1, 37, "whose it is");
    expect_broken("alert tcp any any -> any any (xbits:set,a,ip_src; sid:1;)", 1, 43, "whose bit");
    expect_broken("alert tcp any any -> any any (xbits:set,a,track ip; sid:1;)", 1, 43, "whose bit");
    expect_broken("alert tcp any any -> any any (xbits:set,a,track ip_src,60; sid:1;)", 1, 56, "says nothing");
    expect_broken("alert tcp any any -> any any (xbits:set,a,track ip_src,expire 0; sid:1;)", 1, 63, "not between");
}

TEST(RuleParser, ReadsListsWithNegationAsRanges) {
    const Variables variables = Variables::defaults();
    EXPECT_EQ(variables.ports("[80,81,90:100,!95]", 0), PortRanges({{80, 81}, {90, 94}, {96, 100}}));
    EXPECT_EQ(variables.ports("!80", 0), PortRanges({{0, 79}, {81, 65535}}));
    EXPECT_EQ(variables.ports("[:3,65530:]", 0), PortRanges({{0, 3}, {65530, 65535}}));
    const AddressRanges ranges = variables.addresses("[10.0.0.0/8,!10.1.0.0/16,2001:db8::/127]", 0);
    EXPECT_EQ(ranges.v4, RangeList<uint32_t>({{0x0a000000, 0x0a00ffff}, {0x0a020000, 0x0affffff}}));
    ASSERT_EQ(ranges.v6.ranges().size(), 1u);
    EXPECT_EQ(ranges.v6.ranges()[0].high - ranges.v6.ranges()[0].low, 1u);
    EXPECT_EQ(variables.addresses("10.0.0.1-10.0.0.9", 0).v4, RangeList<uint32_t>({{0x0a000001, 0x0a000009}}));
    EXPECT_EQ(variables.addresses("2001:db8::1-2001:db8::ff", 0).v6.ranges().size(), 1u);
    EXPECT_THROW(variables.addresses("10.0.0.9-10.0.0.1", 0), RuleError);
    EXPECT_TRUE(variables.addresses("[0.0.0.0/0,::/0]", 0).is_any());
}

TEST(RuleParser, TellsSnort3BuffersFromSnort2Modifiers) {
    const Rule snort2 = with("content:\"a\"; http_uri; content:\"b\";");
    EXPECT_EQ(snort2.terms.at(0).buffer, Buffer::http_uri);
    EXPECT_EQ(snort2.terms.at(1).buffer, Buffer::payload);
    const Rule snort3 = with(
        "http_uri; content:\"a\",nocase; content:\"b\",distance 1; pkt_data; content:\"c\"; service:http;");
    EXPECT_EQ(snort3.terms.at(1).buffer, Buffer::http_uri);
    EXPECT_EQ(snort3.terms.at(2).buffer, Buffer::payload);
}

TEST(RuleParser, ReadsClassifications) {
    const Classifications classes = parse_classifications("# c\nconfig classification: a-b,Some, thing,2\n", "c");
    EXPECT_EQ(classes.at("a-b").description, "Some, thing");
    EXPECT_EQ(classes.at("a-b").priority, 2u);
    EXPECT_THROW(parse_classifications("config clasification: a,b,1\n", "c"), ConfigError);
}

}  // namespace
}  // namespace millrace::nf::nids
