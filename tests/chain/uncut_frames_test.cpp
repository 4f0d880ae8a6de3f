// Which ports' frames may come without having been cut into those of the wire.
#include "millrace/chain/frames/uncut_frames.hpp"

#include <gtest/gtest.h>

namespace millrace::chain {
namespace {

/// Chains behind the ports a and b, of which c is another output.
Configuration configuration(const std::string& chains, const std::string& classify = "") {
    return parse_configuration(
        "version: 1\nports: {a: {ring: x}, b: {ring: x}, c: {sink: {}}}\n" + classify + "chains:\n" + chains, "(test)");
}

std::string chain(const std::string& name, const std::string& nfs, const std::string& input = "a") {
    return "  " + name + ": {" + (input.empty() ? "" : "input: " + input + ", ") + "output: c, nfs: " + nfs + "}\n";
}

constexpr const char* kNids = "nids: {rule: ['alert tcp any any -> any any (msg:\"x\"; content:\"secret\"; sid:1;)']}";

std::string firewall(const std::string& rule) { return "firewall: {default: permit, rules: ['" + rule + "']}"; }

TEST(UncutFrames, GoToFunctionsThatLookAtHeadersOnly) {
    for (const std::string& takes :
         {std::string("{mirror: {}, name: again}"), firewall("deny tcp from any to any port 80"),
          firewall("deny tcp from any flags S/SAF"), firewall("deny tcp from any flags R/R"),
          firewall("deny tcp from any flags A/SA"), std::string("conntrack: {}"),
          std::string("router: {routes: [{prefix: 0.0.0.0/0, via: n}], next-hops: {n: {mac: '02:00:00:00:00:01'}}}")}) {
        const Configuration own = configuration(chain("one", "[mirror, " + takes + "]"));
        EXPECT_TRUE(takes_uncut(own, 0)) << takes;
        EXPECT_EQ(first_to_want_segments(*own.chains[0]), nullptr) << takes;
    }
    for (const std::string& wants :
         {std::string(kNids), firewall("deny tcp from any flags F/F"), firewall("deny tcp from any flags P/P"),
          firewall("deny tcp from any flags A/AF"), std::string("crc: {mode: set}")}) {
        const Configuration own = configuration(chain("one", "[mirror, " + wants + "]"));
        EXPECT_FALSE(takes_uncut(own, 0)) << wants;
        ASSERT_NE(first_to_want_segments(*own.chains[0]), nullptr);
        EXPECT_EQ(first_to_want_segments(*own.chains[0]), &own.chains[0]->nodes[1]);
    }
}

TEST(UncutFrames, AreCutForWhateverChainTheyMayComeTo) {
    const Configuration led = configuration(
        "  one: {input: a, nfs: [" + firewall("deny tcp from any to any port 80") + "], output: c}\n" +
        "  two: {input: b, nfs: [{mirror: {}, on: {forward: chain three}}], output: c}\n" +
        chain("three", std::string("[") + kNids + "]", ""));
    EXPECT_TRUE(takes_uncut(led, 0));
    EXPECT_FALSE(takes_uncut(led, 1)) << "its chain leads to one that wants segments";
}

TEST(UncutFrames, AreCutForEachChainThatClassificationMayChoose) {
    const std::string lines =
        "classify:\n  - {match: {port: a, dst-port: 80}, chain: two}\n"
        "  - {match: {port: a}, chain: one}\n  - {match: {port: b}, chain: one}\n";
    const Configuration own = configuration(
        chain("one", "[mirror]", "") + chain("two", std::string("[") + kNids + "]", ""), lines);
    EXPECT_FALSE(takes_uncut(own, 0));
    EXPECT_TRUE(takes_uncut(own, 1));
}

}  // namespace
}  // namespace millrace::chain
