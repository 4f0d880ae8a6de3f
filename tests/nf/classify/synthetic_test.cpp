// Made-up rule sets have the properties that were asked for.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lab/classify/synthetic.hpp"
#include "nf/classify/engines.hpp"

namespace millrace::nf::classify {
namespace {

using Rules = std::vector<TernaryRule<9>>;

/// Sizes of the classes, the largest first.
std::vector<size_t> class_sizes(const Rules& rules) {
    std::map<std::array<uint32_t, 9>, size_t> classes;
    for (const auto& rule : rules) ++classes[mask_of(rule)];
    std::vector<size_t> sizes;
    for (const auto& [mask, count] : classes) sizes.push_back(count);
    std::sort(sizes.rbegin(), sizes.rend());
    return sizes;
}

/// How many rules match the key; they are of different classes.
size_t matching(const Rules& rules, const TernaryKey<9>& key) {
    return static_cast<size_t>(
        std::count_if(rules.begin(), rules.end(), [&](const auto& rule) { return rule.matches(key); }));
}

TEST(Synthetic, HasTheClassesAndTheRulesThatWereAskedFor) {
    for (const unsigned fields : {5u, 12u}) {
        const auto set = make_synthetic({.rules = 1000, .classes = 100, .full_classes = 7, .fields = fields});
        const auto sizes = class_sizes(ternary_rules(set));
        ASSERT_EQ(sizes.size(), 100u);
        EXPECT_EQ(set.rules.size(), 1000u);
        EXPECT_EQ(sizes[0], 130u);  // 907 rules in 7 classes
        EXPECT_EQ(sizes[6], 129u);
        EXPECT_EQ(sizes[7], 1u);
    }
    EXPECT_EQ(class_sizes(ternary_rules(make_synthetic({.rules = 1024, .classes = 128}))), std::vector<size_t>(128, 8));
    EXPECT_EQ(make_synthetic({.rules = 1, .classes = 1}).rules.size(), 1u);
}

TEST(Synthetic, OverlapsAsWasAskedFor) {
    for (const unsigned fields : {5u, 12u})
        for (const uint32_t overlap : {1u, 2u, 16u, 128u}) {
            const auto set = make_synthetic(
                {.rules = 1024, .classes = 128, .overlap = overlap, .fields = fields, .packets = 300});
            const Rules rules = ternary_rules(set);
            size_t more = 0;
            for (const auto& [header, rule] : set.packets) {
                const TernaryKey<9> key = ternary_key<9>(header);
                ASSERT_TRUE(rules[rule].matches(key));
                const size_t count = matching(rules, key);
                ASSERT_GE(count, overlap);
                more += count > overlap;
            }
            EXPECT_LE(more, 3u) << "matches by chance, " << fields << " fields, overlap " << overlap;
        }
}

TEST(Synthetic, IsTheSameForTheSameSeed) {
    const SyntheticSpec spec{.rules = 300, .classes = 20, .packets = 10, .seed = 5};
    const auto text = [](const SyntheticSpec& of) {
        std::string all;
        const auto set = make_synthetic(of);
        for (const auto& rule : set.rules) all += flow_text(rule) + "\n";
        for (const auto& packet : set.packets) all += trace_text(packet, 12) + "\n";
        return all;
    };
    EXPECT_EQ(text(spec), text(spec));
    SyntheticSpec other = spec;
    other.seed = 6;
    EXPECT_NE(text(spec), text(other));
}

TEST(Synthetic, RefusesNumbersThatDoNotFit) {
    for (const SyntheticSpec& spec :
         {SyntheticSpec{.rules = 10, .classes = 11}, SyntheticSpec{.classes = 0},
          SyntheticSpec{.classes = 10, .full_classes = 11}, SyntheticSpec{.classes = 10, .overlap = 11},
          SyntheticSpec{.classes = 10, .full_classes = 3, .overlap = 4}, SyntheticSpec{.overlap = 0},
          SyntheticSpec{.fields = 7}, SyntheticSpec{.rules = 5000, .classes = 5000, .fields = 5}})
        EXPECT_THROW(make_synthetic(spec), std::invalid_argument);
}

TEST(Synthetic, IsSearchedAlikeByEveryEngine) {
    for (const uint32_t overlap : {1u, 8u}) {
        const auto set = make_synthetic({.rules = 4096, .classes = 256, .overlap = overlap, .packets = 2000});
        const Rules rules = ternary_rules(set);
        for (const Engine& engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::merged}) {
            Image image;
            auto& tables = image.start<Search<9>::Tables>();
            SearchBuilder<9>(rules, engine, 1 << 26).attach(image, tables);
            for (const auto& [header, rule] : set.packets) {
                const TernaryKey<9> key = ternary_key<9>(header);
                const auto first = std::find_if(rules.begin(), rules.end(),
                                                [&](const auto& r) { return r.matches(key); });
                ASSERT_EQ(Search<9>::find(tables, key, Lanes<8>{}), first->position)
                    << kEngineNames[static_cast<size_t>(engine)];
            }
        }
    }
}

TEST(Synthetic, OfFiveFieldsIsReadBackAsClassBench) {
    const auto set = make_synthetic({.rules = 500, .classes = 50, .fields = 5, .packets = 500});
    std::string text;
    for (const auto& rule : set.rules) text += classbench_text(rule) + "\n";
    RuleSet rules;
    load_classbench(text, "set", {}, rules);
    ASSERT_EQ(rules.rules.size(), 500u);
    for (const auto& [header, rule] : set.packets) {
        HeaderKey key;
        key.ip_version = 4;
        key.src_high = header.ip_src_high;
        key.dst_high = header.ip_dst_high;
        key.src_port = header.l4_src;
        key.dst_port = header.l4_dst;
        key.protocol = header.protocol;
        key.has = HeaderKey::kPorts;
        ASSERT_TRUE(matches(rules.boxes[rule], key)) << classbench_text(set.rules[rule]);
    }
}

}  // namespace
}  // namespace millrace::nf::classify
