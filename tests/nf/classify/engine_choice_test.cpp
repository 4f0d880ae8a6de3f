// `engine: auto`: which engine searches some rules, by counts.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <nlohmann/json.hpp>

#include "lab/classify/synthetic.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/nf/classify/rules/classbench.hpp"
#include "nf/classify/engines.hpp"
#include "support/data.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::classify {
namespace {

RuleSet prefixes_24(int count) {
    std::mt19937_64 random(10);
    RuleSet rules;
    rules.files.push_back("many");
    for (int i = 0; i < count; ++i) {
        Box box;
        box.ipv6 = false;
        box.dst = *parse_prefix("10." + std::to_string(random() % 256) + "." + std::to_string(random() % 256) +
                                ".0/24");
        rules.add(Rule{}, box);
    }
    return rules;
}

TEST(EngineChoice, IsTheSameOnEveryLoadAndSaysWhy) {
    const RuleSet rules = prefixes_24(3000);
    for (const Searcher searcher : {Searcher::core, Searcher::gpu}) {
        const EngineChoice first = ClassifierBuilder(rules, uint64_t{1} << 30, std::nullopt, searcher).ipv4_choice();
        for (int i = 0; i < 3; ++i) {
            const ClassifierBuilder again(rules, uint64_t{1} << 30, std::nullopt, searcher);
            EXPECT_EQ(again.ipv4_choice().engine, first.engine);
            EXPECT_EQ(again.ipv4_choice().text(), first.text());
            EXPECT_TRUE(again.ipv6_choice().estimates.empty());
        }
        ASSERT_EQ(first.estimates.size(), 5u);
        const Estimate& taken = first.estimates[static_cast<size_t>(first.engine)];
        for (const Estimate& estimate : first.estimates) {
            EXPECT_GT(estimate.nanoseconds, 0);
            EXPECT_LE(taken.nanoseconds, estimate.nanoseconds);
        }
        EXPECT_TRUE(
            first.text().starts_with(std::string(kEngineNames[static_cast<size_t>(first.engine)]) + " (by counts, "))
            << first.text();
        EXPECT_NE(first.text().find(searcher == Searcher::core ? "ns a lookup on a core;" : "ns a lookup on a GPU;"),
                  std::string::npos)
            << first.text();
    }
}

TEST(EngineChoice, CountsWhatTheEnginesMeet) {
    // One class of 100 rules, all looked up: one merged table, one class, and each rule as far down as it stands.
    std::vector<TernaryRule<4>> rules(100);
    std::vector<TernaryKey<4>> keys(100);
    for (uint32_t i = 0; i < rules.size(); ++i) {
        rules[i].mask[0] = 0xffffffffu;
        rules[i].value[0] = keys[i].words[0] = 1000 + i;
        rules[i].position = i;
    }
    const MergedBuilder<4> merged(rules, 1 << 20);
    const LookupCounts core = count_lookups<4>(rules, merged, keys, Searcher::core);
    EXPECT_DOUBLE_EQ(core.tables, 1);
    EXPECT_DOUBLE_EQ(core.classes, 1);
    EXPECT_DOUBLE_EQ(core.chunks, 1);
    EXPECT_DOUBLE_EQ(core.compared, 1);
    EXPECT_DOUBLE_EQ(core.rules, (12 * 8 * 13 / 2 * 8 + 4 * 100) / 100.0) << "in tiles of 8";
    // 32 at the pace of the slowest: the last group has four.
    const LookupCounts gpu = count_lookups<4>(rules, merged, keys, Searcher::gpu);
    EXPECT_DOUBLE_EQ(gpu.rules, (32 + 64 + 96 + 100) / (100 / 32.0));
    EXPECT_DOUBLE_EQ(gpu.tables, 4 / (100 / 32.0));
    EXPECT_GE(gpu.slots, core.slots);
}

TEST(EngineChoice, LooksIntoMergedTablesAsTheEngineDoes) {
    SyntheticSpec spec;
    spec.rules = 2000;
    spec.classes = 40;
    spec.packets = 500;
    const SyntheticSet made = make_synthetic(spec);
    const auto rules = ternary_rules(made);
    const MergedBuilder<9> merged(rules, 1 << 24);
    for (const SyntheticPacket& packet : made.packets) {
        const auto key = ternary_key<9>(packet.fields);
        uint32_t best = kNoRule;
        for (size_t t = 0; t < merged.tables(); ++t) merged.look_into(t, key, best);
        const auto first = std::find_if(rules.begin(), rules.end(),
                                        [&](const auto& rule) { return rule.matches(key); });
        ASSERT_EQ(best, first == rules.end() ? kNoRule : first->position);
    }
}

TEST(EngineChoice, LeavesOutWhatDoesNotFit) {
    RuleSet rules = prefixes_24(3000);
    const ClassifierBuilder free(rules, uint64_t{1} << 30, std::nullopt);
    const Engine best = free.ipv4_choice().engine;
    // Room for less than that: the next best is taken, and why is said.
    const ClassifierBuilder tight(rules, free.bytes() - 13'000, std::nullopt);
    EXPECT_NE(tight.ipv4_choice().engine, best);
    EXPECT_LT(tight.bytes(), free.bytes());
    EXPECT_NE(tight.ipv4_choice().text().find(std::string("; not ") + kEngineNames[static_cast<size_t>(best)]),
              std::string::npos)
        << tight.ipv4_choice().text();
    EXPECT_THROW(ClassifierBuilder(rules, 1000, std::nullopt), TablesTooLarge);
}

TEST(EngineChoice, DependsOnWhoSearches) {
    MILLRACE_NEEDS_DATA("classbench");
    const std::string options = "{engine: auto, classbench: " +
                                millrace::test::data_path("classbench/cutsplit/acl1_10k.xz") + "}";
    std::map<bool, std::string> summaries;
    for (const bool on_device : {false, true}) {
        Environment environment{
            .node_name = "f", .chain_name = "c", .output_folder = ".", .ports = millrace::test::kTestPorts};
        environment.on_device = on_device;
        millrace::test::NfRunner runner("firewall", Config::parse(options), environment);
        summaries[on_device] = runner.nf().summary();
    }
    EXPECT_NE(summaries[false].find("by merged (by counts"), std::string::npos) << summaries[false];
    EXPECT_NE(summaries[true].find("by bit-vectors (by counts"), std::string::npos) << summaries[true];
}

/// Millions of lookups a second that were recorded, by set, then engine.
using Records = std::map<std::string, std::map<std::string, double>>;

Records gpu_records() {
    std::ifstream file(millrace::test::source_path("docs/benchmarks/gpu/classification.json"));
    const auto root = nlohmann::json::parse(file);
    Records records;
    for (const auto& lookup : root["lookups"]) {
        if (lookup["figure"] != "6c" && lookup["figure"] != "targets") continue;
        double& best = records[lookup["set"]][lookup["engine"]];
        best = std::max(best, lookup["kernel-per-second"].get<double>() / 1e6);
    }
    return records;
}

/// As README.md of the classifier has them, one core of an AMD EPYC.
const Records kCoreRecords = {
    {"wustl/acl1_1K", {{"linear", 1.4}, {"tuple", 2.7}, {"bloom", 3.9}, {"bit-vectors", 18.8}, {"merged", 16.3}}},
    {"wustl/fw1_1K", {{"linear", 1.6}, {"tuple", 0.8}, {"bloom", 1.4}, {"bit-vectors", 17.3}, {"merged", 13.9}}},
    {"wustl/ipc1_1K", {{"linear", 1.4}, {"tuple", 1.1}, {"bloom", 1.6}, {"bit-vectors", 9.0}, {"merged", 11.8}}},
    {"cutsplit/acl1_10k", {{"tuple", 0.4}, {"bloom", 0.7}, {"bit-vectors", 7.2}, {"merged", 11.5}}},
    {"cutsplit/acl2_10k", {{"tuple", 0.1}, {"bloom", 0.2}, {"bit-vectors", 2.8}, {"merged", 8.6}}},
    {"cutsplit/fw1_10k", {{"tuple", 0.1}, {"bloom", 0.2}, {"bit-vectors", 2.2}, {"merged", 8.1}}},
    {"cutsplit/fw4_10k", {{"tuple", 0.1}, {"bloom", 0.1}, {"bit-vectors", 2.5}, {"merged", 8.5}}},
    {"cutsplit/ipc1_10k", {{"tuple", 0.2}, {"bloom", 0.3}, {"bit-vectors", 4.7}, {"merged", 5.0}}},
    {"large/acl1_100k", {{"tuple", 0.2}, {"bloom", 0.3}, {"bit-vectors", 0.8}, {"merged", 4.9}}},
    {"large/fw1_100k", {{"tuple", 0.04}, {"bloom", 0.1}, {"bit-vectors", 0.7}, {"merged", 3.4}}},
    {"large/ipc1_100k", {{"tuple", 0.1}, {"bloom", 0.1}, {"bit-vectors", 0.7}, {"merged", 4.3}}},
};

/// Larger sets than that are left out here, to be quick: merged tables are the best for all of them by far.
constexpr uint32_t kMaxRules = 20'000;

/// The engine chosen for a set by its name in the records; nothing for sets that are not here.
std::optional<Engine> chosen(const std::string& name, Searcher searcher) {
    SyntheticSpec spec;
    if (std::sscanf(name.c_str(), "made: %u rules of %u fields in %u classes", &spec.rules, &spec.fields,
                    &spec.classes) == 3) {
        if (spec.fields != 12 || spec.rules > kMaxRules) return std::nullopt;
        spec.packets = 1;
        std::optional<MergedBuilder<9>> merged;
        return choose_engine(ternary_rules(make_synthetic(spec)), uint64_t{1} << 30, searcher, merged).engine;
    }
    if (name.starts_with("large/")) return std::nullopt;
    const std::string folder = millrace::test::data_path("classbench/");
    for (const char* const ending : {"", ".xz"}) {
        if (!std::ifstream(folder + name + ending)) continue;
        RuleSet rules;
        load_classbench(read_file(folder + name + ending), name, {}, rules);
        std::vector<uint32_t> indexes;
        std::optional<MergedBuilder<4>> merged;
        return choose_engine(ternary_rules<4>(rules, rules.in_order(), indexes), uint64_t{1} << 30, searcher, merged)
            .engine;
    }
    return std::nullopt;
}

/// How many sets got an engine within a fifth of the best one of the records, of how many.
std::pair<size_t, size_t> within_a_fifth(const Records& records, Searcher searcher) {
    size_t good = 0, all = 0;
    for (const auto& [set, by_engine] : records) {
        const auto engine = chosen(set, searcher);
        if (!engine) continue;
        const auto own = by_engine.find(kEngineNames[static_cast<size_t>(*engine)]);
        const double best = std::max_element(by_engine.begin(), by_engine.end(), [](const auto& a, const auto& b) {
                                return a.second < b.second;
                            })->second;
        const double share = own == by_engine.end() ? 0 : own->second / best;
        good += share >= 0.8;
        ++all;
        std::printf("%-46s %-12s %.2f of the best\n", set.c_str(), kEngineNames[static_cast<size_t>(*engine)], share);
    }
    return {good, all};
}

TEST(EngineChoice, IsWithinAFifthOfTheBestOnNearlyAllRecordedSets) {
    const auto [gpu, of_gpu] = within_a_fifth(gpu_records(), Searcher::gpu);
    ASSERT_GE(of_gpu, 7u) << "the sets of 12 fields need no data";
    EXPECT_GE(gpu + 1, of_gpu);
    const auto [core, of_core] = within_a_fifth(kCoreRecords, Searcher::core);
    EXPECT_GE(core + 1, of_core);
}

}  // namespace
}  // namespace millrace::nf::classify
