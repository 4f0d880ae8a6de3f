#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "support/data.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"
#include "support/packet_arena.hpp"

namespace millrace {
namespace {

using namespace millrace::test;

/// A folder of this test program's own.
std::string scratch_file(const std::string& name, const std::string& text) {
    const auto folder = std::filesystem::path(testing::TempDir()) / ("millrace_firewall_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / name) << text;
    return (folder / name).string();
}

Diagnostic refusal_of(const std::string& options) {
    try {
        NfRunner("firewall", Config::parse(options, "chain.yaml"));
    } catch (const ConfigError& error) {
        return error.diagnostics().front();
    }
    ADD_FAILURE() << "accepted: " << options;
    return {};
}

/// Rules over few addresses and ports, so that they overlap, with some of equal and some of other priority.
std::string random_rules(Rng& rng, size_t count) {
    const auto pick = [&](std::initializer_list<const char*> words) {
        return std::string(words.begin()[rng() % words.size()]);
    };
    std::string text;
    for (size_t i = 0; i < count; ++i) {
        const bool v6 = rng() % 3 == 0;
        const auto address = [&] {
            if (rng() % 3 == 0) return std::string("any");
            if (v6) return "2001:db8::" + std::string(rng() % 2 ? "/" + std::to_string(32) : std::to_string(rng() % 8));
            const unsigned length = 8 + static_cast<unsigned>(rng() % 25);
            const uint32_t value = (0x0a000000u | static_cast<uint32_t>(rng() % 16)) >> (32 - length) << (32 - length);
            return std::to_string(value >> 24) + ".0.0." + std::to_string(value & 255) + "/" + std::to_string(length);
        };
        const auto port = [&]() -> std::string {
            if (rng() % 2) return "";
            const uint64_t low = rng() % 10;
            return " port " + std::to_string(low) + "-" + std::to_string(low + rng() % 5);
        };
        const std::string protocol = pick({"ip", "tcp", "udp", "tcp,udp", "icmp", "icmpv6"});
        const bool ports = !protocol.starts_with("icmp");
        text += pick({"permit ", "deny "}) + protocol + " from " + address() + (ports ? port() : "") + " to " +
                address() + (ports ? port() : "");
        if (protocol == "tcp" && rng() % 4 == 0) text += " flags " + pick({"S/SA", "A/A", "/R"});
        if (rng() % 5 == 0) text += " priority " + std::to_string(static_cast<int>(rng() % 3) - 1);
        text += "\n";
    }
    return text;
}

RandomOptions traffic_near_the_rules() {
    RandomOptions options;
    options.max_payload = 64;
    options.adjust = [](PacketSpec& spec, Rng& rng) {
        if (spec.ipv4) {
            spec.ipv4->src = 0x0a000000u | static_cast<uint32_t>(rng() % 18);
            spec.ipv4->dst = 0x0a000000u | static_cast<uint32_t>(rng() % 18);
        }
        if (spec.ipv6) {
            spec.ipv6->src[15] = static_cast<uint8_t>(rng() % 10);
            spec.ipv6->dst[15] = static_cast<uint8_t>(rng() % 10);
        }
        if (spec.tcp) {
            spec.tcp->src = static_cast<uint16_t>(rng() % 16);
            spec.tcp->dst = static_cast<uint16_t>(rng() % 16);
        }
        if (spec.udp) {
            spec.udp->src = static_cast<uint16_t>(rng() % 16);
            spec.udp->dst = static_cast<uint16_t>(rng() % 16);
        }
    };
    return options;
}

TEST(Firewall, GivesTheGoldenAnswers) { run_golden("firewall"); }

TEST(Firewall, DecidesAlikeInEveryHalfOnRandomRulesAndTraffic) {
    Rng rng(7);
    for (const size_t rules : {0, 1, 31, 32, 33, 500, 1023, 1024, 1025}) {
        const std::string file = scratch_file("random.rules", random_rules(rng, rules));
        const std::string options = "{file: " + file + ", default: " + (rng() % 2 ? "permit" : "deny") + "}";
        check_halves_agree("firewall", options, random_packets(rng, 1100, traffic_near_the_rules()));
    }
}

TEST(Firewall, DecidesAlikeByEveryEngine) {
    Rng rng(9);
    for (const size_t rules : {1, 33, 1025}) {
        const std::string file = scratch_file("engines.rules", random_rules(rng, rules));
        const std::vector<Frame> frames = random_packets(rng, 1100, traffic_near_the_rules());
        const NfResult wanted = NfRunner("firewall", "{file: " + file + ", engine: linear}").run(frames, {1});
        for (const std::string engine : {"tuple", "bloom", "bit-vectors", "merged", "auto"}) {
            const std::string options = "{file: " + file + ", engine: " + engine + "}";
            EXPECT_EQ(NfRunner("firewall", options).run(frames, {8}).decisions, wanted.decisions) << engine;
            check_halves_agree("firewall", options, frames);
        }
    }
}

TEST(Firewall, TellsWhichEngineSearchesAndWhy) {
    const auto summary = [](const std::string& options) { return NfRunner("firewall", options).nf().summary(); };
    EXPECT_NE(summary("{rules: [permit tcp], engine: bloom}").find("; IPv4 by bloom; IPv6 by bloom"),
              std::string::npos);
    const std::string text = summary("{rules: ['permit tcp from 10.0.0.0/8'], engine: auto}");
    EXPECT_NE(text.find("(by counts, "), std::string::npos) << text;
    EXPECT_EQ(text.find("IPv6 by"), std::string::npos) << text;
}

TEST(Firewall, DecidesByManyOfTheRandomRulesOnTheRandomTraffic) {
    // What the comparison of the halves above is worth: rules are hit, and both outcomes occur.
    Rng rng(8);
    size_t hit = 0;
    for (int round = 0; round < 10; ++round) {
        NfRunner runner("firewall", "{file: " + scratch_file("some.rules", random_rules(rng, 40)) + "}");
        const NfResult result = runner.run(random_packets(rng, 1000, traffic_near_the_rules()), {8});
        std::set<uint32_t> rules, outcomes;
        for (const Decision& decision : result.decisions) {
            rules.insert(decision.detail);
            outcomes.insert(decision.outcome);
        }
        hit += rules.size();
        EXPECT_EQ(outcomes, (std::set<uint32_t>{0, 1, kRefused}));
    }
    EXPECT_GT(hit, 80u);
}

TEST(Firewall, TakesRulesFromYamlThenTextThenClassBench) {
    const std::string text = scratch_file("edge.rules",
                                          "# the second source\n\ndeny udp to 10.0.0.2 port 53   # dns\n");
    const std::string bench = scratch_file("bench",
                                           "@0.0.0.0/0\t10.0.0.2/32\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000\t\n"
                                           "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\n");
    NfRunner runner("firewall", "{classbench: " + bench + ", action: alternate, file: " + text +
                                    ", rules: ['permit tcp to 10.0.0.2 port 80'], default: deny}");
    const std::vector<Frame> frames = {
        build_packet("{ipv4: {}, tcp: {dst: 80}}"), build_packet("{ipv4: {}, udp: {dst: 53}}"),
        build_packet("{ipv4: {}, udp: {dst: 54}}"), build_packet("{ipv6: {}, udp: {dst: 54}}")};
    const NfResult result = runner.run(frames, {1});
    EXPECT_EQ(result.decisions[0], (Decision{0, 0}));
    EXPECT_EQ(result.decisions[1], (Decision{1, 1}));
    EXPECT_EQ(result.decisions[2], (Decision{3, 1}));  // the first of the ClassBench rules permits, the second denies
    EXPECT_EQ(result.decisions[3], (Decision{kNoDetail, 1}));
    EXPECT_EQ(runner.nf().explain(result.decisions[1]), "rule 2 (edge.rules:3) deny udp to 10.0.0.2 port 53");
    EXPECT_EQ(runner.nf().explain(result.decisions[2]), "rule 4 (bench:2) deny ip from 0.0.0.0/0 to 0.0.0.0/0");
    EXPECT_EQ(runner.nf().explain(result.decisions[3]), "no rule: deny");
}

TEST(Firewall, DrawsClassBenchActionsAsDocumented) {
    std::string lines;
    for (int i = 0; i < 64; ++i)
        lines += "@0.0.0.0/0 0.0.0.0/0 0 : 65535 " + std::to_string(i) + " : " + std::to_string(i) + " 0x11/0xFF\n";
    const std::string file = scratch_file("actions", lines);
    std::vector<Frame> frames;
    for (int i = 0; i < 64; ++i) frames.push_back(build_packet("{ipv4: {}, udp: {dst: " + std::to_string(i) + "}}"));
    const auto denied = [&](const std::string& action) {
        std::vector<bool> result;
        for (const Decision& decision :
             NfRunner("firewall", "{classbench: " + file + ", action: " + action + "}").run(frames, {1}).decisions)
            result.push_back(decision.outcome == 1);
        return result;
    };
    const auto permit = denied("permit"), deny = denied("deny"), alternate = denied("alternate"), hash = denied("hash");
    for (uint32_t i = 0; i < 64; ++i) {
        EXPECT_FALSE(permit[i]);
        EXPECT_TRUE(deny[i]);
        EXPECT_EQ(alternate[i], i % 2 == 1);
        EXPECT_EQ(hash[i], i * 2654435761u >= 0x80000000u);
    }
}

TEST(Firewall, HonoursTheFlagsColumnOnlyWhenAskedTo) {
    const std::string file = scratch_file("flags",
                                          "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xFF 0x0200/0x1200\n");
    const std::vector<Frame> frames = {build_packet("{ipv4: {}, tcp: {flags: S}}"),
                                       build_packet("{ipv4: {}, tcp: {flags: SA}}")};
    const NfResult without = NfRunner("firewall", "{classbench: " + file + "}").run(frames, {1});
    const NfResult with = NfRunner("firewall", "{classbench: " + file + ", match-flags: true}").run(frames, {1});
    EXPECT_EQ(without.decisions[0].detail, 0u);
    EXPECT_EQ(without.decisions[1].detail, 0u);
    EXPECT_EQ(with.decisions[0].detail, 0u);
    EXPECT_EQ(with.decisions[1].detail, kNoDetail);
}

TEST(Firewall, DeniesMalformedPacketsThatReachIt) {
    const nf::Type* type = nf::find_type("firewall");
    const auto firewall = type->create(Config::parse("{rules: [permit ip], default: permit}"), {});
    Frame frame = build_packet("{ipv4: {}, tcp: {dst: 80, offset: 15}}");
    PacketArena arena;
    Packet& packet = arena.add(frame);
    ASSERT_EQ(packet.layers().malformed, Malformed::bad_tcp_offset);
    EXPECT_EQ(type->process_with(8)(packet, firewall->image().tables()), (Decision{kNoDetail, 1}));
    Packet* packets[] = {&packet};
    Decision decision;
    const auto half = firewall->make_cpu_half();
    ASSERT_NE(half, nullptr);
    half->process(packets, &decision);
    EXPECT_EQ(decision, (Decision{kNoDetail, 1}));
}

TEST(Firewall, SaysSoWhenTheCpuCannotUseRteAcl) {
    const std::string options[] = {"{rules: [permit tcp, deny udp], max-acl-rules: 1}",
                                   "{rules: [permit tcp, deny udp], max-acl: 16}"};
    for (const std::string& text : options) {
        auto environment = std::make_unique<nf::Environment>();
        const Reporter reporter = environment->warn;
        const auto firewall = nf::find_type("firewall")->create(Config::parse(text, "chain.yaml"), *environment);
        EXPECT_TRUE(reporter.take_warnings().empty());
        environment.reset();  // CPU halves are made long after whoever loaded the configuration is gone
        EXPECT_EQ(firewall->make_cpu_half(), nullptr) << text;
        EXPECT_EQ(firewall->make_cpu_half(), nullptr) << text;
        const std::vector<Diagnostic> warnings = reporter.take_warnings();
        ASSERT_EQ(warnings.size(), 1u) << text;
        EXPECT_EQ(warnings[0].severity, Diagnostic::Severity::warning);
        EXPECT_NE(warnings[0].message.find("the CPU searches like the devices instead"), std::string::npos);
        EXPECT_EQ(warnings[0].where.file, "chain.yaml");
    }
}

TEST(Firewall, WarnsOfPortsThatNoPacketHas) {
    const std::string file = scratch_file(
        "gre", "@0.0.0.0/0 0.0.0.0/0 0 : 65535 7 : 7 0x11/0xFF\n@0.0.0.0/0 0.0.0.0/0 0 : 65535 7 : 7 0x2f/0xFF\n");
    const nf::Environment environment;
    nf::find_type("firewall")->create(Config::parse("classbench: " + file), environment);
    const std::vector<Diagnostic> warnings = environment.warn.take_warnings();
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0].where.line, 2u);
}

TEST(Firewall, RefusesTablesBeyondItsLimit) {
    MILLRACE_NEEDS_DATA("classbench/cutsplit/fw1_1k");
    const Diagnostic mistake = refusal_of("{classbench: " + data_path("classbench/cutsplit/fw1_1k") +
                                          ", engine: bit-vectors, max-table: 64Ki}");
    EXPECT_EQ(mistake.message, "the tables of these 761 rules take more than 64 KiB");
    EXPECT_EQ(mistake.where.file, "chain.yaml");
}

TEST(Firewall, RefusesOptionsThatItDoesNotKnow) {
    EXPECT_EQ(refusal_of("defualt: permit").hint, "did you mean 'default'?");
    EXPECT_EQ(refusal_of("default: drop").message, "'drop' is not one of permit, deny");
    EXPECT_EQ(refusal_of("action: random").message, "'random' is not one of permit, deny, alternate, hash");
    EXPECT_EQ(refusal_of("engine: trie").message,
              "'trie' is not one of linear, tuple, bloom, bit-vectors, merged, auto");
    EXPECT_EQ(refusal_of("file: no-such.rules").where.line, 1u);
}

TEST(Firewall, TellsWhatItLoaded) {
    NfRunner runner("firewall", "{rules: ['permit tcp from 10.0.0.0/8', deny udp], default: deny}");
    EXPECT_EQ(runner.nf().summary().substr(0, 40), "2 rules (2 boxes for IPv4, 1 for IPv6), ");
    std::map<std::string, uint64_t> statistics;
    for (const nf::Statistic& statistic : runner.nf().statistics()) statistics[statistic.name] = statistic.value;
    EXPECT_EQ(statistics["rules"], 2u);
    EXPECT_EQ(statistics["deny-rules"], 1u);
    EXPECT_EQ(statistics["ipv4-boxes"], 2u);
    EXPECT_EQ(statistics["ipv6-boxes"], 1u);
    EXPECT_EQ(statistics["table-bytes"], runner.nf().image().array_bytes());
}

}  // namespace
}  // namespace millrace
