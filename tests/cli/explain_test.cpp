// What `millrace explain` says of the bus, against what crosses it in a run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "cli/program.hpp"

namespace millrace::test {
namespace {

struct Chain {
    const char *name, *nfs;
};
void PrintTo(const Chain& chain, std::ostream* out) { *out << chain.name; }

class Explain : public testing::TestWithParam<Chain> {};

TEST_P(Explain, SaysHowManyBytesCross) {
    constexpr int kPackets = 32;
    const TestFolder folder;
    const std::string yaml = folder.write(
        "c.yaml", "version: 1\noutput: " + folder.path("out") +
                      "\nports: {in: {source: {size: 512, count: 32}}, out: {sink: {}}}\nchains: {c: {input: in, "
                      "output: out, nfs: [" +
                      std::string(GetParam().nfs) + "]}}\n");
    const Ended explained = run_program({"explain", yaml, "-d", "sim"});
    ASSERT_EQ(explained.status, 0) << explained.err;
    std::smatch row;
    ASSERT_TRUE(std::regex_search(explained.out, row, std::regex(R"(512 B +32 +([\d.]+) B +([\d.]+) B)")))
        << explained.out;
    const Ended ran = run_program({"run", yaml, "-d", "sim", "-w", "1", "--json", folder.path("c.json")});
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto report = nlohmann::json::parse(text_of_file(folder.path("c.json")));
    const auto& chain = report.at("chains").at(0);
    ASSERT_EQ(chain.at("batches"), 1) << "the source gave all packets at once";
    ASSERT_EQ(chain.at("retried-on-cpu"), 0);
    EXPECT_NEAR(chain.at("bytes-to-device").get<double>(), kPackets * std::stod(row[1]), 0.02 * kPackets * 512);
    EXPECT_NEAR(chain.at("bytes-to-host").get<double>(), kPackets * std::stod(row[2]), kPackets);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Explain,
    testing::Values(Chain{"firewall", "firewall: {rules: [deny tcp from any to any port 22]}"},
                    Chain{
                        "router",
                        "router: {next-hops: {a: {mac: '02:00:00:00:00:0a', src-mac: '02:00:00:00:00:01', port: out}}, "
                        "routes: [{prefix: 0.0.0.0/0, via: a}]}"},
                    Chain{"nids", "nids: {rule: 'alert tcp any any -> any any (content:\"xyz\"; sid:1;)'}"},
                    Chain{"switch", "switch: {flows: ['actions=output:2']}"},
                    Chain{"ipsec",
                          "ipsec: {sas: [{name: tunnel, direction: out, spi: 0x1001, local: 192.0.2.1, "
                          "remote: 198.51.100.1, cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, "
                          "nonce: '006cb6db', auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}], "
                          "policies: [{dst: 0.0.0.0/0, action: protect, sa: tunnel}], default: bypass}"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ExplainChains, SaysWhoNamesThePortWhereTheChainHasNone) {
    const TestFolder folder;
    const auto explained = [&](const std::string& chain) {
        const std::string yaml = folder.write(
            "c.yaml", "version: 1\nports: {in: {source: {count: 1}}, out: {sink: {}}}\nchains: {c: {input: in, " +
                          chain + "}}\n");
        const Ended ended = run_program({"explain", yaml});
        EXPECT_EQ(ended.status, 0) << ended.err;
        return ended.out;
    };
    const auto with_router = [](const std::string& hop) {
        return "nfs: [{name: edge, router: {next-hops: {a: {" + hop + "}}, routes: [{prefix: 0.0.0.0/0, via: a}]}}]";
    };
    const std::string named = "forward → output (the port that edge names; without one dropped as no-output)\n",
                      dropped = "→ output (no port: dropped as no-output)\n";
    EXPECT_NE(explained(with_router("port: out")).find(named), std::string::npos);
    EXPECT_NE(explained(with_router("mac: '02:00:00:00:00:0a'")).find("forward " + dropped), std::string::npos);
    EXPECT_NE(explained("nfs: [mirror]").find(dropped), std::string::npos);
    EXPECT_NE(explained("output: out, " + with_router("port: out")).find("forward → port out\n"), std::string::npos);
    EXPECT_NE(explained("nfs: [mirror, switch: {flows: ['actions=output:2']}]").find("the port that switch names"),
              std::string::npos);
}

TEST(ExplainChains, TellsEachStageOnceHoweverManyChainsShareIt) {
    const TestFolder folder;
    std::string lines = "classify:\n", chains = "chains:\n";
    for (int i = 0; i < 30; ++i) {
        const std::string number = std::to_string(i);
        lines += "  - {match: {dst-port: " + number + "}, chain: c" + number + "}\n";
        chains += "  c" + number + ": {output: out, nfs: [firewall: {rules: [deny udp from any port " + number +
                  "]}, mirror]}\n";
    }
    const std::string yaml = folder.write(
        "c.yaml", "version: 1\nports: {in: {source: {count: 1}}, out: {sink: {}}}\n" + lines + chains);
    const Ended explained = run_program({"explain", yaml, "-d", "sim"});
    ASSERT_EQ(explained.status, 0) << explained.err;
    for (const char* line : {"\n *firewall of 30 chains reads ip", "\n *mirror of 30 chains writes eth",
                             R"(nodes \[firewall of 30 chains, mirror of 30 chains\])"}) {
        const auto found = std::regex(line);
        EXPECT_EQ(std::distance(std::sregex_iterator(explained.out.begin(), explained.out.end(), found), {}), 1)
            << line << " in:\n"
            << explained.out;
    }
}

}  // namespace
}  // namespace millrace::test
