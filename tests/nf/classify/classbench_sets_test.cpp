// Real rule sets and traces, searched by every engine.
#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <set>

#include "nf/classify/engines.hpp"

namespace millrace::nf::classify {
namespace {

using namespace test;

/// A rule set, and its trace if there is one.
struct Set {
    const char* rules;
    const char* trace;
    bool acl = true;  ///< compiled by rte_acl, too; the largest take it too long for a test
};

std::string name_of(const testing::TestParamInfo<Set>& info) {
    std::string name = info.param.rules;
    for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
}

std::vector<HeaderKey> keys_of(const std::vector<TraceHeader>& trace) {
    std::vector<HeaderKey> keys;
    for (const TraceHeader& header : trace) keys.push_back(header.key);
    return keys;
}

/// A header at a corner of a box: each field is the first, the last, or one beside.
HeaderKey corner_of(const Box& box, uint64_t random) {
    HeaderKey key;
    key.ip_version = box.ipv6 ? 6 : 4;
    const auto address = [&](const Prefix& prefix, uint64_t& high, uint64_t& low) {
        const unsigned __int128 first = static_cast<unsigned __int128>(high_half(prefix)) << 64 | low_half(prefix);
        const unsigned bits = key.ip_version == 6 ? 128 : 32;
        const unsigned __int128 unit = static_cast<unsigned __int128>(1) << (128 - bits);
        const unsigned __int128 size = prefix.length == 0 ? 0
                                                          : static_cast<unsigned __int128>(1) << (128 - prefix.length);
        unsigned __int128 value = first;
        switch (random % 6) {
            case 1: value = first - unit; break;
            case 2: value = first + size - unit; break;
            case 3: value = first + size; break;
            case 4: value = first + size / 2; break;
            default: break;
        }
        random /= 6;
        if (bits == 32) value = value >> 96 << 96;
        high = static_cast<uint64_t>(value >> 64);
        low = static_cast<uint64_t>(value);
    };
    const auto port = [&](const PortRange& range) {
        const uint16_t choices[] = {range.low, static_cast<uint16_t>(range.low - 1), range.high,
                                    static_cast<uint16_t>(range.high + 1)};
        const uint16_t value = choices[random % 4];
        random /= 4;
        return value;
    };
    address(box.src, key.src_high, key.src_low);
    address(box.dst, key.dst_high, key.dst_low);
    key.src_port = port(box.src_port);
    key.dst_port = port(box.dst_port);
    key.protocol = static_cast<uint8_t>(box.protocol.value + (random % 8 == 0 ? 1 : 0));
    random /= 8;
    key.has = random % 8 == 0 ? 0 : HeaderKey::kPorts;
    random /= 8;
    if (key.protocol == 6 && random % 2 == 0) {
        key.has |= HeaderKey::kFlags;
        key.tcp_flags = static_cast<uint8_t>(random / 2);
    }
    return key;
}

std::vector<HeaderKey> corner_keys(const RuleSet& rules, size_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<HeaderKey> keys;
    for (size_t i = 0; i < count; ++i)
        keys.push_back(corner_of(rules.boxes[random() % rules.boxes.size()], random() >> 1));
    return keys;
}

/// Expects the definition, every engine with 1, 8 and 32 lanes, and rte_acl (may be null) to agree.
void expect_agreement(const RuleSet& rules, const std::vector<Searched>& engines, const Acl* acl,
                      const std::vector<HeaderKey>& keys) {
    const Linear linear(rules);
    const std::vector<uint32_t> by_acl = acl != nullptr ? acl_find(*acl, keys) : std::vector<uint32_t>();
    for (size_t i = 0; i < keys.size(); ++i) {
        const uint32_t wanted = linear.find(keys[i]);
        ASSERT_NO_FATAL_FAILURE(expect_found(engines, keys[i], wanted));
        if (acl != nullptr) {
            ASSERT_EQ(by_acl[i], wanted) << text_of(keys[i]);
        }
    }
}

class WustlTrace : public testing::TestWithParam<Set> {};

TEST_P(WustlTrace, NamesTheFirstMatchOfEveryHeader) {
    MILLRACE_NEEDS_DATA(std::string("classbench/") + GetParam().rules);
    const RuleSet rules = classbench_rules(GetParam().rules);
    MILLRACE_NEEDS_DATA(std::string("classbench/") + GetParam().trace);
    const std::vector<TraceHeader> trace = classbench_trace(GetParam().trace);
    ASSERT_GT(trace.size(), 900u);
    const std::vector<Searched> engines = every_engine(rules);
    const std::vector<uint32_t> by_acl = GetParam().acl ? acl_find(Acl(rules, 0), keys_of(trace))
                                                        : std::vector<uint32_t>();
    // The same header stands in a trace several times, which an engine answers as it did before: it keeps nothing.
    std::set<std::pair<std::string, uint32_t>> searched;
    for (size_t i = 0; i < trace.size(); ++i) {
        // Their rules count from 1.
        if (searched.emplace(text_of(trace[i].key), trace[i].rule).second) {
            ASSERT_NO_FATAL_FAILURE(expect_found(engines, trace[i].key, trace[i].rule - 1));
        }
        if (GetParam().acl) {
            ASSERT_EQ(by_acl[i] + 1, trace[i].rule) << text_of(trace[i].key);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Sets, WustlTrace,
    testing::Values(Set{"wustl/acl1", "wustl/acl1_trace.xz"}, Set{"wustl/acl1_100", "wustl/acl1_100_trace"},
                    Set{"wustl/acl1_1K", "wustl/acl1_1K_trace.xz"}, Set{"wustl/acl1_10K.xz", "wustl/acl1_10K_trace.xz"},
                    Set{"wustl/fw1", "wustl/fw1_trace"}, Set{"wustl/fw1_100", "wustl/fw1_100_trace"},
                    Set{"wustl/fw1_1K", "wustl/fw1_1K_trace.xz"},
                    Set{"wustl/fw1_10K.xz", "wustl/fw1_10K_trace.xz", false}, Set{"wustl/ipc1", "wustl/ipc1_trace.xz"},
                    Set{"wustl/ipc1_100", "wustl/ipc1_100_trace"}, Set{"wustl/ipc1_1K", "wustl/ipc1_1K_trace.xz"},
                    Set{"wustl/ipc1_10K.xz", "wustl/ipc1_10K_trace.xz", false}),
    name_of);

class ClassBenchSet : public testing::TestWithParam<Set> {};

TEST_P(ClassBenchSet, IsSearchedAlikeByEveryEngine) {
    MILLRACE_NEEDS_DATA(std::string("classbench/") + GetParam().rules);
    const RuleSet rules = classbench_rules(GetParam().rules, true);
    const std::vector<Searched> engines = every_engine(rules);
    const size_t samples = std::clamp<size_t>(4'000'000 / rules.boxes.size(), 60, 3000);
    std::unique_ptr<Acl> acl;
    if (GetParam().acl) acl = std::make_unique<Acl>(rules, 0);
    expect_agreement(rules, engines, acl.get(), corner_keys(rules, samples, 1));
}

class ClassBenchTrace : public testing::TestWithParam<Set> {};

TEST_P(ClassBenchTrace, IsMatchedAtOrBeforeTheRuleThatEachHeaderWasDrawnFrom) {
    MILLRACE_NEEDS_DATA(std::string("classbench/") + GetParam().rules);
    MILLRACE_NEEDS_DATA(std::string("classbench/") + GetParam().trace);
    const RuleSet rules = classbench_rules(GetParam().rules);
    const std::vector<Searched> engines = every_engine(rules);
    const std::vector<TraceHeader> trace = classbench_trace(GetParam().trace);
    ASSERT_GT(trace.size(), 800u);
    size_t first_matches = 0;
    for (const TraceHeader& header : trace) {
        // Here rules count from 0.
        const uint32_t found = engines.back().find<1>(header.key);
        ASSERT_LE(found, header.rule) << text_of(header.key);
        ASSERT_TRUE(matches(rules.boxes[found], header.key)) << text_of(header.key);
        first_matches += found == header.rule ? 1 : 0;
    }
    EXPECT_GT(first_matches, trace.size() * 9 / 10);
    std::vector<HeaderKey> sample;
    const size_t samples = std::clamp<size_t>(2'000'000 / rules.boxes.size(), 20, 1000);
    const size_t step = std::max<size_t>(1, trace.size() / samples);
    for (size_t i = 0; i < trace.size(); i += step) sample.push_back(trace[i].key);
    expect_agreement(rules, engines, nullptr, sample);
}

const Set kTraced[] = {{"cutsplit/acl1_1k", "cutsplit/acl1_1k_trace.xz"},
                       {"cutsplit/acl1_10k.xz", "cutsplit/acl1_10k_trace.xz", false},
                       {"cutsplit/acl2_1k", "cutsplit/acl2_1k_trace.xz"},
                       {"cutsplit/acl2_10k.xz", "cutsplit/acl2_10k_trace.xz", false},
                       {"cutsplit/acl3_1k", "cutsplit/acl3_1k_trace.xz"},
                       {"cutsplit/acl3_10k.xz", "cutsplit/acl3_10k_trace.xz", false},
                       {"cutsplit/fw1_1k", "cutsplit/fw1_1k_trace.xz"},
                       {"cutsplit/fw1_10k.xz", "cutsplit/fw1_10k_trace.xz", false},
                       {"cutsplit/fw2_1k", "cutsplit/fw2_1k_trace.xz"},
                       {"cutsplit/fw2_10k.xz", "cutsplit/fw2_10k_trace.xz", false},
                       {"cutsplit/fw3_1k", "cutsplit/fw3_1k_trace.xz"},
                       {"cutsplit/fw3_10k.xz", "cutsplit/fw3_10k_trace.xz", false},
                       {"cutsplit/fw4_1k", "cutsplit/fw4_1k_trace.xz"},
                       {"cutsplit/fw4_10k.xz", "cutsplit/fw4_10k_trace.xz", false},
                       {"cutsplit/ipc1_1k", "cutsplit/ipc1_1k_trace.xz"},
                       {"cutsplit/ipc1_10k.xz", "cutsplit/ipc1_10k_trace.xz", false},
                       {"other/acl1_100_b", "other/acl1_100_b_trace"},
                       {"large/acl1_100k.xz", "large/acl1_100k_trace.xz", false},
                       {"large/fw1_100k.xz", "large/fw1_100k_trace.xz", false},
                       {"large/ipc1_100k.xz", "large/ipc1_100k_trace.xz", false}};
const Set kUntraced[] = {{"other/acl1_seed_1", nullptr},
                         {"neurocuts/acl1_1k", nullptr},
                         {"neurocuts/acl1_10k.xz", nullptr, false},
                         {"neurocuts/fw1_1k", nullptr},
                         {"neurocuts/fw1_10k.xz", nullptr, false},
                         {"neurocuts/ipc1_1k", nullptr},
                         {"neurocuts/ipc1_10k.xz", nullptr, false},
                         {"ipv6/acl1_v6.xz", nullptr},
                         {"ipv6/ipc1_v6.xz", nullptr},
                         {"large/ipc1_20k.xz", nullptr, false},
                         {"large/ipc1_50k.xz", nullptr, false}};
INSTANTIATE_TEST_SUITE_P(Traced, ClassBenchSet, testing::ValuesIn(kTraced), name_of);
INSTANTIATE_TEST_SUITE_P(Untraced, ClassBenchSet, testing::ValuesIn(kUntraced), name_of);
INSTANTIATE_TEST_SUITE_P(Sets, ClassBenchTrace, testing::ValuesIn(kTraced), name_of);

TEST(LoadTime, TenThousandRulesTakeLessThanASecond) {
    MILLRACE_NEEDS_DATA("classbench/cutsplit/fw2_10k.xz");
    const std::clock_t begin = std::clock();
    const RuleSet rules = classbench_rules("cutsplit/fw2_10k.xz");
    const Searched vectors(rules);
    EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);  // measured: 0.03 s
    EXPECT_LT(vectors.bytes(), uint64_t{8} << 20);    // measured: 3 MB
}

TEST(LoadTime, AHundredThousandRulesTakeLessThanTenSeconds) {
    MILLRACE_NEEDS_DATA("classbench/large/ipc1_100k.xz");
    const std::clock_t begin = std::clock();
    const RuleSet rules = classbench_rules("large/ipc1_100k.xz");
    const Searched vectors(rules);
    EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC);  // measured: 0.7 s
    EXPECT_LT(vectors.bytes(), uint64_t{256} << 20);       // measured: 170 MB
}

}  // namespace
}  // namespace millrace::nf::classify
