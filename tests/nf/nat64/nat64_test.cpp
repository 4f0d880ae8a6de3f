#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <optional>
#include <random>
#include <set>

#include "nf/nat64/sides.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

constexpr const char* kOne = "{pool: 198.51.100.1, ports: 1024-9215}";
const uint32_t kServer = ipv4("192.0.2.9"), kOtherServer = ipv4("203.0.113.7");

TEST(Nat64, DoesWhatItsGoldenPacketsSay) { run_golden("nat64"); }

/// `count` endpoints inside with any contents, no two alike.
struct Endpoint {
    Content content;
    Side side;
};
std::vector<Endpoint> endpoints(size_t count, unsigned seed) {
    std::mt19937 rng(seed);
    std::vector<Endpoint> all;
    std::set<std::pair<uint8_t, Side>> seen;
    while (all.size() < count) {
        Endpoint one;
        one.content.protocol = std::array<uint8_t, 3>{6, 17, 1}[rng() % 3];
        one.side.ipv6 = ipv6("2001:db8::");
        store_be32(one.side.ipv6.data() + rng() % 3 * 4 + 4, static_cast<uint32_t>(rng() % 200));
        one.side.port = static_cast<uint16_t>(rng());
        one.content.traffic_class = static_cast<uint8_t>(rng());
        one.content.ttl = static_cast<uint8_t>(1 + rng() % 255);
        const size_t sizes[] = {0, 1, 2, 31, 32, 33, 700, 1200, 1231, 1232, 1233, 1400, 1471, 1472, 1473, 3000};
        one.content.payload = Frame(sizes[rng() % std::size(sizes)]);
        for (uint8_t& byte : one.content.payload) byte = static_cast<uint8_t>(rng());
        for (uint64_t tags = rng() % 4 == 0 ? 1 + rng() % 4 : 0; tags > 0; --tags)
            one.content.vlans.push_back({static_cast<uint16_t>(rng() % 4096), static_cast<uint8_t>(rng() % 8)});
        if (seen.emplace(one.content.protocol, one.side).second) all.push_back(std::move(one));
    }
    return all;
}

/// By the book: an endpoint has one external port, nobody else has it, and it leads back; every byte is what a packet
/// of the other family has with the same contents.
void expect_endpoints_mapped(NfRunner& runner, const std::vector<Endpoint>& all, const Half& half) {
    std::vector<Frame> there;
    for (const Endpoint& one : all)
        for (const uint32_t server : {kServer, kOtherServer})
            there.push_back(in_ipv6(one.content, one.side, outside(server, 80)));
    const NfResult out = runner.run(there, half);
    std::set<std::pair<uint8_t, Side>> taken;
    std::vector<Frame> answers;
    std::vector<Side> external;
    for (size_t i = 0; i < there.size(); ++i) {
        ASSERT_EQ(out.decisions[i].outcome, kOut) << i;
        const Endpoint& one = all[i / 2];
        const Side server = outside(i % 2 == 0 ? kServer : kOtherServer, 80);
        const size_t l2 = 4 * one.content.vlans.size();
        external.push_back(source4(Frame(out.frames[i].begin() + static_cast<ptrdiff_t>(l2), out.frames[i].end())));
        ASSERT_EQ(hex_dump(out.frames[i]), hex_dump(in_ipv4(one.content, external[i], server, out.frames[i]))) << i;
        ASSERT_EQ(external[i].ipv4, ipv4("198.51.100.1"));
        if (i % 2 == 0) ASSERT_TRUE(taken.emplace(one.content.protocol, external[i]).second) << "given away twice";
        else ASSERT_EQ(external[i], external[i - 1]) << "of another destination";
        Content content = one.content;
        content.answer = true;
        content.flags = 0x12;
        answers.push_back(in_ipv4(content, server, external[i]));
    }
    const NfResult back = runner.run(answers, half);
    for (size_t i = 0; i < there.size(); ++i) {
        Content content = all[i / 2].content;
        ASSERT_EQ(back.decisions[i].outcome, kIn) << i;
        content.answer = true;
        content.flags = 0x12;
        const Side server = outside(i % 2 == 0 ? kServer : kOtherServer, 80);
        ASSERT_EQ(hex_dump(back.frames[i]), hex_dump(in_ipv6(content, server, all[i / 2].side))) << i;
    }
}

TEST(Nat64, MapsEndpointsOneToOneAndBack) {
    for (const size_t count : {0u, 1u, 2u, 33u, 1000u})
        for (const Half& half : halves(*nf::find_type("nat64"))) {
            NfRunner runner("nat64", kOne);
            ASSERT_NO_FATAL_FAILURE(expect_endpoints_mapped(runner, endpoints(count, 1), half))
                << count << ' ' << half.text();
        }
}

TEST(Nat64, TellsOfWhatDoesNotFitInside) {
    for (const uint32_t mtu : {1280u, 1500u, 9000u}) {
        NfRunner runner("nat64", fmt::format("{{pool: 198.51.100.1, mtu: {}}}", mtu));
        const Side client{.ipv6 = ipv6("2001:db8::5"), .port = 5032}, server = outside(kServer, 53);
        const Side external = source4(runner.run({in_ipv6({}, client, server)}, {1}).frames[0]);
        for (const uint32_t bytes : {mtu - 21, mtu - 20, mtu - 19, mtu, mtu + 1}) {
            const Content content{.payload = Frame(bytes - 28, 1)};
            const NfResult back = runner.run({in_ipv4(content, server, external)}, {1});
            EXPECT_EQ(back.decisions[0].outcome, kIn) << bytes << " of " << mtu << ", which may be cut";
            PacketSpec spec = spec_of(content, server, external, false);
            spec.ipv4->dont_fragment = true;
            const NfResult told = runner.run({build(spec)}, {1});
            ASSERT_EQ(told.decisions[0].outcome, bytes + 20 > mtu ? kTooLongAnswered : kIn) << bytes << " of " << mtu;
            if (bytes + 20 <= mtu) continue;
            // RFC 1191: it quotes the packet, and says what fits; RFC 1812: within 576 bytes.
            PacketSpec error;
            error.ipv4.emplace();
            error.ipv4->src = external.ipv4;
            error.ipv4->dst = kServer;
            error.ipv4->tos = 0xc0;
            error.ipv4->dont_fragment = true;
            error.icmp = IcmpHeader{.type = 3, .code = 4, .rest = mtu - 20};
            const Frame whole = build(spec);
            error.payload.assign(whole.begin() + 14, whole.begin() + 14 + 548);
            EXPECT_EQ(hex_dump(told.frames[0]), hex_dump(build(error)));
        }
    }
}

/// The addresses of RFC 6052, section 2.4.
TEST(Nat64, FindsIpv4AddressesBehindPrefixesOfEachLength) {
    const std::pair<const char*, const char*> cases[] = {{"2001:db8::/32", "2001:db8:c000:221::"},
                                                         {"2001:db8:100::/40", "2001:db8:1c0:2:21::"},
                                                         {"2001:db8:122::/48", "2001:db8:122:c000:2:2100::"},
                                                         {"2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"},
                                                         {"2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"},
                                                         {"2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"},
                                                         {"64:ff9b::/96", "64:ff9b::192.0.2.33"}};
    const Side client{.ipv6 = ipv6("2a00::1"), .port = 5000};
    for (const auto& [prefix, address] : cases) {
        const Content content{.payload = bytes_of("question")};
        const Side server{ipv6(address), ipv4("192.0.2.33"), 53};
        NfRunner runner("nat64", fmt::format("{{pool: 198.51.100.1, prefix: \"{}\"}}", prefix));
        const NfResult out = runner.run({in_ipv6(content, client, server)}, {1});
        ASSERT_EQ(out.decisions[0].outcome, kOut) << prefix;
        const Side external = source4(out.frames[0]);
        EXPECT_EQ(hex_dump(out.frames[0]), hex_dump(in_ipv4(content, external, server, out.frames[0]))) << prefix;
        const NfResult back = runner.run({in_ipv4(content, server, external)}, {1});
        EXPECT_EQ(hex_dump(back.frames[0]), hex_dump(in_ipv6(content, server, client))) << prefix;
    }
}

TEST(Nat64, TakesNoAddressWhoseReservedBitsAreSet) {
    NfRunner runner("nat64", "{pool: 198.51.100.1, prefix: \"2001:db8:122::/48\"}");
    const Side client{.ipv6 = ipv6("2a00::1"), .port = 5000};
    const Side server{.ipv6 = ipv6("2001:db8:122:c000:102:2100::"), .port = 53};
    EXPECT_EQ(runner.run({in_ipv6({}, client, server)}, {1}).decisions[0].outcome, kNotOurs);
}

TEST(Nat64, GivesUdpAChecksumWhereIpv4HasNone) {
    for (const size_t bytes : {0u, 1u, 2u, 31u, 32u, 33u, 1023u, 1024u, 1025u}) {
        NfRunner runner("nat64", kOne);
        const Known one = known_endpoint(runner, 17);
        Content content{.payload = Frame(bytes, 0xc5)};
        PacketSpec spec = spec_of(content, one.server, one.external, false);
        spec.udp->checksum = 0;
        const NfResult back = runner.run({build(spec)}, {1});
        EXPECT_EQ(hex_dump(back.frames[0]), hex_dump(in_ipv6(content, one.server, one.client))) << bytes;
    }
}

/// A sum that comes to zero is written as its other zero: IPv6 has no UDP without a checksum.
TEST(Nat64, WritesNoUdpChecksumOfZero) {
    NfRunner runner("nat64", kOne);
    const Known one = known_endpoint(runner, 17);
    size_t zeros = 0;
    std::vector<Frame> frames, wanted;
    for (uint32_t i = 0; i < 65536; ++i) {
        Content content{.payload = Frame(2)};
        store_be16(content.payload.data(), static_cast<uint16_t>(i));
        wanted.push_back(in_ipv6(content, one.server, one.client));
        if (load_be16(wanted.back().data() + 60) != 0xffff) {
            wanted.pop_back();
            continue;
        }
        ++zeros;
        for (const bool with_sum : {false, true}) {
            PacketSpec spec = spec_of(content, one.server, one.external, false);
            if (!with_sum) spec.udp->checksum = 0;
            frames.push_back(build(spec));
        }
    }
    ASSERT_GT(zeros, 0u);
    const NfResult back = runner.run(frames, {1});
    for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(hex_dump(back.frames[i]), hex_dump(wanted[i / 2]));
}

/// What was wrong stays wrong, by as much.
TEST(Nat64, MendsNoChecksum) {
    NfRunner runner("nat64", kOne);
    const Known one = known_endpoint(runner, 6);
    PacketSpec spec = spec_of(one.content, one.client, one.server, true);
    spec.tcp->checksum = 0x1234;
    const NfResult out = runner.run({build(spec)}, {1});
    ASSERT_EQ(out.decisions[0].outcome, kOut);
    EXPECT_FALSE(sums_right(out.frames[0]));
}

TEST(Nat64, LeavesOutOptionsAndExtensionHeadersAndFollowsNoRoutes) {
    NfRunner runner("nat64", kOne);
    const Known one = known_endpoint(runner, 17);
    Content content{.payload = bytes_of("payload")};
    const auto with_options = [&](Frame options) {
        PacketSpec spec = spec_of(content, one.server, one.external, false);
        spec.ipv4->options = std::move(options);
        return build(spec);
    };
    const Frame arrives = in_ipv6(content, one.server, one.client);
    // A router alert and no-operations; a loose route that is over; ones that are not.
    for (const char* good : {"94040000", "01010101", "830b0c010203040506070800", "01830304", "0000ffff"}) {
        const NfResult back = runner.run({with_options(*parse_hex(good))}, {1});
        ASSERT_EQ(back.decisions[0].outcome, kIn) << good;
        EXPECT_EQ(hex_dump(back.frames[0]), hex_dump(arrives)) << good;
    }
    for (const char* bad : {"830b04010203040506070800", "890b08010203040506070800", "07000000"})
        EXPECT_EQ(runner.run({with_options(*parse_hex(bad))}, {1}).decisions[0].outcome, kNoSuchThing) << bad;

    const auto with_extension = [&](uint8_t protocol, const char* body) {
        PacketSpec spec = spec_of(content, one.client, one.server, true);
        spec.ipv6->extensions.push_back({protocol, *parse_hex(body), {}});
        return build(spec);
    };
    for (const auto& [protocol, body] : std::map<uint8_t, const char*>{
             {0, "010400000000"}, {60, "010400000000"}, {43, "000000000000"}, {44, "000000000007"}}) {
        const NfResult out = runner.run({with_extension(protocol, body)}, {1});
        ASSERT_EQ(out.decisions[0].outcome, kOut) << int{protocol};
        EXPECT_EQ(hex_dump(out.frames[0]), hex_dump(in_ipv4(content, one.external, one.server, out.frames[0])));
    }
    EXPECT_EQ(runner.run({with_extension(43, "000100000000")}, {1}).decisions[0].outcome, kNoSuchThing);
    EXPECT_EQ(runner.run({with_extension(44, "000100000007")}, {1}).decisions[0].outcome, kPiece);
    EXPECT_EQ(runner.run({with_extension(44, "000800000007")}, {1}).decisions[0].outcome, kPiece);
}

/// Two inside by their external addresses: IPv6 on both sides, IPv4 nowhere, and errors about it come back.
TEST(Nat64, LetsEndpointsInsideMeetByTheirExternalPorts) {
    NfRunner runner("nat64", "{pool: [198.51.100.1, 198.51.100.2], ports: 1024-9215}");
    auto all = endpoints(600, 4);
    std::erase_if(all, [](const Endpoint& one) { return one.content.protocol == 1 || !one.content.vlans.empty(); });
    std::vector<Frame> frames;
    for (const Endpoint& one : all) frames.push_back(in_ipv6(one.content, one.side, outside(kServer, 53)));
    const NfResult out = runner.run(frames, {1});
    const auto seen_as = [&](size_t i) {
        Side side = source4(out.frames[i]);
        side.ipv6 = known(side.ipv4);
        return side;
    };
    size_t met = 0;
    for (size_t i = 0; i + 1 < all.size(); ++i) {
        if (all[i].content.protocol != all[i + 1].content.protocol) continue;
        const Content& content = all[i].content;
        const Frame call = in_ipv6(content, all[i].side, seen_as(i + 1));
        const NfResult called = runner.run({call}, {1});
        ASSERT_EQ(called.decisions[0].outcome, kHairpinned) << i;
        Side caller;
        std::copy_n(called.frames[0].begin() + 22, 16, caller.ipv6.begin());
        caller.port = load_be16(called.frames[0].data() + 54);
        ASSERT_EQ(hex_dump(called.frames[0]), hex_dump(in_ipv6(content, caller, all[i + 1].side))) << i;
        ASSERT_TRUE(std::equal(caller.ipv6.begin(), caller.ipv6.begin() + 15, known(ipv4("198.51.100.0")).begin()));
        const NfResult back = runner.run({in_ipv6(content, all[i + 1].side, caller)}, {1});
        ASSERT_EQ(back.decisions[0].outcome, kHairpinned);
        ASSERT_EQ(hex_dump(back.frames[0]), hex_dump(in_ipv6(content, seen_as(i + 1), all[i].side))) << i;
        const NfResult told = runner.run({error6(all[i + 1].side.ipv6, 1, 4, 0, called.frames[0], 100)}, {1});
        ASSERT_EQ(told.decisions[0].outcome, kHairpinned);
        const size_t quoted = std::min<size_t>(100, called.frames[0].size() - 14);
        ASSERT_EQ(hex_dump(told.frames[0]), hex_dump(error6(seen_as(i + 1).ipv6, 1, 4, 0, call, quoted))) << i;
        ++met;
    }
    EXPECT_GT(met, 50u);
}

TEST(Nat64, FindsEachOfAThousandPortForwards) {
    constexpr uint32_t kThere = 1000;
    std::string options = "{forwards: [";
    const auto inside = [](uint32_t i) {
        Side side{ipv6("2001:db8:5::"), 0, 8080};
        store_be32(side.ipv6.data() + 12, i);
        return side;
    };
    const auto external = [](uint32_t i) {
        return Side{{}, ipv4("198.51.100.0") + i % 200, static_cast<uint16_t>(1 + i / 200)};
    };
    for (uint32_t i = 0; i < kThere; ++i)
        options += fmt::format(
            "{{protocol: udp, address: 198.51.100.{}, port: {}, to: \"2001:db8:5::{:x}\", to-port: 8080}}, ", i % 200,
            1 + i / 200, i);
    NfRunner runner("nat64", options + "]}");
    const Content content{.payload = bytes_of("payload")};
    std::vector<Frame> frames;
    for (uint32_t i = 0; i < kThere; ++i) {
        frames.push_back(in_ipv4(content, outside(kServer, 9), external(i)));
        frames.push_back(in_ipv6(content, inside(i), outside(kServer, 9)));
    }
    frames.push_back(in_ipv6(content, inside(kThere), outside(kServer, 9)));  // who has no forward, and there is no
                                                                              // pool
    const NfResult result = runner.run(frames, {1});
    for (uint32_t i = 0; i < kThere; ++i) {
        ASSERT_EQ(hex_dump(result.frames[2 * i]), hex_dump(in_ipv6(content, outside(kServer, 9), inside(i))));
        const Frame& out = result.frames[2 * i + 1];
        ASSERT_EQ(hex_dump(out), hex_dump(in_ipv4(content, external(i), outside(kServer, 9), out)));
    }
    EXPECT_EQ(result.decisions.back().outcome, kNoPortLeft);
}

TEST(Nat64, RefusesOptionsThatMakeNoSense) {
    const std::string good = "{pool: 198.51.100.1, ";
    const std::pair<std::string, const char*> cases[] = {
        {"{}", "neither external addresses nor port forwards"},
        {good + "inside: []}", "nobody is inside"},
        {good + "inside: 10.0.0.0/8}", "not of IPv6"},
        {good + "prefix: \"64:ff9b::/95\"}", "one of 32, 40, 48, 56, 64, 96"},
        {good + "prefix: \"2001:db8::\"}", "one of 32, 40, 48, 56, 64, 96"},
        {good + "prefix: 10.0.0.0/8}", "not of IPv6"},
        {good + "prefix: \"2001:db8:0:0:100::/96\"}", "bits 64 to 71"},
        {"{pool: \"2001:db8::1\"}", "not of IPv4"},
        {good + "forwards: {protocol: tcp, address: 198.51.100.1, port: 80, to: 10.0.0.1}}", "not of IPv6"},
        {good +
             "inside: \"2001:db8::/32\", forwards: {protocol: tcp, address: 198.51.100.1, port: 80, to: \"2a00::1\"}}",
         "2a00::1 is not inside"},
        {good + "mtu: 1279}", "1279"},
        {good + "port: 5}", "unknown field 'port'"},
    };
    for (const auto& [options, want] : cases) {
        try {
            NfRunner("nat64", Config::parse(options, "chain.yaml"));
            ADD_FAILURE() << "accepted: " << options;
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find(want), std::string::npos) << options << ": " << error.what();
            EXPECT_EQ(error.diagnostics().front().where.line, 1u);
        }
    }
}

}  // namespace
}  // namespace millrace::test
