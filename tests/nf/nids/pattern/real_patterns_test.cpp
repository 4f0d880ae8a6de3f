// Published rule sets' strings over real payload: every engine and every number of lanes.
#include <gtest/gtest.h>

#include <random>

#include "millrace/base/files/file.hpp"
#include "oracle.hpp"
#include "support/data.hpp"

namespace millrace::nf::nids::pattern::test {
namespace {

using Strings = std::vector<std::string>;
using millrace::test::data_path;

std::string unhex(std::string_view hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    return bytes;
}

/// The last word of every line, in hex; lines without a hex word there (headings) are left out.
Strings hex_patterns(const std::string& name) {
    Strings patterns;
    for_each_line(read_file(data_path(name)), [&](std::string_view line, uint32_t) {
        const std::string_view word = line.substr(line.find_last_of(" \t") + 1);
        const bool is_hex = word.find_first_not_of("0123456789abcdefABCDEF") == word.npos;
        if (!word.empty() && is_hex) patterns.push_back(unhex(word));
    });
    return patterns;
}

/// Lines of "id:/literal/flags" whose special characters are escaped as in a regular expression.
Strings escaped_patterns(const std::string& name) {
    Strings patterns;
    for_each_line(read_file(data_path(name)), [&](std::string_view line, uint32_t) {
        const size_t begin = line.find('/');
        const size_t end = line.rfind('/');
        if (begin == line.npos || end <= begin + 1) return;
        const std::string_view text = line.substr(begin + 1, end - begin - 1);
        std::string bytes;
        for (size_t i = 0; i < text.size(); ++i) {
            if (text[i] != '\\') {
                bytes += text[i];
            } else if (text[++i] == 'x') {
                bytes += unhex(text.substr(i + 1, 2));
                i += 2;
            } else {
                bytes += text[i];
            }
        }
        patterns.push_back(bytes);
    });
    return patterns;
}

Strings words(const std::string& name) {
    Strings patterns;
    for_each_line(read_file(data_path(name)), [&](std::string_view line, uint32_t) {
        if (!line.empty()) patterns.emplace_back(line);
    });
    return patterns;
}

/// Slices of HTTP-like and of captured payload in all sizes of interest; every other one has patterns
/// planted in it, in changed case, also at its very beginning and end.
Strings real_payloads(const Strings& patterns, std::initializer_list<size_t> sizes, int rounds) {
    std::mt19937 random(5);
    Strings payloads;
    for (const char* file : {"chain-bench/http.bin.xz", "chain-bench/pcap.bin.xz"}) {
        const std::string traffic = read_file(data_path(file));
        for (int round = 0; round < rounds; ++round) {
            for (const size_t bytes : sizes) {
                std::string payload = traffic.substr(random() % (traffic.size() - bytes), bytes);
                for (size_t plant = 0; plant < 5 && round % 2 == 1; ++plant) {
                    std::string pattern = patterns[random() % patterns.size()];
                    if (pattern.size() > bytes) continue;
                    for (char& c : pattern)
                        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
                            c = static_cast<char>(c ^ (random() % 2 * 0x20));
                    const size_t room = bytes - pattern.size();
                    const size_t at = plant == 0 ? 0 : plant == 1 ? room : random() % (room + 1);
                    payload.replace(at, pattern.size(), pattern);
                }
                payloads.push_back(payload);
            }
        }
    }
    return payloads;
}

size_t count_found(const std::vector<Ids>& found) {
    size_t count = 0;
    for (const Ids& ids : found) count += ids.size();
    return count;
}

TEST(RealPatterns, SnortFastPatternsAreFoundByEveryEngineAsByNaiveSearch) {
    MILLRACE_NEEDS_DATA("chain-bench/snort_fp.txt");
    const Strings patterns = hex_patterns("chain-bench/snort_fp.txt");
    ASSERT_EQ(patterns.size(), 3203u);
    const Strings payloads = real_payloads(patterns, {0, 1, 31, 32, 33, 64, 1023, 1024, 1025, 1460, 9000}, 8);
    const std::vector<Ids> expected = search_naively(patterns, payloads);
    EXPECT_GT(count_found(expected), 1000u);
    expect_all_agree(patterns, payloads, &expected);
}

TEST(RealPatterns, SnortRarePatternsAreFoundInLongPayloads) {
    MILLRACE_NEEDS_DATA("chain-bench/snort_rare.txt");
    const Strings patterns = hex_patterns("chain-bench/snort_rare.txt");
    expect_all_right(patterns, real_payloads(patterns, {65000}, 2));
}

TEST(RealPatterns, AllContentStringsOfTheSnortCommunityRulesAgree) {
    const std::string name = "patterns/content-strings/snort-community-2021.contents.tsv.xz";
    MILLRACE_NEEDS_DATA(name);
    const Strings patterns = hex_patterns(name);
    ASSERT_GT(patterns.size(), 5000u);
    const Searchers all(patterns);
    all.expect_right(real_payloads(patterns, {1, 31, 32, 33, 1024, 1460}, 4));
    all.expect_agreement(real_payloads(patterns, {0, 1, 64, 300, 1460, 9000}, 6), nullptr);
}

TEST(RealPatterns, ThirtyThousandContentStringsBuildAndAgree) {
    const std::string name = "patterns/content-strings/et-open-2025.contents.tsv.xz";
    MILLRACE_NEEDS_DATA(name);
    const Strings patterns = hex_patterns(name);
    ASSERT_GT(patterns.size(), 30000u);
    const Searchers all(patterns);
    all.expect_right(real_payloads(patterns, {33, 1025}, 4));
    all.expect_agreement(real_payloads(patterns, {0, 1, 64, 300, 1460}, 6), nullptr);
}

TEST(RealPatterns, FifteenThousandWordsAgree) {
    const std::string name = "patterns/aho-corasick/words-15000.txt.xz";
    MILLRACE_NEEDS_DATA(name);
    const Strings patterns = words(name);
    ASSERT_EQ(patterns.size(), 15000u);
    expect_all_right(patterns, real_payloads(patterns, {31, 1460}, 4));
}

TEST(RealPatterns, TheLiteralsOfHyperscansBenchmarkAgree) {
    const std::string name = "patterns/hsbench/snort_literals";
    MILLRACE_NEEDS_DATA(name);
    const Strings patterns = escaped_patterns(name);
    ASSERT_GT(patterns.size(), 3000u);
    expect_all_right(patterns, real_payloads(patterns, {33, 1460}, 4));
}

}  // namespace
}  // namespace millrace::nf::nids::pattern::test
