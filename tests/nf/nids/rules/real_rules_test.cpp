// Rule sets as their authors publish them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"
#include "support/data.hpp"

namespace millrace::nf::nids {
namespace {

struct Loaded {
    size_t rules = 0;
    CompiledRules compiled;
    double seconds = 0;
};

Loaded load(const std::string& folder) {
    Loaded loaded;
    const auto start = std::chrono::steady_clock::now();
    std::vector<Rule> rules;
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(test::data_path(folder)))
        if (entry.path().string().find(".rules") != std::string::npos) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) {
        RuleFile parsed = parse_rules(read_file(file), file, Variables::defaults());
        for (const Diagnostic& error : parsed.errors)
            ADD_FAILURE() << error.where.file << ":" << error.where.line << ":" << error.where.column << ": "
                          << error.message;
        for (Rule& rule : parsed.rules) rules.push_back(std::move(rule));
    }
    loaded.rules = rules.size();
    loaded.compiled = compile(std::move(rules), false);
    loaded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::map<std::string, size_t> reasons;
    for (const Rule& rule : loaded.compiled.unsupported) ++reasons[rule.unsupported_group];
    std::printf("%s: %zu of %zu rules supported, %zu without a pattern, %.1f s; %s\n", folder.c_str(),
                loaded.compiled.rules.size(), loaded.rules, loaded.compiled.without_pattern.rules(), loaded.seconds,
                loaded.compiled.patterns->summary().c_str());
    for (const auto& [reason, count] : reasons)
        if (count >= 5) std::printf("    %5zu %s\n", count, reason.c_str());
    return loaded;
}

void expect_supported(const std::string& folder, size_t rules, size_t supported) {
    const Loaded loaded = load(folder);
    EXPECT_EQ(loaded.rules, rules);
    EXPECT_EQ(loaded.compiled.rules.size(), supported);
    EXPECT_EQ(loaded.compiled.rules.size() + loaded.compiled.unsupported.size(), rules);
    EXPECT_LT(loaded.seconds, 10);
}

TEST(RealRules, SnortCommunityRulesAreRead) {
    MILLRACE_NEEDS_DATA("ids-rules");
    expect_supported("ids-rules/snort-community-2021", 498, 497);
}
TEST(RealRules, Snort3CommunityRulesAreRead) {
    MILLRACE_NEEDS_DATA("ids-rules");
    expect_supported("ids-rules/snort3-community", 4018, 3981);
}
TEST(RealRules, EmergingThreatsOpenIsRead) {
    MILLRACE_NEEDS_DATA("ids-rules");
    expect_supported("ids-rules/et-open-2025", 9077, 8989);
}
TEST(RealRules, SuricatasEngineRulesAreRead) {
    MILLRACE_NEEDS_DATA("ids-rules");
    // The one asks for a number which only others would count.
    expect_supported("ids-rules/suricata-engine", 351, 1);
}

}  // namespace
}  // namespace millrace::nf::nids
