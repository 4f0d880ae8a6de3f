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
    std::vector<Rule> rules(5, rule("content:\"User-Agent: Mozilla\"; fast_pattern; content:\"evil\";"));
    rules.push_back(rule("content:\"User-Agent: Mozilla\"; fast_pattern; content:\"rarely\"; content:\"seen\";"));
    rules.push_back(rule("content:\"User-Agent: Mozilla\"; content:\"ab\";"));
    const FastPatterns patterns(rules);
    EXPECT_EQ(patterns.of(rules[0]), "evil") << "five rules have it, seven the other";
    EXPECT_EQ(patterns.of(rules[5]), "rarely") << "one rule has it";
    EXPECT_EQ(patterns.of(rules[6]), "user-agent: mozilla") << "the other is too short to be found by a filter";
    rules.resize(4);
    EXPECT_EQ(FastPatterns(rules).of(rules[0]), "user-agent: mozilla") << "few have what is marked";
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
    for (char c = 'a'; c < 'a' + 16; ++c) rules.push_back(rule(std::string("content:\"xy") + c + "\";"));
    EXPECT_EQ(FastPatterns(rules).of(rules[3]), "xyd");
    rules.push_back(rule("content:\"xyz\";"));
    EXPECT_EQ(FastPatterns(rules).of(rules[3]), "");
}

TEST(FastPatterns, AreNotThoseOfRulesThatAreNotApplied) {
    std::vector<Rule> rules(9, rule("content:\"common\"; fast_pattern; content:\"rare one\";"));
    for (size_t i = 1; i < rules.size(); ++i) rules[i].refuse("a test");
    EXPECT_EQ(FastPatterns(rules).of(rules[0]), "common");
}

}  // namespace
}  // namespace millrace::nf::nids
