// The filter before the patterns, and the check behind it: sets, places and texts that are hard for them.
#include "millrace/nf/nids/pattern/filter_builder.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "oracle.hpp"

namespace millrace::nf::nids::pattern::test {
namespace {

using namespace std::literals;
using Strings = std::vector<std::string>;

bool is_filtered(const Strings& patterns) { return !PatternSet(patterns).filter().empty(); }

/// Every engine and number of lanes against naive search, each payload at every place in a word of eight bytes.
void expect_right_by_filter(const Strings& patterns, const Strings& payloads) {
    ASSERT_TRUE(is_filtered(patterns));
    Strings skewed;
    for (const std::string& payload : payloads) skewed.insert(skewed.end(), 8, payload);
    expect_all_right(patterns, skewed);
}

/// Each pattern at every place of texts of so many bytes, and its beginnings and ends at the texts' ends, where the
/// rest is missing.
Strings each_at_every_place(const Strings& patterns, const std::vector<size_t>& lengths, char around) {
    Strings payloads;
    for (const std::string& pattern : patterns) {
        for (const size_t bytes : lengths) {
            for (size_t at = 0; at < bytes; ++at) {
                std::string text(bytes, around);
                payloads.push_back(text.replace(at, pattern.size(), pattern).substr(0, bytes));
            }
            for (size_t missing = 1; missing < pattern.size(); ++missing)
                payloads.push_back((pattern.substr(missing) + std::string(bytes, around)).substr(0, bytes));
        }
    }
    return payloads;
}

std::string random_text(std::mt19937& random, size_t bytes, std::string_view alphabet) {
    std::string text(bytes, '\0');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    return text;
}

TEST(Filter, IsThereForPatternsOfThreeBytesAndMore) {
    EXPECT_TRUE(is_filtered({"abcd"}));
    EXPECT_TRUE(is_filtered({"abc", "a long pattern"}));
    EXPECT_TRUE(is_filtered({"\0\0\0"s}));
    EXPECT_FALSE(is_filtered({"abcd", "efgh", "x"}));
    EXPECT_FALSE(is_filtered({"abcd", "xy"}));
    EXPECT_FALSE(is_filtered({}));
}

TEST(Filter, IsThereWhileFewPlacesPassIt) {
    Strings patterns;
    for (int i = 0; i < 6000; ++i) patterns.push_back(std::to_string(100000 + 7919 * i % 900000).substr(0, 5) + "!");
    EXPECT_TRUE(is_filtered(patterns));
    std::mt19937 random(1);
    for (int i = 0; i < 30000; ++i) patterns.push_back(random_text(random, 4, "abcdefghijklmnopqrstuvwxyz"));
    EXPECT_FALSE(is_filtered(patterns));
    // A pattern of three bytes stands for many windows.
    patterns.clear();
    for (int i = 0; i < 20; ++i) patterns.push_back(std::to_string(100 + i));
    EXPECT_TRUE(is_filtered(patterns));
    for (int i = 0; i < 200; ++i) patterns.push_back(random_text(random, 3, "abcdefghijklmnopqrstuvwxyz"));
    EXPECT_FALSE(is_filtered(patterns));
}

TEST(Filter, CountsWithTheMemoryOfASet) {
    const PatternSet with({"abcd"});
    EXPECT_EQ(with.filter().bits->size() * sizeof(uint32_t), 16384u);
    EXPECT_EQ(with.table_bytes(), with.automaton().bytes() + 16384 + with.filter().branches->size() * 32);
    const PatternSet without({"abcd", "x"});
    EXPECT_EQ(without.table_bytes(), without.automaton().bytes());
}

TEST(Filter, FoldsAsTheAutomatonDoesOrMore) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
        for (uint32_t place = 0; place < 32; place += 8) {
            // Neighbours that would carry into it, or be carried into.
            for (const uint32_t around : {0x00000000u, 0xffffffffu, 0x5a5a5a5au, 0x80808080u}) {
                const uint32_t bytes = (around & ~(0xffu << place)) | byte << place;
                const auto fold_all = [](uint32_t word) {
                    uint32_t all = 0;
                    for (uint32_t k = 0; k < 32; k += 8)
                        all |= static_cast<uint32_t>(fold(static_cast<uint8_t>(word >> k))) << k;
                    return all;
                };
                EXPECT_EQ(detail::exactly_folded(bytes), fold_all(bytes));
                EXPECT_EQ(detail::roughly_folded(bytes), detail::roughly_folded(fold_all(bytes)));
            }
        }
    }
    EXPECT_NE(detail::roughly_folded(0), detail::roughly_folded(0x20202020));
}

TEST(Filter, FindsPatternsAtEveryPlace) {
    // The texts' ends are those of words and shares in all ways. On the host the bytes around a text read as 'a'.
    const Strings patterns{"abcd",
                           "zaaa",
                           "aaaz",
                           "aaaaz",
                           "eleven more",
                           "exactly 12 b",
                           "thirteen of b",
                           "sixteen, no less",
                           "a pattern that is a good deal longer than the share of a lane",
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaz"};
    for (const char around : {'.', 'a'})
        expect_right_by_filter(patterns, each_at_every_place(patterns, {4, 5, 8, 31, 65, 130}, around));
}

TEST(Filter, FindsPatternsOfThreeBytesAtEveryPlace) {
    const Strings patterns{"xyz", "xaa", "aax", "xyzabcd", "longer"};
    for (const char around : {'.', 'a', '\xff'})
        expect_right_by_filter(patterns, each_at_every_place(patterns, {3, 4, 7, 8, 9, 33, 66}, around));
}

TEST(Filter, FindsPatternsInRunsOfOneByte) {
    // What begins with a run is found at each run's beginning; in what is padded, all other places are passed over.
    const Strings whole{"aaaa", "aaaaaaaa", "aaaaaaaaaaaaaaaa", "aaa",
                        "aaab", "baaa",     "\xff\xff\xff\xff", "\0\0\0\0\0\0"s};
    ASSERT_TRUE(PatternSet(whole).filter().skips_runs);
    Strings payloads;
    for (const char byte : {'a', 'A', '\xff', '\0', 'q'})
        for (const size_t run : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 400, 1460})
            for (const std::string& before : {""s, "b"s, "xaab"s, "1234567"s})
                for (const std::string& behind : {""s, "b"s, "ab"s, "zzzz"s})
                    payloads.push_back(before + std::string(run, byte) + behind);
    expect_right_by_filter(whole, payloads);
    // Not where a pattern goes on behind a run, and could begin anywhere in it.
    const Strings going_on{"aaaab", "aaaaaaaa"};
    EXPECT_FALSE(PatternSet(going_on).filter().skips_runs);
    expect_right_by_filter(going_on, payloads);
}

TEST(Filter, IsNotNeededForShortPatterns) {
    for (const Strings& patterns : {Strings{"x", "abcd", "xyz"}, Strings{"xa", "abcd", "ax"}}) {
        ASSERT_FALSE(is_filtered(patterns));
        expect_all_right(patterns, each_at_every_place(patterns, {1, 2, 3, 8, 33}, 'a'));
    }
}

TEST(Filter, TellsPatternsApartThatBeginAlike) {
    Strings patterns{"Content",
                     "Content-",
                     "Content-Type",
                     "Content-Type: ",
                     "Content-Type: text/",
                     "Content-Length: ",
                     "Conten",
                     "ntent-type: text/html; charset"};
    for (int i = 0; i < 300; ++i) patterns.push_back("Content-Type: " + std::to_string(i * 37));
    Strings payloads;
    for (const std::string& pattern : patterns) {
        for (size_t bytes = pattern.size() - 3; bytes <= pattern.size(); ++bytes)
            payloads.push_back(pattern.substr(0, bytes));
        payloads.push_back("GET / HTTP/1.1\r\n" + pattern + pattern.substr(4) + "\r\n\r\n");
    }
    expect_right_by_filter(patterns, payloads);
}

TEST(Filter, FindsAllOfATextThatIsNothingButBeginnings) {
    // So many tries that lanes give up and walk.
    Strings patterns{"abcabcabcabc", "bcabcabcabca!", "cabcabcabcabcabcabcabcabcab?", "abca", "nowhere"};
    std::string text;
    while (text.size() < 700) text += "abc";
    Strings payloads{text,       text + "!",         text + "?",
                     "!" + text, text.substr(0, 20), text.substr(0, 300) + "nowhere" + text};
    expect_right_by_filter(patterns, payloads);
    // States of 32 bits.
    std::mt19937 random(2);
    for (int i = 0; i < 900; ++i) patterns.push_back(random_text(random, 90, "0123456789"));
    ASSERT_GT(PatternSet(patterns).state_count(), 65536u);
    payloads.push_back(patterns.back() + patterns[100] + text);
    payloads.push_back(patterns.back().substr(1) + "x" + patterns[100]);
    expect_right_by_filter(patterns, payloads);
}

/// Whether the lanes of a packet come through its text by the filter, without a walk.
template <unsigned Count>
bool comes_through(const PatternTables& tables, const std::string& payload) {
    const detail::Text text(reinterpret_cast<const uint8_t*>(payload.data()), static_cast<uint32_t>(payload.size()));
    PerLane<LaneIds, Lanes<Count>> found;
    for (uint32_t lane = 0; lane < Count; ++lane) found.of(lane).clear(0);
    return detail::filters(tables, text) && detail::filter_text(text, tables, Lanes<Count>{}, found);
}

TEST(Filter, GivesUpWhereTooMuchLooksLikePatterns) {
    const PatternSet set({"abcabcabcabc!", "pattern", "/* a long comment that no packet with code in it would have */",
                          "bcab", "cabcabca?"});
    nf::Image image;
    PatternTables& tables = image.start<PatternTables>();
    set.attach(image, tables);
    std::string ordinary, beginnings, half;
    while (ordinary.size() < 1400) ordinary += "an ordinary text with a Pattern now and then ";
    while (beginnings.size() < 1400) beginnings += "abcabc";
    half = ordinary.substr(0, 700) + beginnings.substr(0, 700);
    for (const auto comes : {comes_through<1>, comes_through<8>, comes_through<32>}) {
        EXPECT_TRUE(comes(tables, ordinary));
        EXPECT_FALSE(comes(tables, beginnings));
        EXPECT_FALSE(comes(tables, half));
        EXPECT_FALSE(comes(tables, std::string(70000, '.'))) << "longer than any packet";
    }
    // Few places, and a long way down from each.
    std::string deep;
    Strings one{std::string(1000, 'x') + "y"};
    const PatternSet long_set(one);
    PatternTables& long_tables = image.start<PatternTables>();
    long_set.attach(image, long_tables);
    for (int i = 0; i < 10; ++i) deep += std::string(i, '.') + std::string(13, 'x') + std::string(100, '.');
    EXPECT_TRUE(comes_through<8>(long_tables, deep));
    EXPECT_FALSE(comes_through<8>(long_tables, std::string(1000, 'x')));
}

TEST(Filter, IsRightForTextsLongerThanAnyPacket) {
    std::string text(70000, '.');
    text.replace(65534, 4, "abcd").replace(69996, 4, "efgh").replace(0, 4, "ijkl");
    expect_right_by_filter({"abcd", "efgh", "ijkl", "mnop"}, {text, text.substr(0, 65536), text.substr(0, 65538)});
}

TEST(Filter, FindsRunsOfZerosAndBlanks) {
    const Strings patterns{"\0\0\0\0"s,   "\0\0\0\0\0\0\0\1"s, "    x",
                           "      \0\0"s, "\0\0\0    "s,       std::string(40, ' ')};
    Strings payloads;
    for (const size_t bytes : {3, 4, 63, 64, 65, 512}) {
        for (const char c : {'\0', ' '}) {
            payloads.push_back(std::string(bytes, c));
            payloads.push_back(std::string(bytes, c) + "\1"s);
            payloads.push_back(std::string(bytes, c) + "x");
            payloads.push_back(std::string(bytes, c) + std::string(7, static_cast<char>(' ' - c)) +
                               std::string(bytes, c));
        }
    }
    expect_right_by_filter(patterns, payloads);
}

TEST(Filter, KeepsBytesApartThatItsHashMerges) {
    // Each pair differs in bit 5 alone, and is no letter; the last differ in it with the highest bit set.
    const std::pair<char, char> kPairs[] = {{'@', '`'}, {'[', '{'},    {'\\', '|'},      {']', '}'},
                                            {'^', '~'}, {'_', '\x7f'}, {'\xc1', '\xe1'}, {'\xda', '\xfa'}};
    Strings patterns, payloads;
    for (const auto& [first, second] : kPairs) {
        for (size_t place = 0; place < 14; ++place) {
            std::string pattern = "0123456789ABCD", other = pattern;
            pattern[place] = first;
            other[place] = second;
            patterns.push_back(place % 2 == 0 ? pattern : other);
            const Strings both{".." + pattern + "..", ".." + other + ".."};
            payloads.insert(payloads.end(), both.begin(), both.end());
            // Alone, where the bytes behind the first four are compared without a look-up.
            if (place % 5 == 0) expect_right_by_filter({pattern}, both), expect_right_by_filter({other}, both);
        }
    }
    expect_right_by_filter(patterns, payloads);
}

TEST(Filter, IgnoresTheCaseOfLettersAndKeepsHighBytes) {
    const Strings patterns{"GeT /AbCdEfGhIjKl",
                           "\xc4\xd6\xdc\xc1"s,
                           "\xe4\xf6\xfc\xe1\x80\xff"s,
                           "azAZ",
                           "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e"s,
                           "\xff\xff\xff\xff"s};
    Strings payloads{"get /aBcDeFgHiJkL",
                     "GET /ABCDEFGHIJKLM",
                     ".AzaZ.",
                     "\xe4\xf6\xfc\xe1"s,
                     "\xc4\xd6\xdc\xc1\x80\xff"s,
                     "\xe4\xf6\xfc\xe1\x80\xff"s,
                     std::string(20, '\xff'),
                     "\xff\xff\xff"s};
    for (const std::string& pattern : patterns) payloads.push_back("\x7f" + pattern + "\x80");
    expect_right_by_filter(patterns, payloads);
}

TEST(Filter, AgreesWithNaiveSearchOnRandomSets) {
    std::mt19937 random(3);
    const std::string_view kAlphabets[] = {"abcdefghijklmnopqrstuvwxyz"sv, "aAbBcC@`[{\0 \xc1\xe1"sv, "abc"sv};
    for (int round = 0; round < 60; ++round) {
        const std::string_view alphabet = kAlphabets[round % 3];
        const size_t shortest = round % 2 == 0 ? 4 : 3;
        Strings patterns, payloads;
        for (int i = 0; i < 25; ++i) {
            // Many go on from one that is there.
            const std::string begin = i % 3 != 0 ? patterns[random() % patterns.size()] : "";
            patterns.push_back(begin.substr(0, random() % (begin.size() + 1)) +
                               random_text(random, shortest + random() % 20, alphabet));
        }
        if (!is_filtered(patterns)) continue;
        for (int i = 0; i < 120; ++i) {
            std::string text = random_text(random, random() % 200, alphabet);
            for (size_t k = 0; k < random() % 6; ++k) {
                const std::string& pattern = patterns[random() % patterns.size()];
                text.insert(random() % (text.size() + 1), pattern.substr(0, pattern.size() - random() % 2));
            }
            payloads.push_back(text);
        }
        expect_right_by_filter(patterns, payloads);
    }
}

}  // namespace
}  // namespace millrace::nf::nids::pattern::test
