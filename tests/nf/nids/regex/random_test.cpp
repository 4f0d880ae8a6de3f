// Random patterns on random strings, against PCRE2.
#include <gtest/gtest.h>

#include <array>
#include <iostream>

#include "millrace/nf/nids/regex/parse/parser.hpp"
#include "oracle.hpp"
#include "strings.hpp"

namespace millrace::nf::nids::regex::test {
namespace {

/// A random pattern over a small alphabet, `depth` groups deep at most.
class PatternMaker {
public:
    explicit PatternMaker(Random& random) : random_(random) {}

    std::string make() {
        groups_ = 0;
        return alternatives(3);
    }

private:
    std::string one_of(std::initializer_list<const char*> choices) {
        return choices.begin()[pick(random_, static_cast<uint32_t>(choices.size()))];
    }
    std::string alternatives(int depth) {
        std::string text = sequence(depth);
        while (pick(random_, 4) == 0) text += "|" + sequence(depth);
        return text;
    }
    std::string sequence(int depth) {
        std::string text;
        for (uint32_t i = pick(random_, 5); i > 0; --i) text += item(depth);
        return text;
    }
    std::string item(int depth) {
        const uint32_t kind = pick(random_, depth > 0 ? 20 : 13);
        if (kind < 6) return one_of({"a", "b", "c", "ab", "A", "\\n"}) + quantifier();
        if (kind < 9) return one_of({"[ab]", "[^a]", ".", "\\w", "\\s", "[b-c]", "\\W", "\\R"}) + quantifier();
        if (kind < 11) return one_of({"^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z", "\\G"});
        if (kind < 12) return groups_ > 0 ? "\\" + std::to_string(1 + pick(random_, groups_)) + quantifier() : "c";
        if (kind < 13) return one_of({"(?i)", "(?s)", "(?m)", "(?-i)", "(?U)"});
        if (kind < 16) return "(" + capture(depth) + ")" + quantifier();
        if (kind < 17) return "(?:" + alternatives(depth - 1) + ")" + quantifier();
        if (kind < 18) return "(?>" + alternatives(depth - 1) + ")" + quantifier();
        if (kind < 19)
            return one_of({"(?=", "(?!"}) + alternatives(depth - 1) + ")" + (pick(random_, 8) == 0 ? quantifier() : "");
        if (pick(random_, 2) == 0)
            return one_of({"(?<=", "(?<!"}) + one_of({"a", "ab", "b|ca", "[ab]\\n", "^", "(a)b", "a(?=b)"}) + ")";
        if (groups_ > 0 && pick(random_, 2) == 0)
            return "(?(" + std::to_string(1 + pick(random_, groups_)) + ")" + sequence(depth - 1) + "|" +
                   sequence(depth - 1) + ")";
        return "(?(" + one_of({"?=", "?!"}) + sequence(depth - 1) + ")" + sequence(depth - 1) + "|" +
               sequence(depth - 1) + ")";
    }
    std::string capture(int depth) {
        ++groups_;
        return alternatives(depth - 1);
    }
    std::string quantifier() {
        if (pick(random_, 2) == 0) return "";
        return one_of({"*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "{0}", "{3,40}"}) +
               one_of({"", "", "", "?", "+"});
    }

    Random& random_;
    uint32_t groups_ = 0;
};

std::string small_alphabet(Random& random, size_t count) {
    std::string text(count, '\0');
    for (char& byte : text) byte = "aaabbbcA\n"[pick(random, 9)];
    return text;
}

TEST(RegexRandom, RandomPatternsOnRandomStringsEndAsPcre2Says) {
    Random random(7);
    PatternMaker maker(random);
    size_t searches = 0, matches = 0, limits = 0, different = 0, refused = 0;
    for (int round = 0; round < 12000 && different < 5; ++round) {
        const std::string pattern = maker.make();
        const std::string flags = std::array{"", "i", "m", "s", "A", "E", "G", "ims"}[pick(random, 8)];
        const Oracle oracle(pattern, flags);
        RegexSet set;
        const RegexCompileResult result = set.add(pattern, flags);
        EXPECT_TRUE(result || !oracle.compiled() || result.reason.starts_with("too many") ||
                    result.reason == "repetition of an assertion")
            << "/" << pattern << "/: " << result.reason << " at " << result.offset;
        refused += result ? 0 : 1;
        if (!result || !oracle.compiled()) continue;
        const Node root = parse_pattern(pattern, flags).root;
        for (int i = 0; i < 8; ++i) {
            std::string text = i < 4 ? small_alphabet(random, pick(random, 24)) : string_from(root, random);
            if (i >= 6) text = small_alphabet(random, 3) + mutated(text, random) + small_alphabet(random, 3);
            const uint32_t start = pick(random, 4) == 0 ? pick(random, static_cast<uint32_t>(text.size()) + 1) : 0;
            MatchEnd expected;
            if (!oracle.search(text, start, expected)) continue;
            uint32_t end = 0;
            const RegexResult found = search(set, *result.program, text, start, &end);
            ++searches;
            limits += found == RegexResult::limit;
            matches += found == RegexResult::match;
            if (found == RegexResult::limit || words(found, end) == words(expected)) continue;
            ++different;
            ADD_FAILURE() << "/" << pattern << "/" << flags << " on \"" << printable(text) << "\" from " << start
                          << ": " << words(found, end) << ", PCRE2: " << words(expected);
        }
    }
    std::cout << searches << " searches, " << matches << " matches, " << limits << " at our limit, " << refused
              << " patterns refused\n";
    EXPECT_GT(searches, 50000u);
    EXPECT_GT(matches * 4, searches);
    EXPECT_LT(limits * 100, searches);
}

}  // namespace
}  // namespace millrace::nf::nids::regex::test
