// Which bytes lead to a rule, and which rules are looked at for their headers alone.
#include "millrace/nf/nids/compile/fast_pattern.hpp"

#include <gtest/gtest.h>

#include "millrace/nf/nids/rules/rule_files.hpp"

namespace millrace::nf::nids {
namespace {

constexpr const char* kAnywhere = "alert tcp any any -> any any";

Rule rule(const std::string& options, const std::string& header = kAnywhere) {
    RuleFile file = parse_rules(header + " (msg:\"t\"; " + options + " sid:1;)", "test.rules", Variables::defaults());
    EXPECT_TRUE(file.errors.empty()) << options << (file.errors.empty() ? "" : file.errors[0].message);
    return file.rules.empty() ? Rule{} : file.rules[0];
}

/// The pattern of a rule that is alone.
std::string pattern(const std::string& options, const std::string& header = kAnywhere) {
    const Rule own = rule(options, header);
    return FastPatterns({own}).of(own);
}

TEST(FastPatterns, AreThoseThatEveryMatchHas) {
    EXPECT_EQ(pattern("content:\"short\"; content:\"LONGER ONE\"; content:!\"the longest of all\";"), "longer one");
    EXPECT_EQ(pattern("content:\"short\"; fast_pattern; content:\"longer one\";"), "short");
    EXPECT_EQ(pattern("content:\"abcdefg\"; fast_pattern:1,4;"), "bcde");
    EXPECT_EQ(pattern("dns.query; content:\"www.longest.com\";"), "longest");
    EXPECT_EQ(pattern("http.header_names; content:\"|0d 0a|Host|0d 0a|Accept|0d 0a|\";"), "accept");
    EXPECT_EQ(pattern("pcre:\"/a/\";"), "");
}

TEST(FastPatterns, AvoidWhatManyRulesHave) {
    const Rule marked = rule("content:\"aeaeae\"; fast_pattern; content:\"evil\";");
    const Rule unmarked = rule("content:\"aeaeae\"; content:\"ab\";");
    std::vector<Rule> rules(65, marked);
    rules.push_back(rule("content:\"aeaeae\"; fast_pattern; content:\"seldom\"; content:\"seen\";"));
    rules.push_back(unmarked);
    const FastPatterns patterns(rules);
    EXPECT_EQ(patterns.of(rules[0]), "evil") << "65 rules have it, 67 the other";
    EXPECT_EQ(patterns.of(rules[65]), "seldom") << "one rule has it";
    EXPECT_EQ(patterns.of(rules[66]), "aeaeae") << "the other is too short to be found by a filter";
    rules.assign(64, marked);
    EXPECT_EQ(FastPatterns(rules).of(marked), "aeaeae") << "not too many have what all of them have marked";
    rules.assign(5, marked);
    rules.insert(rules.end(), 6, unmarked);
    EXPECT_EQ(FastPatterns(rules).of(marked), "evil") << "most have not marked it";
    rules.assign(4, marked);
    EXPECT_EQ(FastPatterns(rules).of(marked), "aeaeae") << "few have what is marked";
}

TEST(FastPatterns, AreNotShortWhereTheHeaderTellsEnough) {
    const std::string to_ftp = "alert tcp any any -> any 21";
    EXPECT_EQ(pattern("content:\"|90 90|\";", to_ftp), "");
    EXPECT_EQ(pattern("content:\"a\"; http_uri;", "alert http any any -> any any"), "");
    EXPECT_EQ(pattern("content:\"|90 90|\";"), "") << "one rule for all packets is soon looked at";
    EXPECT_EQ(pattern("content:\"abc\";", to_ftp), "abc") << "a filter can have some of three bytes";
    EXPECT_EQ(pattern("content:\"abcd\";", to_ftp), "abcd");
}

TEST(FastPatterns, AreShortWhereManyRulesAreForAllPackets) {
    const auto with = [](size_t broad, size_t quick) {
        std::vector<Rule> rules(broad, rule("content:\"|90 90|\";"));
        rules.insert(rules.end(), quick, rule("content:\"|90 90|\"; depth:2;"));
        return FastPatterns(rules).of(rules[0]);
    };
    EXPECT_EQ(with(4, 100), "") << "those that look at a payload's beginning only are quick";
    EXPECT_EQ(with(5, 0), "\x90\x90");
}

TEST(FastPatterns, OfThreeBytesAreFew) {
    std::vector<Rule> rules;
    for (char c = 'a'; c < 'a' + 8; ++c) rules.push_back(rule(std::string("content:\"xy") + c + "\"; offset:1;"));
    EXPECT_EQ(FastPatterns(rules).of(rules[3]), "xyd");
    rules.insert(rules.end(), 2, rule("content:\"xyz\"; offset:1;"));
    const FastPatterns patterns(rules);
    EXPECT_EQ(patterns.of(rules[8]), "xyz") << "two rules have it";
    EXPECT_EQ(patterns.of(rules[6]), "xyg");
    EXPECT_EQ(patterns.of(rules[7]), "") << "the ninth";
}

TEST(FastPatterns, OfThreeBytesSpareSearchesOfWholePayloads) {
    std::vector<Rule> rules;
    for (char c = 'a'; c < 'a' + 8; ++c)
        rules.insert(rules.end(), 3, rule(std::string("content:\"xy") + c + "\"; depth:9;"));
    const std::string to_https = "alert tcp any any -> any 443";
    rules.push_back(rule("content:\"|17 03 03|\"; content:\"|18 03 03|\"; distance:2;", to_https));
    rules.push_back(rule("content:\"|18 03 03|\"; content:\"|02|\"; distance:2;", to_https));
    const FastPatterns patterns(rules);
    EXPECT_EQ(patterns.of(rules[25]), "\x18\x03\x03") << "two rules would have a payload searched for it";
    EXPECT_EQ(patterns.of(rules[24]), "\x18\x03\x03") << "the filter has it, and not the first one";
    EXPECT_EQ(patterns.of(rules[0]), "xya");
    EXPECT_EQ(patterns.of(rules[23]), "") << "a look at nine bytes is no search";
}

TEST(FastPatterns, AreNotThoseOfRulesThatAreNotApplied) {
    std::vector<Rule> rules(9, rule("content:\"common\"; fast_pattern; content:\"rare one\";"));
    for (size_t i = 1; i < rules.size(); ++i) rules[i].refuse("a test");
    EXPECT_EQ(FastPatterns(rules).of(rules[0]), "common");
}

}  // namespace
}  // namespace millrace::nf::nids
