// Searches at their limits, sizes around warp and block, and what is refused.
#include <gtest/gtest.h>

#include "oracle.hpp"

namespace millrace::nf::nids::regex::test {
namespace {

RegexResult search_for(std::string_view pattern, std::string_view data, uint32_t start, uint32_t* end) {
    RegexSet set;
    const RegexCompileResult result = set.add(pattern, "");
    EXPECT_TRUE(result) << pattern << ": " << result.reason << " at " << result.offset;
    return result ? search(set, *result.program, data, start, end) : RegexResult::limit;
}

TEST(RegexLimit, PatternsThatExplodeEndAtTheLimitAndLeaveTheMatchEndAlone) {
    const std::string text(100, 'a');
    for (const char* pattern : {"(a+)+b\\1?", "(?:a+)+$x", "(?:a|ab?)*\\b!\\b", "(?:a|aa)+\\z\\b!", "(?:(?:a*)*)*\\b!",
                                "(a*)*\\1\\b!", "(?:.*){9}\\1?(x\\b)", "(?=(?:a+)+\\b!)a"}) {
        uint32_t end = 77;
        EXPECT_EQ(search_for(pattern, text + "\n", 0, &end), RegexResult::limit) << pattern;
        EXPECT_EQ(end, 77u);
    }
}

TEST(RegexLimit, MoreOpenChoicesThanTheStackHoldsEndAtTheLimit) {
    // One choice stays open with each pass.
    for (const uint32_t passes : {1u, 31u, 32u, 33u, 127u, 1023u, 1024u, 1025u}) {
        std::string text;
        for (uint32_t i = 0; i < passes; ++i) text += "ab";
        uint32_t end = 0;
        const bool fits = passes < kStackEntries / 2;
        EXPECT_EQ(search_for("^(?:ab|a)+$", text, 0, &end), fits ? RegexResult::match : RegexResult::limit) << passes;
        EXPECT_EQ(end, fits ? 2 * passes : 0);
    }
}

TEST(RegexLimit, PatternsThatExplodeOnlyInNaiveMachinesDoNot) {
    uint32_t end = 0;
    const std::string text(1025, 'a');
    EXPECT_EQ(search_for("(?:a+)++b", text, 0, &end), RegexResult::no_match);
    EXPECT_EQ(search_for("a+b", text, 0, &end), RegexResult::no_match);
    EXPECT_EQ(search_for("^.*.*b", text, 0, &end), RegexResult::no_match);
    EXPECT_EQ(search_for("(\\w)\\1{1000}", text, 0, &end), RegexResult::match);
    EXPECT_EQ(search_for("(?:(?!b).){1000}", text, 0, &end), RegexResult::match);
    EXPECT_EQ(search_for("x*?(?:_*?[a-f]_*?){1000}", text, 0, &end), RegexResult::match);
}

TEST(RegexSizes, DataOfEverySizeAroundWarpAndBlockIsSearchedToItsEnd) {
    for (const uint32_t bytes : {0u, 1u, 31u, 32u, 33u, 1023u, 1024u, 1025u}) {
        SCOPED_TRACE(bytes);
        const std::string text(bytes, 'a');
        uint32_t end = 0;
        EXPECT_EQ(search_for("", text, bytes, &end), RegexResult::match);
        EXPECT_EQ(end, bytes);
        EXPECT_EQ(search_for("", text, bytes + 1, &end), RegexResult::no_match);
        EXPECT_EQ(search_for("a*$", text, 0, &end), RegexResult::match);
        EXPECT_EQ(end, bytes);
        EXPECT_EQ(search_for("a", text, bytes, &end), RegexResult::no_match);
        EXPECT_EQ(search_for("b", text, 0, &end), RegexResult::no_match);
        EXPECT_EQ(search_for("b", text + "b", 0, &end), RegexResult::match);
        EXPECT_EQ(end, bytes + 1);
        EXPECT_EQ(search_for("b(?=c)", text + "bc", 0, &end), RegexResult::match);
        EXPECT_EQ(end, bytes + 1);
    }
}

struct Refused {
    const char *pattern, *flags, *reason;
    size_t offset;
};
const Refused kRefused[] = {
    {"a(b", "", "group without )", 1},
    {"a)b", "", "unmatched )", 1},
    {"a[b", "", "class without ]", 1},
    {"ab\\", "", "\\ at the end", 2},
    {"a\\pL", "", "unsupported escape \\p", 1},
    {"a\\x{100}", "", "a character above \\xff", 1},
    {"*a", "", "nothing to repeat", 0},
    {"a**", "", "a repetition of a repetition", 2},
    {"a{3,2}", "", "the counts of {} are out of order", 1},
    {"a{65536}", "", "a count above 65535", 1},
    {"x(?R)", "", "unsupported group (?R", 1},
    {"x(?1)", "", "unsupported group (?1", 1},
    {"x(?|a)", "", "unsupported group (?|", 1},
    {"(*FAIL)", "", "verbs (*…) are not supported", 0},
    {"a\\2", "", "there is no group 2", 1},
    {"(?<a>x)(?<a>y)", "", "two groups named a", 10},
    {"(?<=a+)b", "", "a lookbehind without a fixed length", 0},
    {"[b-a]", "", "a range out of order", 1},
    {"[[:nope:]]", "", "there is no class [:nope:]", 1},
    {"a\\Kb", "", "unsupported escape \\K", 1},
    {"abc", "R", "flag R is not one of imsxAEG", 3},
    {"abc", "iU", "flag U is not one of imsxAEG", 3},
};

TEST(RegexRefusal, WhatIsNotSupportedIsRefusedWithReasonAndOffset) {
    RegexSet set;
    for (const Refused& c : kRefused) {
        const RegexCompileResult result = set.add(c.pattern, c.flags);
        EXPECT_FALSE(result) << c.pattern;
        EXPECT_EQ(result.reason, c.reason) << c.pattern;
        EXPECT_EQ(result.offset, c.offset) << c.pattern;
    }
    EXPECT_FALSE(set.add(std::string(300, '(') + std::string(300, ')'), ""));
    EXPECT_FALSE(set.add(std::string(20000, 'a'), ""));
    std::string many = "[abc]";
    for (int i = 0; i < 40; ++i) many += "(?=a)";
    EXPECT_EQ(set.add(many, "").reason, "too many groups, counts and lookarounds");
    // A refused pattern leaves nothing behind.
    EXPECT_EQ(set.code_words(), 0u);
    EXPECT_EQ(set.set_words(), kSetWords);
}

TEST(RegexSetPrograms, TheSamePatternIsCompiledOnce) {
    RegexSet set;
    const auto first = set.add("a[bc]", "is"), other = set.add("a[bc]", "i");
    const size_t words = set.code_words();
    EXPECT_EQ(set.add("a[bc]", "si").program, first.program);
    EXPECT_NE(other.program, first.program);
    EXPECT_EQ(set.code_words(), words);
}

}  // namespace
}  // namespace millrace::nf::nids::regex::test
