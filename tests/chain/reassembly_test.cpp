// `reassemble:` of a chain: what it may say, and which chains it has an effect on.
#include "millrace/chain/frames/reassembly.hpp"

#include <gtest/gtest.h>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {
namespace {

constexpr const char* kPorts = "[firewall: {default: deny, rules: [permit tcp from any to any port 80]}]";

Configuration load(const std::string& reassemble, const std::string& nfs = kPorts, const std::string& device = "cpu") {
    return parse_configuration(
        "version: 1\nports: {in: {source: {count: 1}}, out: {sink: {}}}\n"
        "device: " +
            device + "\nchains:\n  c:\n    input: in\n    output: out\n" +
            (reassemble.empty() ? "" : "    reassemble: " + reassemble + "\n") + "    nfs: " + nfs + "\n",
        "c.yaml");
}

std::string mistake_of(const std::string& reassemble) {
    try {
        load(reassemble);
    } catch (const ConfigError& e) {
        return e.what();
    }
    return "";
}

TEST(Reassemble, IsOffUnlessItIsAskedFor) {
    EXPECT_FALSE(load("").chains[0]->reassembly);
    EXPECT_FALSE(load("false").chains[0]->reassembly);
    EXPECT_EQ(load("true").chains[0]->reassembly, Reassembly{});
    EXPECT_EQ(load("{}").chains[0]->reassembly, Reassembly{});
}

TEST(Reassemble, TakesItsLimits) {
    const Reassembly limits = *load("{max-packets: 100, max-per-source: 3, timeout: 250ms}").chains[0]->reassembly;
    EXPECT_EQ(limits.max_packets, 100u);
    EXPECT_EQ(limits.max_per_source, 3u);
    EXPECT_EQ(limits.timeout, std::chrono::milliseconds(250));
    EXPECT_EQ(load("{max-packets: 10}").chains[0]->reassembly->max_per_source, 10u) << "one source may have all";
}

TEST(Reassemble, RefusesLimitsThatMakeNoSense) {
    EXPECT_NE(mistake_of("{max-packets: 0}").find("c.yaml:8"), std::string::npos);
    EXPECT_NE(mistake_of("{max-packets: 65537}"), "");
    EXPECT_NE(mistake_of("{max-per-source: 2000}").find("one source may have more"), std::string::npos);
    EXPECT_NE(mistake_of("{timeout: 0s}"), "");
    EXPECT_NE(mistake_of("{timeout: 301s}").find("at most 300s"), std::string::npos);
    EXPECT_NE(mistake_of("{max-packet: 3}").find("max-packets"), std::string::npos);
    EXPECT_NE(mistake_of("maybe"), "");
    EXPECT_NE(mistake_of("[1]"), "");
}

TEST(Reassemble, ConcernsChainsWithFunctionsThatNeedWholePackets) {
    const auto needs = [](const std::string& nfs) { return needs_whole_packets(*load("", nfs).chains[0]); };
    EXPECT_FALSE(needs("[mirror]"));
    EXPECT_FALSE(needs("[firewall: {default: deny, rules: [permit tcp from 10.0.0.0/8]}]"));
    EXPECT_TRUE(needs(kPorts));
    EXPECT_TRUE(needs("[firewall: {default: deny, rules: [permit udp from any port 53]}]"));
    EXPECT_TRUE(needs("[mirror, nids: {rule: ['alert ip any any -> any any (content:\"abc\"; sid:1;)']}]"));
    const Configuration none = load("true", "[mirror]");
    EXPECT_FALSE(none.chains[0]->reassembly);
    ASSERT_EQ(none.warnings.size(), 1u);
    EXPECT_NE(none.warnings[0].message.find("no network function of chain 'c' needs whole packets"), std::string::npos);
    EXPECT_EQ(none.warnings[0].where.line, 5u);
    EXPECT_TRUE(load("true").warnings.empty());
}

TEST(Reassemble, HasWorkersClassifyPackets) {
    const auto classified = [](const std::string& more) {
        return parse_configuration(
                   "version: 1\nports: {in: {source: {count: 1}}, out: {sink: {}}}\ndevice: sim\n"
                   "chains:\n  c: {output: out" +
                       more + ", nfs: " + kPorts +
                       "}\n  d: {output: out, nfs: [mirror]}\n"
                       "classify: [{match: {src: 10.0.0.0/8}, chain: c}, {chain: d}]\n",
                   "c.yaml")
                   .classified != nullptr;
    };
    EXPECT_TRUE(classified(""));
    EXPECT_FALSE(classified(", reassemble: true"));
}

}  // namespace
}  // namespace millrace::chain
