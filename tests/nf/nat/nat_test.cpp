#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <random>
#include <set>

#include "nf/nat/talk.hpp"
#include "support/engine_runner.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

const Peer kServer{ipv4("192.0.2.9"), 80}, kOtherServer{ipv4("203.0.113.7"), 443};
constexpr const char* kOne = "{inside: 10.0.0.0/8, pool: 198.51.100.1, ports: 1024-9215}";
constexpr const char* kOneGroup = "{inside: 10.0.0.0/8, pool: 198.51.100.1, ports: 1024-1087}";

TEST(Nat, DoesWhatItsGoldenPacketsSay) { run_golden("nat"); }

/// `count` endpoints of a few protocols, addresses and ports, no two alike.
struct Endpoint {
    uint8_t protocol;
    Peer peer;
};
std::vector<Endpoint> endpoints(size_t count, unsigned seed) {
    std::mt19937 rng(seed);
    std::vector<Endpoint> all;
    std::set<std::pair<uint8_t, Peer>> known;
    while (all.size() < count) {
        const uint8_t protocol = std::array<uint8_t, 3>{6, 17, 1}[rng() % 3];
        const Peer peer{ipv4("10.0.0.0") + static_cast<uint32_t>(rng() % 500), static_cast<uint16_t>(rng() % 65536)};
        if (known.emplace(protocol, peer).second) all.push_back({protocol, peer});
    }
    return all;
}

/// By the book: an endpoint has one external port, nobody else has it, and it leads back.
void expect_endpoints_mapped(NfRunner& runner, const std::vector<Endpoint>& all, const Half& half) {
    std::vector<Frame> there, answers, errors;
    for (const Endpoint& one : all) {
        there.push_back(talk(one.protocol, one.peer, kServer));
        there.push_back(talk(one.protocol, one.peer, kOtherServer));
    }
    const NfResult out = runner.run(there, half);
    std::set<std::pair<uint8_t, Peer>> taken;
    for (size_t i = 0; i < there.size(); ++i) {
        ASSERT_EQ(out.decisions[i].outcome, kOutbound) << i;
        ASSERT_TRUE(checksums_right(out.frames[i]));
        const Peer external = source_of(out.frames[i]);
        ASSERT_EQ(external.address, ipv4("198.51.100.1"));
        const uint8_t protocol = all[i / 2].protocol;
        if (i % 2 == 0) {
            ASSERT_TRUE(taken.emplace(protocol, external).second) << "given away twice";
        } else {
            ASSERT_EQ(external, source_of(out.frames[i - 1])) << "of another destination";
        }
        answers.push_back(talk(protocol, destination_of(there[i]), external, true, 0x12));
        if (protocol == 1) answers.back() = talk(1, kServer, external, true);
        errors.push_back(error_about(out.frames[i], ipv4("203.0.113.99"), i % 3 == 0 ? 28 : 576));
    }
    const NfResult back = runner.run(answers, half), told = runner.run(errors, half);
    for (size_t i = 0; i < there.size(); ++i) {
        ASSERT_EQ(back.decisions[i].outcome, kInbound) << i;
        const Endpoint& one = all[i / 2];
        const Peer from = one.protocol == 1 ? kServer : destination_of(there[i]);
        ASSERT_EQ(back.frames[i], talk(one.protocol, from, one.peer, true, 0x12)) << i;
        ASSERT_EQ(told.decisions[i].outcome, kInbound);
        ASSERT_EQ(told.frames[i], error_about(there[i], ipv4("203.0.113.99"), i % 3 == 0 ? 28 : 576)) << i;
    }
}

TEST(Nat, MapsEndpointsOneToOneAndBack) {
    for (const size_t count : {0u, 1u, 2u, 33u, 3000u})
        for (const Half& half : halves(*nf::find_type("nat"))) {
            NfRunner runner("nat", kOne);
            ASSERT_NO_FATAL_FAILURE(expect_endpoints_mapped(runner, endpoints(count, 1), half))
                << count << ' ' << half.text();
        }
}

TEST(Nat, GivesAllEndpointsOfAnAddressOneExternalAddress) {
    NfRunner runner("nat", "{inside: 10.0.0.0/8, pool: [198.51.100.0/29, 203.0.113.5], ports: 1024-2047}");
    std::vector<Frame> frames;
    const auto all = endpoints(2000, 3);
    for (const Endpoint& one : all) frames.push_back(talk(one.protocol, one.peer, kServer));
    const NfResult result = runner.run(frames, {1});
    std::map<uint32_t, std::set<uint32_t>> of_inside;
    std::set<uint32_t> externals;
    for (size_t i = 0; i < frames.size(); ++i) {
        if (result.decisions[i].outcome != kOutbound) continue;
        of_inside[all[i].peer.address].insert(source_of(result.frames[i]).address);
        externals.insert(source_of(result.frames[i]).address);
    }
    for (const auto& [inside, external] : of_inside) ASSERT_EQ(external.size(), 1u);
    EXPECT_EQ(externals.size(), 9u);
}

/// UDP endpoints of many hosts that find no port, of so many.
size_t exhausted_of(NfRunner& runner, size_t count) {
    std::vector<Frame> frames;
    for (uint32_t i = 0; i < count; ++i)
        frames.push_back(talk(17, {ipv4("10.0.0.0") + i / 50, static_cast<uint16_t>(32768 + i % 50 * 571)}, kServer));
    size_t exhausted = 0;
    for (const Decision& decision : runner.run(frames, {1}).decisions) exhausted += decision.outcome == kExhausted;
    return exhausted;
}

TEST(Nat, CountsWhomItHasNoPortFor) {
    NfRunner runner("nat", kOneGroup);
    EXPECT_EQ(exhausted_of(runner, 64), 0u);
    EXPECT_EQ(exhausted_of(runner, 100), 36u) << "those that have a port keep it";
}

/// The loads that README.md names. Of an address 64,512 ports may be taken for each protocol.
TEST(Nat, FindsPortsUntilMostAreTaken) {
    const auto of = [](size_t count) {
        NfRunner runner("nat", "{inside: 10.0.0.0/8, pool: 198.51.100.1}");
        return exhausted_of(runner, count);
    };
    EXPECT_EQ(of(64512 / 2), 0u);
    const size_t at_three_quarters = of(64512 * 3 / 4), at_all = of(64512);
    std::cout << at_three_quarters << " of " << 64512 * 3 / 4 << ", " << at_all << " of 64512\n";
    EXPECT_LT(at_three_quarters, 64512 * 3 / 4 / 1000);
    EXPECT_LT(at_all, 64512 * 7 / 100);
    EXPECT_GT(at_all, 0u);
}

/// Two inside by their external addresses, wherever their ports lie.
TEST(Nat, LetsEndpointsInsideMeetByTheirExternalPorts) {
    NfRunner runner("nat", "{inside: 10.0.0.0/8, pool: [198.51.100.1, 198.51.100.2], ports: 1024-9215}");
    auto all = endpoints(1000, 4);
    std::erase_if(all, [](const Endpoint& one) { return one.protocol == 1; });
    std::vector<Frame> frames;
    for (const Endpoint& one : all) frames.push_back(talk(one.protocol, one.peer, kServer));
    const NfResult known = runner.run(frames, {1});
    std::vector<Frame> calls, answers, from_outside;
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t i = 0; i + 1 < all.size(); ++i) {
        if (all[i].protocol != all[i + 1].protocol) continue;
        pairs.emplace_back(i, i + 1);
        calls.push_back(talk(all[i].protocol, all[i].peer, source_of(known.frames[i + 1])));
    }
    ASSERT_GT(pairs.size(), 200u);
    const NfResult called = runner.run(calls, {1});
    size_t guests = 0;
    for (size_t i = 0; i < pairs.size(); ++i) {
        const auto [caller, callee] = pairs[i];
        ASSERT_EQ(called.decisions[i].outcome, kHairpin) << i;
        ASSERT_TRUE(checksums_right(called.frames[i]));
        ASSERT_EQ(destination_of(called.frames[i]), all[callee].peer);
        const Peer seen = source_of(called.frames[i]);
        ASSERT_GE(seen.address, ipv4("198.51.100.1"));
        guests += seen != source_of(known.frames[caller]);
        answers.push_back(talk(all[callee].protocol, all[callee].peer, seen, true, 0x12));
        from_outside.push_back(talk(all[callee].protocol, kServer, seen, true, 0x12));
    }
    EXPECT_GT(guests, pairs.size() / 2);
    const NfResult back = runner.run(answers, {1}), stranger = runner.run(from_outside, {1});
    for (size_t i = 0; i < pairs.size(); ++i) {
        const auto [caller, callee] = pairs[i];
        ASSERT_EQ(back.decisions[i].outcome, kHairpin);
        ASSERT_EQ(back.frames[i],
                  talk(all[callee].protocol, source_of(known.frames[callee]), all[caller].peer, true, 0x12));
        const bool guest = source_of(called.frames[i]) != source_of(known.frames[caller]);
        ASSERT_EQ(stranger.decisions[i].outcome, guest ? kNoMapping : kInbound) << "a guest's port is for those inside";
    }
}

/// Changes of port forwards and time-outs leave mappings as they are.
TEST(Nat, KeepsMappingsWhenItsOptionsChange) {
    const auto chain = [](const std::string& more, const chain::Configuration* previous) {
        return make_configuration("[nat: {inside: 10.0.0.0/8, pool: 198.51.100.1, ports: 1024-2047" + more + "}]",
                                  "cpu", 0, "(test)", previous);
    };
    const auto before = chain("", nullptr);
    std::vector<Frame> frames, answers;
    const auto all = endpoints(500, 6);
    for (const Endpoint& one : all) frames.push_back(talk(one.protocol, one.peer, kServer));
    const EngineRun out = run_on_cpu(before, frames, 64);
    for (size_t i = 0; i < all.size(); ++i)
        answers.push_back(talk(all[i].protocol, kServer, source_of(out.outcomes.at(i).frame), true));
    const auto after = chain(", forwards: {protocol: tcp, address: 198.51.100.1, port: 22, to: 10.0.0.1}", &before);
    const EngineRun back = run_on_cpu(after, answers, 64);
    for (size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(back.outcomes.at(i).frame, talk(all[i].protocol, kServer, all[i].peer, true)) << i;
}

TEST(Nat, FindsEachOfTenThousandPortForwards) {
    constexpr uint32_t kThere = 10'000;
    std::string options = "{inside: 10.0.0.0/8, forwards: [";
    const auto inside = [](uint32_t i) { return Peer{ipv4("10.0.0.0") + i, 8080}; };
    const auto external = [](uint32_t i) {
        return Peer{ipv4("198.51.100.0") + i % 200, static_cast<uint16_t>(1 + i / 200)};
    };
    for (uint32_t i = 0; i < kThere; ++i)
        options += fmt::format("{{protocol: tcp, address: 198.51.100.{}, port: {}, to: 10.0.{}.{}, to-port: 8080}}, ",
                               i % 200, 1 + i / 200, i >> 8, i & 255);
    NfRunner runner("nat", options + "]}");
    std::vector<Frame> frames, wanted;
    for (uint32_t i = 0; i < kThere; ++i) {
        frames.push_back(talk(6, kServer, external(i)));
        wanted.push_back(talk(6, kServer, inside(i)));
        frames.push_back(talk(6, inside(i), kServer));
        wanted.push_back(talk(6, external(i), kServer));
    }
    frames.push_back(talk(6, inside(kThere), kServer));  // who has no forward, and there is no pool
    wanted.push_back(frames.back());
    const NfResult result = runner.run(frames, {1});
    EXPECT_EQ(result.frames, wanted);
    EXPECT_EQ(result.decisions.back().outcome, kExhausted);
}

TEST(Nat, RefusesOptionsThatMakeNoSense) {
    const std::string good = "{inside: 10.0.0.0/8, pool: 198.51.100.1, ";
    const auto forward = [&](const std::string& rest) { return good + "forwards: [{protocol: tcp, " + rest + "}]}"; };
    const std::pair<std::string, const char*> cases[] = {
        {"{}", "inside"},
        {"{inside: [], pool: 198.51.100.1}", "nobody is inside"},
        {"{inside: 10.0.0.0/8}", "neither external addresses nor port forwards"},
        {"{inside: \"2001:db8::/32\", pool: 198.51.100.1}", "not of IPv4"},
        {"{inside: 10.0.0.0/8, pool: 10.0.0.1}", "10.0.0.1 is inside"},
        {"{inside: 10.0.0.0/8, pool: [198.51.100.1, 198.51.100.0/30]}", "has 198.51.100.1 already"},
        {"{inside: 10.0.0.0/8, pool: 198.51.0.0/16}", "more than 16 Mi ports"},
        {"{inside: 10.0.0.0/8, pool: 0.0.0.0/0}", "more than 16 Mi ports"},
        {good + "ports: 1024}", "no range"},
        {good + "ports: 2048-1023}", "ends before it begins"},
        {good + "ports: 1024-99999}", "no range"},
        {good + "ports: 0-1023}", "port 0"},
        {good + "ports: 1000-2000}", "write 960-2047"},
        {good + "timeouts: {udp: 0s}}", "forgets ports at once"},
        {good + "timeouts: {sctp: 3s}}", "sctp"},
        {good + "port: 5}", "unknown field 'port'"},
        {forward("port: 80, to: 10.0.0.1"), "address"},
        {forward("address: 198.51.100.1, to: 10.0.0.1"), "port"},
        {forward("address: 198.51.100.1, port: 80"), "to"},
        {forward("address: 198.51.100.1, port: 0, to: 10.0.0.1"), "0"},
        {forward("address: 198.51.100.1, port: 80, to: 192.0.2.1"), "is not inside"},
        {forward("address: 10.0.0.2, port: 80, to: 10.0.0.1"), "10.0.0.2 is inside"},
        {forward("address: 198.51.100.0/24, port: 80, to: 10.0.0.1"), "not a single address"},
        {forward("address: 198.51.100.1, port: 80, to: 10.0.0.1}, {protocol: tcp, address: 198.51.100.1, port: 80, to: "
                 "10.0.0.2"),
         "two port forwards of 198.51.100.1:80/tcp"},
        {forward("address: 198.51.100.1, port: 80, to: 10.0.0.1}, {protocol: tcp, address: 198.51.100.2, port: 80, to: "
                 "10.0.0.1"),
         "10.0.0.1:80 has a port forward already"},
    };
    for (const auto& [options, want] : cases) {
        try {
            NfRunner("nat", Config::parse(options, "chain.yaml"));
            ADD_FAILURE() << "accepted: " << options;
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find(want), std::string::npos) << options << ": " << error.what();
            EXPECT_EQ(error.diagnostics().front().where.line, 1u);
            EXPECT_EQ(error.diagnostics().front().where.file, "chain.yaml");
            EXPECT_GT(error.diagnostics().front().where.column, 0u);
        }
    }
}

}  // namespace
}  // namespace millrace::test
