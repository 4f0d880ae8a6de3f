// Known answers and tricky cases, written by hand; PCRE2 must agree with each.
#include <gtest/gtest.h>

#include "oracle.hpp"

namespace millrace::nf::nids::regex::test {
namespace {

constexpr int kMiss = -1;

struct Case {
    std::string_view pattern, flags, data;
    int end;  ///< behind the match; kMiss: none
    uint32_t start = 0;
};
using namespace std::string_view_literals;

const Case kCases[] = {
    {"", "", "", 0},
    {"", "", "abc", 0},
    {"abc", "", "xxabcx", 5},
    {"abc", "i", "xxAbCx", 5},
    {"a.c", "", "a\nc", kMiss},
    {"a.c", "s", "a\nc", 3},
    {"^b", "", "a\nb", kMiss},
    {"^b", "m", "a\nb", 3},
    {"^", "m", "\n", 0},
    {"\\n^", "m", "\n", kMiss},
    {"a$", "", "a\n", 1},
    {"a$", "E", "a\n", kMiss},
    {"a$", "m", "a\nb", 1},
    {"a\\Z", "m", "a\nb", kMiss},
    {"a\\z", "", "a\n", kMiss},
    {"a|ab", "", "ab", 1},
    {"(a|ab)(c|bcd)(d*)", "", "abcd", 4},
    {"a*?b", "", "aab", 3},
    {"(?>a|ab)c", "", "abc", kMiss},
    {"(?>a*)ab", "", "aaab", kMiss},
    {"a++ab", "", "aaab", kMiss},
    {"a*+b", "", "aaab", 4},
    {"(?>a*?)b", "", "aab", 3},
    {"^(?>a*?)b", "", "aab", kMiss},
    {"(a)|b\\1", "", "b", kMiss},
    {"(\\w+)\\s+\\1", "", "one two two", 11},
    {"(\\w+)\\s+\\1", "i", "one two TWO", 11},
    {"(?i:(a))\\1", "", "aA", kMiss},
    {"(a\\1?){3}", "", "aaaaaa", 6},
    {"^(?:(a)|b)*\\1$", "", "abba", 4},
    {"^(a(?:(b)|c)){2}\\2$", "", "abacb", 5},
    {"(?P<q>['\"]).*?(?P=q)", "", "x='a\"b'", 7},
    {"(?<n>a)\\k<n>\\k{n}\\k'n'", "", "aaaa", 4},
    {"(?=ab)a", "", "acab", 3},
    {"a(?!b)", "", "abac", 3},
    {"(?<=a)b", "", "bab", 3},
    {"(?<!a)b", "", "abb", 3},
    {"(?<=ab|c)d", "", "xd cd", 5},
    {"(?<!ab|c)d", "", "abd cd", kMiss},
    {"(?=(a+))\\1b", "", "aab", 3},
    {"(?!(a)b)a\\1?", "", "aa", 1},
    {"(?:)*a", "", "a", 1},
    {"(?:a*)*b", "", "aab", 3},
    {"(?:a?){3}b", "", "aab", 3},
    {"(?:a|)+b", "", "aab", 3},
    {"(?:|a)+b", "", "aab", 3},
    {"(?:ab?){2,3}?c", "", "abaac", 5},
    {"x{2}", "", "xxx", 2},
    {"x{2,}y", "", "xxxxy", 5},
    {"x{,2}", "", "x{,2}", 5},
    {"x{a}", "", "x{a}", 4},
    {"a{0}b", "", "ab", 2},
    {"(a){0}b\\1?", "", "ab", 2},
    {"(?:a{2}){2}", "", "aaaaa", 4},
    {"[]a]+", "", "b]a", 3},
    {"[^]a]", "", "]ab", 3},
    {"[a-c-e]+", "", "xa-e", 4},
    {"[\\d-]+", "", "x1-2", 4},
    {"[[:alpha:]_]+", "", "1ab_", 4},
    {"[[:^digit:]]", "", "1a", 2},
    {"[^a]", "i", "Aab", 3},
    {"[\\x00-\\x1f]", "", "a\x01", 2},
    {"[\\b]", "", "\b", 1},
    {"\\Qa.b\\E*", "", "a.bbb", 5},
    {"\\Qa|b)\\E", "", "a|b)", 4},
    {"[\\Q]\\E]", "", "]", 1},
    {"\\101\\x41\\x{41}\\o{101}", "", "AAAA", 4},
    {"\\0\\x", "", "\0\0"sv, 2},
    {"\\cA\\e\\a\\f", "", "\x01\x1b\x07\x0c", 4},
    {"\\bfoo\\b", "", "afoo foo", 8},
    {"\\Bfoo", "", "foo afoo", 8},
    {"\\R+x", "", "\r\n\nx", 4},
    {"^\\R\\n", "", "\r\n", kMiss},
    {"\\h\\v", "", "\t\x0b", 2},
    {"\\N+", "", "\nab\n", 3},
    {"a b # c", "x", "ab", 2},
    {"a\\ b[ ]c", "x", "a b c", 5},
    {"a {2}", "x", "aa", 2},
    {"a\x85"
     "b\\\x85",
     "x", "ab\x85", 3},
    {"[!\\E-~]", "", "x", 1},
    {"[\\E^\\Q\\E]a]", "", "]ab", 3},
    {"a(?#comment)b", "", "ab", 2},
    {"a(?i)b|c", "", "C", 1},
    {"(a(?i)b)c", "", "aBC", kMiss},
    {"(?-i)a", "i", "A", kMiss},
    {"(?i-s:a.)b", "s", "A\nb", kMiss},
    {"a+", "G", "aaa", 1},
    {"a+?", "G", "aaa", 3},
    {"(?U)a+", "", "aaa", 1},
    {"b", "A", "ab", kMiss},
    {"b", "A", "ab", 2, 1},
    {"\\Gb", "", "abb", 2, 1},
    {"^b", "", "ab", kMiss, 1},
    {"(?<=a)b", "", "ab", 2, 1},
    {"\\bb", "", "ab", kMiss, 1},
    {"(?(?=a)ab|cd)", "", "acd", 3},
    {"(?(?!a)cd|ab)", "", "acd", 3},
    {"(a)?(?(1)b|c)", "", "ab", 2},
    {"(a)?(?(1)b|c)", "", "xc", 2},
    {"(?<q>\")?x(?(<q>)\")", "", "\"x", 2},
    {".*foo", "", "a\nb foo", 7},
    {".*foo", "s", "foo bar foo b", 11},
    {".*?foo", "s", "foo bar foo", 3},
    {"\\s*x", "", "a   x", 5},
    {"[a-z]+\\d{2,3}[^\\r\\n]*\\r\\n", "", "Ab1234 c\r\n", 10},
    {"(?:%[0-9a-f]{2}){3,}x", "i", "%4a%4B%4c%4dx", 13},
    {"(?:ab){50,60}c", "",
     std::string_view(
         "ababababababababababababababababababababababababababababababababababababababababababababababababababc"),
     101},
    {"\\g1(a)|(b)\\g{-1}", "", "bb", 2},
};

TEST(RegexTable, EachCaseHasItsKnownAnswerAndPcre2Agrees) {
    for (const Case& c : kCases) {
        SCOPED_TRACE("/" + std::string(c.pattern) + "/" + std::string(c.flags) + " on \"" + printable(c.data) + "\"");
        const std::string expected = words(c.end == kMiss ? MatchEnd() : MatchEnd(c.end));
        const Oracle oracle(c.pattern, c.flags);
        MatchEnd oracle_end;
        EXPECT_TRUE(oracle.compiled()) << oracle.error();
        if (!oracle.compiled()) continue;
        EXPECT_TRUE(oracle.search(c.data, c.start, oracle_end));
        EXPECT_EQ(words(oracle_end), expected) << "PCRE2";
        RegexSet set;
        const RegexCompileResult result = set.add(c.pattern, c.flags);
        EXPECT_TRUE(result) << result.reason << " at " << result.offset;
        if (!result) continue;
        uint32_t end = 0;
        const RegexResult found = search(set, *result.program, c.data, c.start, &end);
        EXPECT_EQ(words(found, end), expected);
    }
}

}  // namespace
}  // namespace millrace::nf::nids::regex::test
