// Known answers, corner cases and random texts; every engine and every number of lanes.
#include "millrace/nf/nids/pattern/cpu/matcher.hpp"

#include <gtest/gtest.h>

#include <random>

#include "oracle.hpp"

namespace millrace::nf::nids::pattern::test {
namespace {

using namespace std::literals;
using Strings = std::vector<std::string>;

/// Bytes drawn from `alphabet`.
std::string text_of(std::mt19937& random, size_t bytes, std::string_view alphabet) {
    std::string text(bytes, '\0');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    return text;
}

void expect_found(const Strings& patterns, const std::string& payload, const Ids& ids) {
    const std::vector<Ids> expected{ids};
    expect_all_agree(patterns, {payload}, &expected);
}

/// Every engine, in scans of so many payloads, against naive search.
void expect_right_in_scans(const Strings& patterns, const Strings& payloads, const std::vector<size_t>& scans) {
    const auto set = std::make_shared<const PatternSet>(patterns);
    const std::vector<Ids> expected = search_naively(patterns, payloads);
    for (const Engine& engine : {Engine::scalar, Engine::vector, Engine::hyperscan}) {
        if (!is_available(engine)) continue;
        const auto matcher = make_matcher(set, engine);
        for (const size_t scan : scans) {
            const std::vector<Ids> found = search_with(*matcher, payloads, scan);
            for (size_t i = 0; i < payloads.size(); ++i)
                ASSERT_EQ(found[i], expected[i]) << matcher->name() << ", payload " << i << " in scans of " << scan;
        }
    }
}

TEST(PatternMatching, FindsTheExampleOfAhoAndCorasick) {
    expect_found({"he", "she", "his", "hers"}, "ushers", {0, 1, 3});
}

TEST(PatternMatching, FindsNothingWithoutPatterns) {
    expect_found({}, "anything", {});
    const PatternSet empty({});
    EXPECT_EQ(empty.state_count(), 1u);
}

TEST(PatternMatching, RejectsAnEmptyPattern) { EXPECT_THROW(PatternSet({"a", ""}), std::invalid_argument); }

TEST(PatternMatching, IgnoresTheCaseOfAsciiLettersOnly) {
    expect_found({"GeT", "\xc4"s, "\xe4"s, "[", "{", "@", "`"}, "xgEtx", {0});
    expect_found({"GeT", "\xc4"s, "\xe4"s, "[", "{", "@", "`"}, "\xe4[`"s, {2, 3, 6});
}

TEST(PatternMatching, ReportsEveryIdOfEqualPatternsInAscendingOrder) {
    expect_found({"abc", "zz", "ABC", "b", "aBc"}, "..abc..", {0, 2, 3, 4});
}

TEST(PatternMatching, ReportsAPatternOnceHoweverOftenItOccurs) {
    expect_found({"aa", "a"}, std::string(1000, 'a'), {0, 1});
}

TEST(PatternMatching, MatchesZeroAndAllOnesBytes) {
    expect_found({"\0"s, "\0\0"s, "\xff"s, "\xff\0\xff"s, "\0\xff"s}, "x\xff\0\xff"s, {0, 2, 3, 4});
    expect_found({"\0"s}, "no zero byte here", {});
}

TEST(PatternMatching, MatchesAPatternThatIsTheWholePayload) {
    for (const size_t bytes : {1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1460}) {
        std::string text(bytes, 'q');
        text.back() = 'z';
        expect_found({text, text + "q"}, text, {0});
    }
}

TEST(PatternMatching, KnowsAllSingleBytePatternsAtOnce) {
    Strings patterns;
    for (int byte = 0; byte < 256; ++byte) patterns.push_back(std::string(1, static_cast<char>(byte)));
    expect_all_right(patterns, {"aB\0"s, std::string(patterns.size(), 'x'), "\xfe\xff\x80\x7f"s});
}

TEST(PatternMatching, FindsPatternsThatContainEachOther) {
    expect_all_right({"abcd", "bcd", "bc", "c", "abcdabcd", "cdab", "dabc"}, {"abcdabcd", "xbcdx", "cdabc", "ab"});
}

TEST(PatternMatching, IsCompleteWhenAPayloadHasHundredsOfPatterns) {
    // Each lane keeps but a few ids: payloads with more take several passes on a device.
    Strings patterns;
    std::string text;
    for (int i = 0; i < 600; ++i) {
        patterns.push_back("<" + std::to_string(i * 7919 % 600) + ">");
        text += patterns.back();
    }
    expect_all_right(patterns, {text, text.substr(0, 400), text + text});
}

/// Payloads of so many bytes, each with one of the patterns, moved over every place.
Strings with_each_at_every_place(const Strings& patterns, size_t bytes) {
    Strings payloads;
    for (const std::string& pattern : patterns) {
        for (size_t at = 0; at + pattern.size() <= bytes; ++at) {
            std::string text(bytes, 'e');
            text.replace(at, pattern.size(), pattern);
            payloads.push_back(text);
        }
    }
    return payloads;
}

TEST(PatternMatching, FindsPatternsAcrossEveryBorderOfLanesAndBlocks) {
    // In payloads whose shares differ.
    const Strings patterns{"needle", "a-long-needle-that-spans-several-chunks", "xneedlex", "n"};
    for (const size_t bytes : {1, 7, 31, 32, 33, 64, 100, 255, 256, 257}) {
        expect_all_right(patterns, with_each_at_every_place(patterns, bytes));
    }
}

TEST(PatternMatching, AgreesWithNaiveSearchOnRandomTextsOfFewLetters) {
    std::mt19937 random(1);
    for (const std::string_view alphabet : {"ab"sv, "abC"sv, "aAbB\0\xff"sv}) {
        for (int round = 0; round < 12; ++round) {
            Strings patterns;
            for (size_t i = 0; i < 40; ++i) patterns.push_back(text_of(random, 1 + random() % (1 + i), alphabet));
            Strings payloads;
            for (const size_t bytes : {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 1460})
                payloads.push_back(text_of(random, bytes, alphabet));
            for (int i = 0; i < 100; ++i) payloads.push_back(text_of(random, random() % 200, alphabet));
            expect_all_right(patterns, payloads);
        }
    }
}

TEST(PatternMatching, AgreesWithNaiveSearchOnLongPayloads) {
    std::mt19937 random(2);
    Strings patterns{std::string(300, 'a'), std::string(4000, 'b')};
    for (int i = 0; i < 200; ++i) patterns.push_back(text_of(random, 4 + random() % 8, "abcdef"));
    Strings payloads;
    for (const size_t bytes : {9000, 65000}) payloads.push_back(text_of(random, bytes, "abcdefgh"));
    payloads.push_back(std::string(9000, 'b'));
    payloads.push_back("b" + std::string(65000, 'a'));
    payloads.push_back(std::string(3999, 'b') + "c" + std::string(4000, 'b'));
    expect_all_right(patterns, payloads);
}

TEST(PatternMatching, AgreesWithNaiveSearchWhenStatesNeed32Bits) {
    std::mt19937 random(3);
    Strings patterns;
    for (int i = 0; i < 900; ++i) patterns.push_back(text_of(random, 90, "0123456789"));
    for (int i = 0; i < 100; ++i) patterns.push_back(text_of(random, 3, "0123456789"));
    ASSERT_GT(PatternSet(patterns).state_count(), 65536u);
    Strings payloads;
    for (int i = 0; i < 60; ++i) {
        std::string text = text_of(random, 300, "0123456789");
        text.replace(random() % 200, 90, patterns[random() % 900]);
        payloads.push_back(text);
    }
    expect_all_right(patterns, payloads);
    expect_right_in_scans(patterns, payloads, {1, 5, 13});
}

TEST(PatternMatching, GivesTheSameForScansOfAnySize) {
    std::mt19937 random(4);
    Strings patterns, payloads;
    for (int i = 0; i < 30; ++i) patterns.push_back(text_of(random, 2 + random() % 4, "abc"));
    for (int i = 0; i < 1025; ++i) payloads.push_back(text_of(random, random() % 90, "abcd"));
    expect_right_in_scans(patterns, payloads, {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 256, 1025});
}

TEST(PatternMatching, FindsPatternsAcrossEveryBorderOfThePiecesInSmallScans) {
    // The fewer payloads in a scan, the more pieces each is cut into.
    const Strings patterns{"ne", "needle", "a needle longer than most pieces: " + std::string(150, 'n') + "!"};
    for (const size_t bytes : {33, 64, 65, 512, 1025}) {
        expect_right_in_scans(patterns, with_each_at_every_place(patterns, bytes), {1, 2, 5, 13});
    }
}

TEST(PatternMatching, AgreesWithNaiveSearchInSmallScansOfShortAndLongPayloads) {
    constexpr size_t kLengths[] = {0,  1,  4,  15, 16,  17,  19,  20,  21,  31,   32,   33,   35,   36,  37,
                                   63, 64, 65, 68, 191, 192, 193, 767, 768, 1023, 1024, 1025, 1460, 9000};
    std::mt19937 random(5);
    for (const std::string_view alphabet : {"ab"sv, "abcdefghijklmnopqrstuvwxyz"sv}) {
        Strings patterns{text_of(random, 2000, alphabet), text_of(random, 70, alphabet)};
        for (size_t i = 0; i < 30; ++i) patterns.push_back(text_of(random, 1 + i, alphabet));
        for (size_t count = 1; count <= 40; ++count) {
            Strings payloads;
            for (size_t i = 0; i < count; ++i) {
                std::string text = text_of(random, kLengths[random() % std::size(kLengths)], alphabet);
                // The same few patterns again and again, so that several pieces find them.
                for (size_t at = random() % 50, k = random(); at < text.size(); at += 20 + random() % 100) {
                    const std::string& pattern = patterns[(k + random() % 3) % patterns.size()];
                    if (at + pattern.size() <= text.size()) text.replace(at, pattern.size(), pattern);
                }
                payloads.push_back(text);
            }
            expect_right_in_scans(patterns, payloads, {count});
        }
    }
}

TEST(PatternMatching, FindsAllOfALongPayloadAmongManyShortOnes) {
    const Strings patterns{std::string(3000, 'b') + "!", "end", "x", "<tag>"};
    std::string text;
    for (int i = 0; i < 1000; ++i) text += i == 500 ? patterns[0] : "<tag>";
    Strings payloads(255, "x");
    payloads[3] = "";
    payloads[77] = text + "end";
    expect_right_in_scans(patterns, payloads, {1, 78, 255});
}

TEST(PatternMatching, ChoosesTheEngineByTheNumberOfPatterns) {
    const auto chosen = [](size_t count) {
        Strings patterns;
        for (size_t i = 0; i < count; ++i) patterns.push_back("pattern " + std::to_string(i));
        return std::string(make_matcher(std::make_shared<const PatternSet>(patterns), Engine::automatic)->name());
    };
    EXPECT_EQ(chosen(150), "hyperscan");
    EXPECT_EQ(chosen(501), is_available(Engine::vector) ? "vector" : "scalar");
}

TEST(PatternMatching, LeavesPatternsThatAreTooLongForHyperscanToOthers) {
    const Strings payloads = {std::string(4100, 'a'), std::string(3999, 'a')};
    for (const size_t length : {4000, 4001}) {
        const auto set = std::make_shared<const PatternSet>(Strings{std::string(length, 'A')});
        const auto matcher = make_matcher(set, Engine::automatic);
        EXPECT_EQ(matcher->name() == "hyperscan", length == 4000) << matcher->name();
        EXPECT_EQ(search_with(*matcher, payloads, 2), (std::vector<Ids>{{0}, {}}));
    }
    EXPECT_THROW(make_matcher(std::make_shared<const PatternSet>(Strings{std::string(4001, 'a')}), Engine::hyperscan),
                 std::runtime_error);
}

TEST(PatternSet, ReportsItsSize) {
    const PatternSet set({"abc", "abd"});
    EXPECT_EQ(set.state_count(), 5u);
    EXPECT_EQ(set.size(), 2u);
    EXPECT_NE(set.summary().find("2 patterns, 5 states of 5 classes"), std::string::npos) << set.summary();
}

}  // namespace
}  // namespace millrace::nf::nids::pattern::test
