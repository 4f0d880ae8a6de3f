// The pcre options of real rule sets, against PCRE2.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/nids/regex/parse/parser.hpp"
#include "oracle.hpp"
#include "strings.hpp"
#include "support/data.hpp"

namespace millrace::nf::nids::regex::test {
namespace {

struct Option {
    std::string pattern, flags;
    auto operator<=>(const Option&) const = default;
};

/// The pcre options of a line; letters that say where to search are stripped, as the NIDS does.
void add_options(std::string_view line, std::vector<Option>& options) {
    for (size_t at = line.find("pcre:"); at != std::string_view::npos; at = line.find("pcre:", at + 1)) {
        const size_t from = line.find_first_not_of(" !", at + 5);
        if (from == std::string_view::npos || line[from] != '"') continue;
        size_t end = from + 1;
        while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
        const std::string_view text = line.substr(from + 1, std::min(end, line.size()) - from - 1);
        const size_t slash = text.rfind('/');
        if (!text.starts_with('/') || slash == 0) continue;
        std::string flags(text.substr(slash + 1));
        std::erase_if(flags, [](char c) { return std::string_view("imsxAEG").find(c) == std::string_view::npos; });
        options.push_back({std::string(text.substr(1, slash - 1)), flags});
    }
}

std::vector<Option> options_of(const std::string& folder) {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(millrace::test::data_path("ids-rules/" + folder)))
        if (file.path().string().find(".rules") != std::string::npos) files.push_back(file.path());
    std::ranges::sort(files);
    std::vector<Option> options;
    for (const std::string& file : files)
        for_each_line(read_file(file), [&](std::string_view line, uint32_t) { add_options(line, options); });
    return options;
}

class RegexRules : public testing::TestWithParam<std::pair<const char*, size_t>> {};

TEST_P(RegexRules, NearlyAllPcreOptionsCompileAndTheRestAreOnesThatPcre2RefusesToo) {
    MILLRACE_NEEDS_DATA("ids-rules");
    const auto [folder, least_options] = GetParam();
    const std::vector<Option> options = options_of(folder);
    ASSERT_GE(options.size(), least_options);
    RegexSet set;
    size_t compiled = 0;
    std::map<std::string, size_t> reasons;
    for (const Option& option : options) {
        const RegexCompileResult result = set.add(option.pattern, option.flags);
        compiled += result ? 1 : 0;
        if (result) continue;
        ++reasons[result.reason];
        EXPECT_FALSE(Oracle(option.pattern, option.flags).compiled())
            << "/" << option.pattern << "/: " << result.reason << " at " << result.offset;
    }
    std::cout << folder << ": " << compiled << " of " << options.size() << " pcre options compile into "
              << set.code_words() * 4 << " bytes of code and " << set.set_words() * 4 << " of sets\n";
    for (const auto& [reason, count] : reasons) std::cout << "  refused: " << count << " x " << reason << "\n";
    EXPECT_GE(static_cast<double>(compiled), 0.99 * static_cast<double>(options.size()));
}
INSTANTIATE_TEST_SUITE_P(Sets, RegexRules,
                         testing::Values(std::pair("et-open-2025", 3500u), std::pair("snort-community-2021", 1000u),
                                         std::pair("snort3-community", 1000u)),
                         [](const auto& instance) {
                             std::string name = instance.param.first;
                             std::erase(name, '-');
                             return name;
                         });

/// Every distinct option of all sets.
std::set<Option> distinct_options() {
    std::set<Option> distinct;
    for (const char* folder : {"et-open-2025", "snort-community-2021", "snort3-community"})
        for (Option& option : options_of(folder)) distinct.insert(std::move(option));
    return distinct;
}

struct Tally {
    size_t searches = 0, matches = 0, limits = 0, oracle_limits = 0, different = 0;
};

void compare(const RegexSet& set, uint32_t program, const Oracle& oracle, const Option& option, std::string_view data,
             Tally& tally) {
    MatchEnd expected;
    if (!oracle.search(data, 0, expected)) {
        ++tally.oracle_limits;
        return;
    }
    uint32_t end = 0;
    const RegexResult result = search(set, program, data, 0, &end);
    ++tally.searches;
    if (result == RegexResult::limit) {
        ++tally.limits;
        return;
    }
    if (result == RegexResult::match) ++tally.matches;
    if (words(result, end) == words(expected)) return;
    if (++tally.different > 5) return;
    ADD_FAILURE() << "/" << option.pattern << "/" << option.flags << " on \"" << printable(data)
                  << "\": " << words(result, end) << ", PCRE2: " << words(expected);
}

TEST(RegexRulesPayload, SearchesMadeFromThePatternsAndOfRealTrafficEndAsThoseOfPcre2) {
    MILLRACE_NEEDS_DATA("ids-rules");
    MILLRACE_NEEDS_DATA("chain-bench");
    const std::string http = read_file(millrace::test::data_path("chain-bench/http.bin.xz"));
    const std::string captured = read_file(millrace::test::data_path("chain-bench/pcap.bin.xz"));
    Random random(20);
    RegexSet set;
    Tally made, noise, real;
    std::vector<std::tuple<Option, Node, uint32_t>> programs;
    for (const Option& option : distinct_options())
        if (const RegexCompileResult result = set.add(option.pattern, option.flags))
            programs.emplace_back(option, parse_pattern(option.pattern, option.flags).root, *result.program);
    ASSERT_GT(programs.size(), 3000u);
    for (const auto& [option, root, program] : programs) {
        const Oracle oracle(option.pattern, option.flags);
        ASSERT_TRUE(oracle.compiled()) << option.pattern << ": " << oracle.error();
        for (int i = 0; i < 6; ++i) {
            std::string text = string_from(root, random);
            if (i >= 3) text = mutated(std::move(text), random);
            if (i % 3 == 1)
                text = random_bytes(random, pick(random, 40)) + text + random_bytes(random, pick(random, 40));
            if (i % 3 == 2) text = "x\n" + text + "\ny" + text;
            compare(set, program, oracle, option, text, made);
        }
        compare(set, program, oracle, option, random_bytes(random, 1024), noise);
        for (const std::string* payload : {&http, &captured}) {
            const size_t bytes = pick(random, 1460) + 1;
            const size_t at = pick(random, static_cast<uint32_t>(payload->size() - bytes));
            compare(set, program, oracle, option, std::string_view(*payload).substr(at, bytes), real);
        }
    }
    for (const auto& [name, tally] : {std::pair("made", made), std::pair("noise", noise), std::pair("real", real)}) {
        std::cout << name << ": " << tally.searches << " searches, " << tally.matches << " matches, " << tally.limits
                  << " at our limit, " << tally.oracle_limits << " at that of PCRE2, " << tally.different
                  << " different\n";
        EXPECT_EQ(tally.different, 0u);
    }
    // Strings from the patterns must match often, or nothing was compared.
    EXPECT_GT(made.matches * 5, made.searches * 2);
    EXPECT_LT(made.limits * 1000, made.searches);
    EXPECT_EQ(noise.limits, 0u);
    EXPECT_LT(real.limits * 1000, real.searches);
}

}  // namespace
}  // namespace millrace::nf::nids::regex::test
