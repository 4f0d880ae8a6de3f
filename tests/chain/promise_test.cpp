// Promises of chains: read from YAML, and held against a profile.
#include "millrace/chain/promise.hpp"

#include <gtest/gtest.h>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {
namespace {

Configuration load(const std::string& chains, const std::string& more = "") {
    return parse_configuration("version: 1\ndevice: sim\n" + more +
                                   "ports: {a: {sink: {}}, b: {sink: {}}, out: {sink: {}}}\nchains:\n" + chains,
                               "test.yaml");
}

std::string mistake_of(const std::string& chains, const std::string& more = "") {
    try {
        load(chains, more);
    } catch (const ConfigError& e) {
        const Diagnostic& first = e.diagnostics().front();
        return std::to_string(first.where.line) + ":" + std::to_string(first.where.column) + " " + first.message;
    }
    return "";
}

/// One chain like the scheduler's example, k1 = 100 ns, b1 = 20 us, k2 = 2 ns, b2 = 6 us.
schedule::Profile profile(std::initializer_list<const char*> functions) {
    schedule::Profile made{"simulated GPU", "kept.json", {132, 8, 8}, {}};
    for (const char* one : functions) made.put({one, 512, {{20'000, 100}, {6'000, 2}, 1, 1, 0}, {}});
    return made;
}

TEST(Promise, IsReadFromAChain) {
    const Configuration made = load(
        "  x: {input: a, output: out, rate: 2M, latency: 200us, weight: 7, nfs: [mirror]}\n"
        "  y: {input: b, output: out, nfs: [mirror]}\n",
        "sharing: fair\n");
    ASSERT_EQ(made.promises.size(), 2u);
    EXPECT_EQ(made.promises[0].rate, 2e6);
    EXPECT_EQ(made.promises[0].latency, std::chrono::microseconds(200));
    EXPECT_EQ(made.promises[0].weight, 7u);
    EXPECT_EQ(made.promises[0].functions, "[mirror]");
    EXPECT_EQ(made.promises[0].where.line, 6u);
    EXPECT_TRUE(made.promises[0].made());
    EXPECT_FALSE(made.promises[1].made());
    EXPECT_EQ(made.promises[1].weight, 1u);
    EXPECT_EQ(made.sharing, schedule::Sharing::fair);
    EXPECT_EQ(load("  x: {input: a, output: out}\n").sharing, schedule::Sharing::spatial);
}

TEST(Promise, IsRefusedWithItsPlace) {
    const auto with = [](const std::string& keys) {
        return mistake_of("  x: {input: a, output: out, " + keys + "}\n");
    };
    EXPECT_EQ(with("rate: 1"), "");
    EXPECT_EQ(with("rate: 0"), "5:36 a rate is 1 packet a second at least");
    EXPECT_EQ(with("rate: fast"), "5:36 'fast' is not a size or count");
    EXPECT_EQ(with("rate: 1M, latency: 0us"), "5:49 a latency is more than nothing");
    EXPECT_EQ(with("latency: 5us"), "5:39 a latency is promised up to a rate, and there is none");
    EXPECT_NE(with("weight: 0"), "");
    EXPECT_NE(with("weight: 1001"), "");
    EXPECT_NE(mistake_of("  x: {input: a, output: out}\n", "sharing: spacial\n").find("'spacial' is not one of"),
              std::string::npos);
}

TEST(Promise, IsHeldAgainstWhatWasMeasured) {
    const auto shared = [](const std::string& keys, const schedule::Profile* kept) {
        return share_device(load("  x: {input: a, output: out, nfs: [mirror], " + keys +
                                 "}\n"
                                 "  y: {input: b, output: out, nfs: [mirror]}\n"),
                            kept);
    };
    const schedule::Profile known = profile({"[mirror]"}), other = profile({"[router]"});
    const SharedDevice good = shared("rate: 10M, latency: 200us", &known);
    EXPECT_TRUE(good.mistakes.empty());
    EXPECT_TRUE(good.warnings.empty());
    EXPECT_EQ(good.chains, (std::vector<size_t>{0, 1})) << "who was promised nothing gets of what is left";
    ASSERT_TRUE(good.plan.assignments[0]);
    EXPECT_LE(good.plan.assignments[0]->latency_ns, 200'000);
    EXPECT_EQ(good.plan.used_sms(), 128u);

    const SharedDevice bad = shared("rate: 10M, latency: 40us", &known);
    ASSERT_EQ(bad.mistakes.size(), 1u);
    EXPECT_EQ(bad.mistakes[0].where.line, 5u);
    EXPECT_NE(bad.mistakes[0].message.find("latency: 40 us were asked for, and a packet may take"), std::string::npos);
    EXPECT_EQ(bad.mistakes[0].hint, "by kept.json");
    EXPECT_EQ(shared("rate: 1000M", &known).mistakes.size(), 1u);

    for (const schedule::Profile* unknown : {&other, static_cast<const schedule::Profile*>(nullptr)}) {
        const SharedDevice open = shared("rate: 1000M", unknown);
        EXPECT_TRUE(open.mistakes.empty());
        ASSERT_EQ(open.warnings.size(), 1u);
        EXPECT_NE(open.warnings[0].message.find("it was not measured"), std::string::npos);
        EXPECT_TRUE(open.chains.empty());
    }
}

}  // namespace
}  // namespace millrace::chain
