#include <gtest/gtest.h>

#include <map>

#include "nf/router/reference.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

constexpr const char* kSmall = R"(
next-hops:
  a: {port: port1, mac: "02:00:00:00:01:01", src-mac: "02:00:00:00:01:00"}
  b: {port: port2, mac: "02:00:00:00:02:01"}
  c: {src-mac: "02:00:00:00:03:00"}
routes:
  - {prefix: 0.0.0.0/0, via: a}
  - {prefix: 64.0.0.0/2, via: [a, b, c]}
  - {prefix: 128.0.0.0/9, via: b}
  - {prefix: "::/0", via: [c, b]}
  - {prefix: "2400::/6", via: c}
local: [10.0.0.1, "2001:db8::1", 20.0.0.0/8]
)";

/// The next hop's name by what became of a packet.
std::string via(NfRunner& runner, const std::string& packet) {
    const NfResult result = runner.run({build_packet(packet)}, {1});
    const std::string text = runner.nf().explain(result.decisions[0]);
    return text.starts_with("via ") ? text.substr(4) : runner.type().outcomes[result.decisions[0].outcome].name;
}

std::string complaint(const std::string& options) {
    try {
        NfRunner("router", options);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "no complaint";
}

TEST(Router, DoesWhatItsGoldenPacketsSay) { run_golden("router"); }

TEST(Router, IsTheSameWithAnyNumberOfLanesAndOnTheCpuHalf) {
    Rng rng(1);
    RandomOptions options;
    options.malformed = 0.2;
    check_halves_agree("router", kSmall, random_packets(rng, 3000, options));
}

TEST(Router, MeetsEveryOutcomeInRandomTraffic) {
    Rng rng(2);
    RandomOptions options;
    options.malformed = 0.2;
    NfRunner runner("router", kSmall);
    const NfResult result = runner.run(random_packets(rng, 20000, options), {1});
    std::map<uint32_t, unsigned> outcomes;
    for (const Decision& decision : result.decisions) ++outcomes[decision.outcome];
    // With two default routes there is always a route; and no kernel is asked for any.
    const std::set<std::string> never = {"no-route", "no-neighbour", "too-big", "kernel", "other-host"};
    for (uint32_t outcome = 0; outcome < runner.type().outcomes.size(); ++outcome)
        EXPECT_EQ(outcomes[outcome] > 0, !never.contains(runner.type().outcomes[outcome].name))
            << runner.type().outcomes[outcome].name;
}

TEST(Router, LeavesARightChecksumOnEverythingItForwards) {
    Rng rng(3);
    RandomOptions options;
    options.ipv6 = 0;
    options.vlan = 0;
    NfRunner runner("router", kSmall);
    const auto frames = random_packets(rng, 20000, options);
    const NfResult result = runner.run(frames, {1});
    unsigned forwarded = 0;
    for (size_t i = 0; i < frames.size(); ++i) {
        if (result.decisions[i].outcome != 0) continue;
        ++forwarded;
        const Frame& out = result.frames[i];
        ASSERT_EQ(checksum(out.data() + 14, (out[14] & 15) * 4u), 0);
        ASSERT_EQ(out[22] + 1, frames[i][22]) << "TTL";
        ASSERT_TRUE(std::equal(out.begin() + 26, out.end(), frames[i].begin() + 26));
    }
    EXPECT_GT(forwarded, 12000u);
}

TEST(Router, SpreadsFlowsEvenlyAndKeepsEachOnItsNextHop) {
    NfRunner runner("router", "{next-hops: {a: {}, b: {}, c: {}}, routes: [{prefix: 0.0.0.0/0, via: [a, b, c, c]}]}");
    std::vector<Frame> frames;
    PacketSpec spec;
    spec.ipv4 = Ipv4Header{};
    spec.ipv4->src = ipv4("198.51.100.1");
    spec.ipv4->dst = ipv4("192.0.2.1");
    for (uint16_t port = 0; port < 8000; ++port) {
        spec.tcp = TcpHeader{};
        spec.tcp->src = port;
        frames.push_back(build(spec));
        spec.tcp->seq = port;
        spec.payload = Frame(port % 100);
        frames.push_back(build(spec));
    }
    const NfResult result = runner.run(frames, {1});
    std::map<uint32_t, unsigned> flows;
    for (size_t i = 0; i < frames.size(); i += 2) {
        ASSERT_EQ(result.decisions[i], result.decisions[i + 1]) << "one flow, one next hop";
        ++flows[result.decisions[i].detail];
    }
    EXPECT_NEAR(flows[0], 2000, 160);
    EXPECT_NEAR(flows[1], 2000, 160);
    EXPECT_NEAR(flows[2], 4000, 200) << "a next hop named twice gets twice the share";
}

TEST(Router, ReadsRouteFilesInEachFormat) {
    const std::string with = temporary_file(
        "with.txt", "10.0.0.0/8 192.0.2.1\n10.1.0.0/16\tnorth\r\n\n# remark\n2001:db8::/32 2001:db8::9\n");
    const std::string without = temporary_file("without.txt", "172.16.0.0/12\n");
    const std::string ipasn = temporary_file("ipasn.dat", "; IP-ASN32-DAT file\n;\n1.0.0.0/24\t15169\n");
    NfRunner runner("router",
                    "{next-hops: {north: {}, south: {}}, next-hop-map: {192.0.2.1: south, '2001:db8::9': [south], "
                    "15169: north}, routes: [" +
                        with + ", {file: " + without + ", via: south}, " + ipasn + "]}");
    EXPECT_EQ(via(runner, "{ipv4: {dst: 10.2.0.1}, udp: {}}"), "south");
    EXPECT_EQ(via(runner, "{ipv4: {dst: 10.1.0.1}, udp: {}}"), "north");
    EXPECT_EQ(via(runner, "{ipv4: {dst: 172.16.0.1}, udp: {}}"), "south");
    EXPECT_EQ(via(runner, "{ipv4: {dst: 1.0.0.1}, udp: {}}"), "north");
    EXPECT_EQ(via(runner, "{ipv6: {dst: '2001:db8::5'}, udp: {}}"), "south");
    EXPECT_EQ(runner.nf().summary().substr(0, 23), "4 IPv4 and 1 IPv6 route");
}

TEST(Router, ChoosesNextHopsByHashWhereAFileNamesNoneOrUnknownOnes) {
    std::string prefixes, numbers;
    for (int i = 0; i < 256; ++i) {
        prefixes += "10.0." + std::to_string(i) + ".0/24\n";
        numbers += "20.0." + std::to_string(i) + ".0/24 " + std::to_string(i % 64) + "\n";
    }
    NfRunner runner("router", "{next-hops: {a: {}, b: {}, c: {}, d: {}}, routes: [" +
                                  temporary_file("p.txt", prefixes) + ", " + temporary_file("n.txt", numbers) + "]}");
    std::map<std::string, unsigned> by_prefix;
    for (int i = 0; i < 256; ++i) {
        ++by_prefix[via(runner, "{ipv4: {dst: 10.0." + std::to_string(i) + ".1}, udp: {}}")];
        EXPECT_EQ(via(runner, "{ipv4: {dst: 20.0." + std::to_string(i) + ".1}, udp: {}}"),
                  via(runner, "{ipv4: {dst: 20.0." + std::to_string(i % 64) + ".1}, udp: {}}"))
            << "the same text leads to the same next hop";
    }
    EXPECT_EQ(by_prefix.size(), 4u);
    for (const auto& [name, count] : by_prefix) EXPECT_NEAR(count, 64, 40) << name;
}

TEST(Router, LetsLaterSourcesOverrideEarlierOnes) {
    const std::string file = temporary_file("base.txt", "10.0.0.0/8 a\n10.5.0.0/16 a\n");
    NfRunner runner("router", "{next-hops: {a: {}, b: {}}, local: [10.7.0.1], routes: [" + file +
                                  ", {prefix: 10.5.0.0/16, via: b}, {prefix: 10.7.0.1/32, via: b}]}");
    EXPECT_EQ(via(runner, "{ipv4: {dst: 10.5.0.1}, udp: {}}"), "b");
    EXPECT_EQ(via(runner, "{ipv4: {dst: 10.6.0.1}, udp: {}}"), "a");
    EXPECT_EQ(via(runner, "{ipv4: {dst: 10.7.0.1}, udp: {}}"), "local") << "own addresses come last";
}

TEST(Router, PointsAtEachMistakeInARouteFile) {
    const std::string file = temporary_file("bad.txt",
                                            "10.0.0.0/8 a\n10.0.0.0/33 a\n10.0.0.1/8 a\n  nonsense a\n10.1.0.0/16 a b\n"
                                            "10.0.0.0/8 b\n2001:db8::/129\n10.0.0.0/8 a\n1.2.3/24\n01.2.3.0/24\n");
    const std::string text = complaint("{next-hops: {a: {}, b: {}}, routes: [" + file + "]}");
    for (const char* want : {":2:1: ", ":3:1: ", ":4:3: ", ":5:15: ", ":6:1: ", ":7:1: ", ":9:1: ", ":10:1: ",
                             "write 10.0.0.0/8", "another route for 10.0.0.0/8"})
        EXPECT_NE(text.find(want), std::string::npos) << want << "\n" << text;
    EXPECT_EQ(text.find(":1:1: "), std::string::npos);
    EXPECT_EQ(text.find(":8:1: "), std::string::npos) << "the same route twice does no harm";
}

TEST(Router, StopsAtTwentyMistakes) {
    std::string lines;
    for (int i = 0; i < 100; ++i) lines += "nonsense\n";
    try {
        NfRunner("router", "{next-hops: {a: {}}, routes: [" + temporary_file("many.txt", lines) + "]}");
        FAIL() << "no complaint";
    } catch (const ConfigError& error) {
        ASSERT_EQ(error.diagnostics().size(), 20u);
        EXPECT_EQ(error.diagnostics()[19].where.line, 20u);
    }
}

TEST(Router, RefusesOptionsThatMakeNoSense) {
    const std::pair<const char*, const char*> cases[] = {
        {"{route: x}", "did you mean 'routes'"},
        {"{routes: [{prefix: 10.0.0.0/8, via: a}]}", "there is no next hop"},
        {"{next-hops: {abc: {}}, routes: [{prefix: 10.0.0.0/8, via: abd}]}", "did you mean 'abc'"},
        {"{next-hops: {a: {}}, routes: [{prefix: 10.0.0.1/8, via: a}]}", "write 10.0.0.0/8"},
        {"{next-hops: {a: {}}, routes: [{prefix: 10.0.0.0/8}]}", "'via' is missing"},
        {"{next-hops: {a: {}}, routes: [{prefix: 10.0.0.0/8, via: []}]}", "a next hop is missing"},
        {"{next-hops: {a: {}}, routes: [{prefix: 10.0.0.0/8, via: a}, {prefix: 10.0.0.0/8, via: a}]}", "another route"},
        {"{next-hops: {a: {}}, routes: [{prefix: 10.0.0.0/8, file: b, via: a}]}", "do not go together"},
        {"{next-hops: {a: {port: port9}}}", "port9"},
        {"{next-hops: {a: {mac: 12}}}", "not a MAC address"},
        {"{next-hops: {a: {speed: 12}}}", "unknown field 'speed'"},
        {"{next-hops: {a: {mtu: 67}}}", "68"},
        {"{next-hops: {a: {mtu: 65536}}}", "65535"},
        {"{next-hops: {a: {}}, next-hop-map: {1: b}}", "'b' is not one of a"},
        {"{next-hops: {a: {}}, routes: [/no/such/file]}", "/no/such/file"},
        {"{routes: [/no/such/file]}", "routes need next hops"},
        {"{local: [10.0.0.0.1]}", "not an IP prefix"},
    };
    for (const auto& [options, want] : cases)
        EXPECT_NE(complaint(options).find(want), std::string::npos) << options << "\n" << complaint(options);
}

TEST(Router, NamesSeveralMistakesOfTheConfigurationAtOnce) {
    const std::string text = complaint(
        "{next-hops: {a: {}}, routes: [{prefix: x, via: a}, {prefix: 10.0.0.0/8, via: b}], local: [y]}");
    for (const char* want : {"'x' is not", "'b' is not", "'y' is not"})
        EXPECT_NE(text.find(want), std::string::npos) << text;
}

TEST(Router, SharesEqualTablesWithTheGenerationBefore) {
    NfRunner before("router", kSmall);
    nf::Environment environment{.node_name = "n", .chain_name = "c", .output_folder = ".", .ports = kTestPorts};
    environment.previous = &before.nf();
    NfRunner same("router", Config::parse(kSmall), environment);
    const auto root = [](NfRunner& runner) { return runner.nf().image().arrays()[0].owner; };
    EXPECT_EQ(root(before), root(same));
    EXPECT_EQ(before.nf().image().arrays()[0].data, same.nf().image().arrays()[0].data);
    NfRunner other("router",
                   Config::parse(std::string(kSmall) + "\n"
                                                       "next-hop-map: {x: b}\n"),
                   environment);
    EXPECT_EQ(root(before), root(other));
    NfRunner changed("router", Config::parse("{next-hops: {a: {}}, routes: [{prefix: 10.0.0.0/8, via: a}]}"),
                     environment);
    EXPECT_NE(root(before), root(changed));
    Rng rng(5);
    const auto frames = random_packets(rng, 300, {});
    for (const Half& half : halves(before.type()))
        EXPECT_EQ(before.run(frames, half).frames, same.run(frames, half).frames);
}

}  // namespace
}  // namespace millrace::test
