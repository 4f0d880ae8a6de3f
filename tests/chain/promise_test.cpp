// Promises of chains, read from YAML.
#include "millrace/chain/promises/promise.hpp"

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

TEST(Promise, IsReadFromAChain) {
    const Configuration made = load(
        "  x: {input: a, output: out, rate: 2M, latency: 200us, weight: 7, nfs: [mirror]}\n"
        "  y: {input: b, output: out, nfs: [mirror]}\n",
        "sharing: fair\n");
    ASSERT_EQ(made.promises.size(), 2u);
    EXPECT_EQ(made.promises[0].rate, 2e6);
    EXPECT_EQ(made.promises[0].latency, std::chrono::microseconds(200));
    EXPECT_EQ(made.promises[0].weight, 7u);
    EXPECT_EQ(made.promises[0].functions(), "[mirror]");
    EXPECT_EQ(made.promises[0].where.line, 6u);
    EXPECT_TRUE(made.promises[0].made());
    EXPECT_FALSE(made.promises[1].made());
    EXPECT_EQ(made.promises[1].weight, 1u);
    EXPECT_EQ(made.sharing, schedule::Sharing::fair);
    EXPECT_EQ(load("  x: {input: a, output: out}\n").sharing, schedule::Sharing::spatial);
}

TEST(Promise, HasRoomOrIsRefusedUnlessTheFileAdmitsIt) {
    EXPECT_EQ(load("  x: {input: a, output: out}\n").admission, Admission::refuse);
    EXPECT_EQ(load("  x: {input: a, output: out}\n", "admission: refuse\n").admission, Admission::refuse);
    EXPECT_EQ(load("  x: {input: a, output: out}\n", "admission: warn\n").admission, Admission::warn);
    EXPECT_NE(mistake_of("  x: {input: a, output: out}\n", "admission: always\n").find("3:12 'always' is not one of"),
              std::string::npos);
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

}  // namespace
}  // namespace millrace::chain
