// Ternary rules, and the tables of tuple, Bloom and merged search.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "nf/classify/engines.hpp"

namespace millrace::nf::classify {
namespace {

using namespace test;
using Random = std::mt19937_64;
using Rule4 = TernaryRule<4>;

bool in(const Rule4& rule, uint16_t src, uint16_t dst) {
    TernaryKey<4> key{};
    key.words[2] = static_cast<uint32_t>(src) << 16 | dst;
    key.words[3] = HeaderKey::kPorts;
    return rule.matches(key);
}

/// Ranges with their ends at, below and above powers of two, one port, all ports.
const std::vector<PortRange> kRanges = {
    {0, 65535}, {0, 0},         {65535, 65535}, {0, 1023}, {1024, 65535}, {1023, 1024}, {1, 65534}, {1, 65535},
    {0, 65534}, {32768, 65535}, {80, 80},       {80, 81},  {81, 82},      {1234, 4321}, {5, 7},     {16384, 49151}};

TEST(TernaryRule, HoldsThePortsOfItsRanges) {
    for (const PortRange& src : kRanges)
        for (const PortRange& dst : kRanges) {
            Rule4 rule;
            set_ports(rule, src, dst);
            for (const uint16_t port :
                 {0, 1, 5, 79, 80, 81, 1023, 1024, 16383, 16384, 32768, 49151, 49152, 65534, 65535}) {
                ASSERT_EQ(in(rule, port, dst.low), src.contains(port)) << ports_text(src) << " " << port;
                ASSERT_EQ(in(rule, src.high, port), dst.contains(port)) << ports_text(dst) << " " << port;
            }
        }
}

TEST(TernaryRule, AsksForPortsOnlyWhereARangeIsNotAll) {
    Rule4 rule;
    set_ports(rule, {}, {});
    EXPECT_TRUE(rule.matches(TernaryKey<4>{}));
    set_ports(rule, {}, {0, 65534});
    EXPECT_FALSE(rule.matches(TernaryKey<4>{}));
}

TEST(TernaryRule, IsMadeUpByItsPrefixesWithoutOverlap) {
    for (const PortRange& src : kRanges)
        for (const PortRange& dst : kRanges) {
            Rule4 rule;
            set_ports(rule, src, dst);
            std::vector<Rule4> parts;
            expand_ranges(rule, parts);
            EXPECT_LE(parts.size(), 900u);  // 30 prefixes a range at most
            const auto holders = [&](uint16_t a, uint16_t b) {
                return std::count_if(parts.begin(), parts.end(), [&](const Rule4& part) { return in(part, a, b); });
            };
            Random random(1);
            for (int i = 0; i < 300; ++i) {
                const auto near = [&](const PortRange& range) {
                    const uint32_t at[] = {range.low, range.low - 1u, range.high, range.high + 1u,
                                           static_cast<uint32_t>(random())};
                    return static_cast<uint16_t>(at[random() % 5]);
                };
                const uint16_t a = near(src), b = near(dst);
                ASSERT_EQ(holders(a, b), in(rule, a, b) ? 1 : 0)
                    << ports_text(src) << " " << ports_text(dst) << ": " << a << " " << b;
            }
        }
}

/// Rules of one class: random values under one mask.
std::vector<Rule4> one_class(size_t count, uint64_t seed) {
    Random random(seed);
    std::vector<Rule4> rules(count);
    for (size_t i = 0; i < count; ++i) {
        rules[i].mask[0] = 0xffffff00u;
        rules[i].value[0] = static_cast<uint32_t>(random()) & rules[i].mask[0];
        rules[i].position = static_cast<uint32_t>(i);
    }
    return rules;
}

uint32_t first_of(const std::vector<Rule4>& rules, const TernaryKey<4>& key) {
    for (const Rule4& rule : rules)
        if (rule.matches(key)) return rule.position;
    return kNoRule;
}

/// Every rule must be found by its value, and what is beside by nobody or by another.
void expect_all_found(TupleBuilder<4>& builder, const std::vector<Rule4>& rules) {
    Image image;
    auto& tables = image.start<TupleEngine<4>::Tables>();
    builder.attach(image, tables);
    for (const Rule4& rule : rules)
        for (const uint32_t beside : {0u, 0x55u, 0x100u}) {
            TernaryKey<4> key{{rule.value[0] + beside, 1, 2, 3}};
            ASSERT_EQ(TupleEngine<4>::find(tables, key, Lanes<8>{}), first_of(rules, key));
        }
}

TEST(CuckooTables, AreFilledAtTheLoadOfThePaper) {
    for (const bool filters : {false, true})
        for (const size_t count : {0, 1, 2, 3, 4, 31, 32, 33, 255, 256, 1023, 1024, 1025}) {
            const auto rules = one_class(count, count);
            TupleBuilder<4> builder(rules, filters, 1 << 20, {.load = 0.9});
            EXPECT_EQ(builder.classes(), count > 0 ? 1u : 0u);
            expect_all_found(builder, rules);
        }
}

TEST(CuckooTables, AreFilledAgainWithOtherFunctionsWhenTheyFail) {
    // Beyond 91 % three subtables cannot be filled but by luck, and 2 moves are too few: tables fail, are hashed anew,
    // and grow.
    const auto rules = one_class(500, 1);
    TupleBuilder<4> builder(rules, true, 1 << 20, {.load = 1.0, .max_moves = 20, .tries = 4});
    EXPECT_GT(builder.rehashes(), 4u);
    EXPECT_GT(builder.growths(), 0u);
    EXPECT_LE(builder.growths(), builder.rehashes() / 4);
    expect_all_found(builder, rules);
}

TEST(CuckooTables, FailAndRecoverWithHardlyAnyMoves) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto rules = one_class(20, seed);
        TupleBuilder<4> builder(rules, false, 1 << 20, {.load = 1.0, .max_moves = 1, .tries = 1});
        expect_all_found(builder, rules);
    }
}

TEST(CuckooTables, AreSplitWhereAClassIsTooLarge) {
    const auto rules = one_class(1000, 2);
    for (const bool filters : {false, true}) {
        TupleBuilder<4> builder(rules, filters, 1 << 20, {.max_class = 256});
        EXPECT_EQ(builder.classes(), 4u);
        expect_all_found(builder, rules);
    }
}

TEST(CuckooTables, KeepTheFirstOfRulesThatMatchTheSame) {
    std::vector<Rule4> rules(5000, one_class(1, 3).front());
    for (size_t i = 0; i < rules.size(); ++i) rules[i].position = static_cast<uint32_t>(i);
    TupleBuilder<4> builder(rules, true, 1 << 20);
    Image image;
    auto& tables = image.start<TupleEngine<4>::Tables>();
    builder.attach(image, tables);
    EXPECT_EQ(TupleEngine<4>::find(tables, {{rules[0].value[0]}}, Lanes<1>{}), 0u);
    EXPECT_LT(tables.slots.size(), 10u);
}

TEST(CuckooTables, RefuseMoreThanTheirLimit) {
    EXPECT_THROW(TupleBuilder<4>(one_class(1000, 4), false, 10000), TablesTooLarge);
    Rule4 wide;
    set_ports(wide, {1, 65534}, {1, 65534});
    EXPECT_THROW(TupleBuilder<4>(std::vector<Rule4>(100, wide), false, 100000), TablesTooLarge);
}

TEST(BloomFilters, SpareMostTables) {
    const auto rules = one_class(4096, 5);
    TupleBuilder<4> builder(rules, true, 1 << 20);
    Image image;
    auto& tables = image.start<TupleEngine<4>::Tables>();
    builder.attach(image, tables);
    // 32 bits a rule, on average one rule in each word of 32 bits, two bits of which are set for a rule: 0.7 % of other
    // keys pass.
    const auto& in_class = tables.classes[0];
    size_t passed = 0;
    Random random(6);
    for (int i = 0; i < 100000; ++i) {
        const uint32_t hash = tables.function.hash({{static_cast<uint32_t>(random())}}, in_class.mask);
        const uint32_t bits = TupleEngine<4>::filter_bits(hash);
        passed += (tables.filters[in_class.first_filter + TupleEngine<4>::filter_word(hash, in_class.filter_words)] &
                   bits) == bits;
    }
    EXPECT_GT(passed, 300u);
    EXPECT_LT(passed, 1000u);
}

/// Random rules of nine words, as OpenFlow has them, over few values, so that they overlap.
std::vector<TernaryRule<9>> wide_rules(Random& random, size_t count) {
    std::vector<TernaryRule<9>> rules(count);
    for (size_t i = 0; i < count; ++i) {
        for (unsigned k = 0; k < 9; ++k) {
            const uint32_t masks[] = {0, 0, 0xffffffffu, 0xffff0000u, 0x0000000fu};
            rules[i].mask[k] = k == 7 ? 0 : masks[random() % 5];
            rules[i].value[k] = static_cast<uint32_t>(random() % 3) * 0x10001u & rules[i].mask[k];
        }
        if (random() % 2) set_ports(rules[i], kRanges[random() % kRanges.size()], kRanges[random() % kRanges.size()]);
        rules[i].position = static_cast<uint32_t>(i);
    }
    return rules;
}

TEST(EveryEngine, FindsTheFirstOfOverlappingRulesOfNineWords) {
    Random random(7);
    for (const size_t count : {0, 1, 31, 32, 33, 300, 1023, 1024, 1025}) {
        const auto rules = wide_rules(random, count);
        for (const Engine& engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::merged}) {
            Image image;
            auto& tables = image.start<Search<9>::Tables>();
            SearchBuilder<9>(rules, engine, 1 << 26).attach(image, tables);
            for (int i = 0; i < 1000; ++i) {
                TernaryKey<9> key;
                for (uint32_t& word : key.words) word = static_cast<uint32_t>(random() % 3) * 0x10001u;
                const auto& near = kRanges[random() % kRanges.size()];
                key.words[7] = static_cast<uint32_t>(near.low) << 16 | kRanges[random() % kRanges.size()].high;
                if (random() % 4) key.words[8] |= HeaderKey::kPorts;
                uint32_t wanted = kNoRule;
                for (size_t k = 0; k < rules.size() && wanted == kNoRule; ++k)
                    if (rules[k].matches(key)) wanted = static_cast<uint32_t>(k);
                ASSERT_EQ(Search<9>::find(tables, key, Lanes<1>{}), wanted)
                    << kEngineNames[static_cast<size_t>(engine)];
                ASSERT_EQ(Search<9>::find(tables, key, Lanes<32>{}), wanted)
                    << kEngineNames[static_cast<size_t>(engine)];
            }
        }
    }
}

TEST(MergedTables, AreFarFewerThanTheClasses) {
    MILLRACE_NEEDS_DATA("classbench/cutsplit/fw1_10k.xz");
    const RuleSet rules = classbench_rules("cutsplit/fw1_10k.xz");
    std::vector<uint32_t> indexes;
    const auto ternary = ternary_rules<4>(rules, rules.in_order(), indexes);
    std::set<std::array<uint32_t, 4>> masks;
    for (const Rule4& rule : ternary) masks.insert(mask_of(rule));
    EXPECT_GT(masks.size(), 100u);
    EXPECT_LT(MergedBuilder<4>(ternary, 1 << 30).tables(), 20u);  // measured: 7
}

TEST(MergedTables, TakeRulesThatNoMaskTellsApart) {
    // 3,000 rules for all addresses, each for one range: no bit of a value differs, and all must come into one bucket.
    std::vector<Rule4> rules(3000);
    for (size_t i = 0; i < rules.size(); ++i) {
        set_ports(rules[i], {static_cast<uint16_t>(1 + i), static_cast<uint16_t>(65534 - i)}, {1, 65534});
        rules[i].position = static_cast<uint32_t>(i);
    }
    MergedBuilder<4> builder(rules, 1 << 20, {.max_tables = 4});
    EXPECT_LE(builder.tables(), 4u);
    Image image;
    auto& tables = image.start<MergedEngine<4>::Tables>();
    builder.attach(image, tables);
    for (const uint16_t port : {0, 1, 2, 700, 2999, 3000, 32767}) {
        const TernaryKey<4> key{{0, 0, static_cast<uint32_t>(port) << 16 | 99, HeaderKey::kPorts}};
        ASSERT_EQ(MergedEngine<4>::find(tables, key, Lanes<8>{}), first_of(rules, key));
    }
}

TEST(SampleKeys, MatchAboutHalfTheTime) {
    Random random(8);
    std::vector<Rule4> rules = one_class(100, 9);
    for (size_t i = 0; i < rules.size(); ++i)
        set_ports(rules[i], kRanges[i % kRanges.size()], kRanges[random() % kRanges.size()]);
    const auto keys = sample_keys<4>(rules, 1000);
    const auto hits = std::count_if(keys.begin(), keys.end(),
                                    [&](const auto& key) { return first_of(rules, key) != kNoRule; });
    EXPECT_GE(hits, 500);
    EXPECT_LT(hits, 760);
}

}  // namespace
}  // namespace millrace::nf::classify
