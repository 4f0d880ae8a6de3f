#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "millrace/nf/balancer/device.hpp"
#include "millrace/nf/balancer/maglev.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

using nf::balancer::Balancer;
using nf::balancer::fill_slots;
using nf::balancer::Share;
using nf::balancer::slots_for;

std::vector<Share> shares_of(size_t n, unsigned weight = 1) {
    std::vector<Share> shares;
    for (size_t i = 0; i < n; ++i) shares.push_back({"web-" + std::to_string(i), weight});
    return shares;
}

std::vector<size_t> counts_of(const std::vector<uint32_t>& slots, size_t n) {
    std::vector<size_t> counts(n, 0);
    for (const uint32_t back_end : slots) ++counts.at(back_end);
    return counts;
}

TEST(Slots, ArePrimesOfAHundredForEachBackEnd) {
    for (const size_t n : {0u, 1u, 2u, 3u, 31u, 100u, 1000u, 10'000u}) {
        const uint32_t slots = slots_for(n);
        EXPECT_GE(slots, 100 * n);
        for (uint32_t by = 2; by * by <= slots; ++by) ASSERT_NE(slots % by, 0u) << slots;
    }
    EXPECT_GE(slots_for(65535), 65535u);
}

TEST(Slots, AreSharedEvenly) {
    for (const size_t n : {1u, 2u, 3u, 10u, 100u, 1000u}) {
        const auto counts = counts_of(fill_slots(shares_of(n), slots_for(n)), n);
        EXPECT_LE(*std::ranges::max_element(counts) - *std::ranges::min_element(counts), 1u) << n;
    }
}

TEST(Slots, FollowWeights) {
    std::vector<Share> shares = shares_of(4);
    shares[0].weight = 0;
    shares[2].weight = 2;
    shares[3].weight = 5;
    const auto counts = counts_of(fill_slots(shares, 65521), 4);
    EXPECT_EQ(counts[0], 0u);
    EXPECT_NEAR(static_cast<double>(counts[1]), 65521 / 8.0, 2);
    EXPECT_NEAR(static_cast<double>(counts[2]), 65521 / 4.0, 2);
    EXPECT_NEAR(static_cast<double>(counts[3]), 65521 * 5 / 8.0, 2);
    EXPECT_TRUE(fill_slots(shares_of(3, 0), 251).empty());
    EXPECT_TRUE(fill_slots({}, 251).empty());
}

TEST(Slots, DoNotDependOnTheOrderOfBackEnds) {
    std::vector<Share> shares = shares_of(50);
    for (size_t i = 0; i < shares.size(); ++i) shares[i].weight = static_cast<unsigned>(1 + i % 3);
    const auto slots = fill_slots(shares, 5003);
    std::vector<Share> turned(shares.rbegin(), shares.rend());
    const auto others = fill_slots(turned, 5003);
    for (size_t i = 0; i < slots.size(); ++i) ASSERT_EQ(shares[slots[i]].identity, turned[others[i]].identity);
}

/// Of the slots that a back end keeps or gets which it had before: how many changed among those that stayed.
TEST(Slots, OfOthersHardlyMoveWhenABackEndGoes) {
    for (const size_t n : {10u, 100u}) {
        const uint32_t count = slots_for(n);
        const auto before = fill_slots(shares_of(n), count);
        for (const size_t gone : {size_t{0}, n / 2, n - 1}) {
            std::vector<Share> left = shares_of(n);
            left[gone].weight = 0;
            const auto after = fill_slots(left, count);
            size_t moved = 0, of_gone = 0;
            for (size_t i = 0; i < count; ++i) {
                ASSERT_NE(after[i], gone);
                if (before[i] == gone) ++of_gone;
                else moved += before[i] != after[i];
            }
            EXPECT_GT(of_gone, 0u);
            EXPECT_LE(static_cast<double>(moved), (n == 10 ? 0.04 : 0.02) * count) << n << " without " << gone;
        }
    }
}

const char* const kServices = R"({services: [
    {address: 192.0.2.10, protocol: tcp, port: 80, back-ends: [
        {address: 10.0.0.1, port: 8080}, {address: 10.0.0.2, port: 8080}, {address: 10.0.0.3, weight: 3}]},
    {address: 192.0.2.10, protocol: udp, port: 53, affinity: source, back-ends: [
        {address: 10.0.0.1}, {address: 10.0.0.2, port: 5353}]},
    {address: 192.0.2.11, back-ends: [{address: 10.0.1.1}, {address: 10.0.1.2}]},
    {address: 192.0.2.12, protocol: udp, way: mac, back-ends: [
        {mac: "02:00:00:00:01:01", via: port1}, {mac: "02:00:00:00:01:02", via: port2}]},
    {address: "2001:db8::10", protocol: tcp, port: 80, back-ends: [
        {address: "2001:db8:1::1"}, {address: "2001:db8:1::2", port: 8080}]}]})";

/// A packet to or from some end of kServices, or an ICMP error that quotes one; all kinds of them.
Frame aimed(Rng& rng) {
    const char* const ends4[] = {"192.0.2.10", "192.0.2.11", "192.0.2.12", "10.0.0.1", "10.0.0.2",
                                 "10.0.0.3",   "10.0.1.1",   "10.0.1.2",   "10.9.9.9"};
    const char* const ends6[] = {"2001:db8::10", "2001:db8:1::1", "2001:db8:1::2", "2001:db8:9::9"};
    const uint16_t ports[] = {80, 53, 8080, 5353, 7};
    const bool ipv6_packet = rng() % 3 == 0, to = rng() % 2 == 0;
    const auto spec_of = [&](bool quoted) {
        PacketSpec spec;
        const auto client = static_cast<uint32_t>(0xc6336400 + rng() % 200);
        const bool forward = quoted ? !to : to;
        if (ipv6_packet) {
            spec.ipv6.emplace();
            spec.ipv6->src = ipv6(forward ? "2001:db8:f::7" : ends6[rng() % std::size(ends6)]);
            spec.ipv6->dst = ipv6(forward ? ends6[rng() % std::size(ends6)] : "2001:db8:f::7");
        } else {
            spec.ipv4.emplace();
            spec.ipv4->src = forward ? client : ipv4(ends4[rng() % std::size(ends4)]);
            spec.ipv4->dst = forward ? ipv4(ends4[rng() % std::size(ends4)]) : client;
        }
        const auto own = static_cast<uint16_t>(1024 + rng() % 100), other = ports[rng() % std::size(ports)];
        if (rng() % 2 == 0) {
            spec.tcp.emplace();
            spec.tcp->src = forward ? own : other;
            spec.tcp->dst = forward ? other : own;
        } else {
            spec.udp.emplace();
            spec.udp->src = forward ? own : other;
            spec.udp->dst = forward ? other : own;
            if (!ipv6_packet && rng() % 4 == 0) spec.udp->checksum = 0;
        }
        spec.payload.assign(rng() % 40, static_cast<uint8_t>(rng()));
        return spec;
    };
    PacketSpec spec = spec_of(false);
    if (rng() % 3 == 0) {
        Frame quoted = build(spec_of(true));
        quoted.erase(quoted.begin(), quoted.begin() + 14);
        if (rng() % 3 == 0) quoted.resize(std::min<size_t>(quoted.size(), rng() % 60));
        spec.tcp.reset();
        spec.udp.reset();
        IcmpHeader header;
        header.type = static_cast<uint8_t>(ipv6_packet ? 1 + rng() % 4 : 3 + rng() % 10);
        spec.icmp = header;
        spec.payload = quoted;
    }
    return build(spec);
}

TEST(Balancer, DoesWhatItsGoldenPacketsSay) { run_golden("balancer"); }

TEST(Balancer, IsTheSameOnEveryDevice) {
    Rng rng(1);
    std::vector<Frame> frames = random_packets(rng, 300, {});
    for (int i = 0; i < 2000; ++i) frames.push_back(aimed(rng));
    check_halves_agree("balancer", kServices, frames);
    check_halves_agree("balancer", std::string(kServices).insert(1, "icmp-errors: false, "), frames);
    check_halves_agree("balancer", "{services: []}", frames);
}

/// The checksum of a whole IP packet's headers and payload is right, by a sum over all of it.
bool checksums_right(const Frame& frame) {
    const Layers layers = parse(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()));
    const uint8_t* const l3 = frame.data() + layers.l3_offset;
    if (layers.is_ipv4() && checksum(l3, (l3[0] & 15) * 4u) != 0) return false;
    const uint8_t* const l4 = frame.data() + layers.l4_offset;
    const uint32_t bytes = layers.end - layers.l4_offset;
    if (layers.is_udp() && load_be16(l4 + 6) == 0) return layers.is_ipv4();
    uint32_t sum = 0;
    if (!layers.is_icmp() || layers.is_ipv6()) {
        sum = checksum_add(sum, l3 + (layers.is_ipv6() ? 8 : 12), layers.is_ipv6() ? 32 : 8);
        sum += layers.protocol + bytes;
    }
    return checksum_finish(checksum_add(sum, l4, bytes)) == 0;
}

TEST(Balancer, KeepsAllChecksumsRight) {
    Rng rng(2);
    std::vector<Frame> frames;
    while (frames.size() < 5000) {
        frames.push_back(aimed(rng));
        if (!checksums_right(frames.back())) frames.pop_back();
    }
    NfRunner runner("balancer", kServices);
    const NfResult result = runner.run(frames, {1});
    std::map<uint32_t, size_t> seen;
    for (size_t i = 0; i < frames.size(); ++i) {
        ++seen[result.decisions[i].outcome];
        ASSERT_TRUE(checksums_right(result.frames[i])) << hex_dump(frames[i]) << "\nbecame\n"
                                                       << hex_dump(result.frames[i]);
    }
    for (const uint32_t outcome : {Balancer::kBalanced, Balancer::kReturned, Balancer::kOther, Balancer::kNoService})
        EXPECT_GT(seen[outcome], 100u) << outcome;
}

Frame tcp_frame(uint32_t from, uint16_t from_port, uint32_t to, uint16_t to_port) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = from;
    spec.ipv4->dst = to;
    spec.tcp.emplace();
    spec.tcp->src = from_port;
    spec.tcp->dst = to_port;
    spec.payload = bytes_of("payload");
    return build(spec);
}

/// What a back end would answer, without a payload of its own.
Frame answer_to(const Frame& frame) {
    return tcp_frame(load_be32(frame.data() + 30), load_be16(frame.data() + 36), load_be32(frame.data() + 26),
                     load_be16(frame.data() + 34));
}

TEST(Balancer, KeepsAFlowWithOneBackEndAndGivesItsAnswersTheServicesAddress) {
    NfRunner runner("balancer", kServices);
    std::vector<Frame> requests;
    const uint32_t service = ipv4("192.0.2.10");
    for (uint16_t port = 1000; port < 5000; ++port)
        requests.push_back(tcp_frame(ipv4("198.51.100.7"), port, service, 80));
    const NfResult there = runner.run(requests, {1});
    EXPECT_EQ(runner.run(requests, {1}).frames, there.frames);
    std::map<uint32_t, size_t> by_back_end;
    std::vector<Frame> answers;
    for (size_t i = 0; i < requests.size(); ++i) {
        ASSERT_EQ(there.decisions[i].outcome, Balancer::kBalanced);
        ++by_back_end[load_be32(there.frames[i].data() + 30)];
        answers.push_back(answer_to(there.frames[i]));
    }
    EXPECT_NEAR(static_cast<double>(by_back_end[ipv4("10.0.0.3")]), 4000 * 0.6, 150);
    EXPECT_NEAR(static_cast<double>(by_back_end[ipv4("10.0.0.1")]), 4000 * 0.2, 120);
    const NfResult back = runner.run(answers, {1});
    for (size_t i = 0; i < answers.size(); ++i) {
        ASSERT_EQ(back.decisions[i].outcome, Balancer::kReturned);
        ASSERT_EQ(back.frames[i], answer_to(requests[i]));
    }
}

TEST(Balancer, SendsAClientToOneBackEndWhereThatIsAsked) {
    NfRunner runner("balancer", kServices);
    std::vector<Frame> frames;
    for (uint16_t i = 0; i < 1000; ++i) {
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = ipv4("198.51.100.0") + i % 50;
        spec.ipv4->dst = ipv4("192.0.2.10");
        spec.udp.emplace();
        spec.udp->src = static_cast<uint16_t>(2000 + i);
        spec.udp->dst = 53;
        frames.push_back(build(spec));
    }
    const NfResult result = runner.run(frames, {1});
    std::map<uint32_t, std::set<uint32_t>> of_client;
    std::set<uint32_t> all;
    for (size_t i = 0; i < frames.size(); ++i) {
        of_client[load_be32(frames[i].data() + 26)].insert(result.decisions[i].detail);
        all.insert(result.decisions[i].detail);
    }
    for (const auto& [client, back_ends] : of_client) EXPECT_EQ(back_ends.size(), 1u);
    EXPECT_EQ(all.size(), 2u);
}

TEST(Balancer, FindsEachOfTenThousandServicesAndEachAnswer) {
    constexpr uint32_t kServicesThere = 10'000;
    std::string options = "{services: [";
    for (uint32_t i = 0; i < kServicesThere; ++i)
        options += fmt::format(
            "{{address: 10.{}.{}.1, protocol: tcp, port: 80, slots: 3, back-ends: [{{address: 10.{}.{}.2}}]}}, ",
            i / 250, i % 250, i / 250, i % 250);
    NfRunner runner("balancer", options + "]}");
    std::vector<Frame> frames, wanted;
    for (uint32_t i = 0; i < kServicesThere; ++i) {
        const uint32_t at = 10u << 24 | (i / 250) << 16 | (i % 250) << 8;
        frames.push_back(tcp_frame(1u << 24 | i, 7, at | 1, 80));
        wanted.push_back(tcp_frame(1u << 24 | i, 7, at | 2, 80));
        frames.push_back(tcp_frame(at | 2, 80, 1u << 24 | i, 7));
        wanted.push_back(tcp_frame(at | 1, 80, 1u << 24 | i, 7));
    }
    for (const Half& half : halves(runner.type())) EXPECT_EQ(runner.run(frames, half).frames, wanted) << half.text();
}

TEST(Balancer, LeavesTheBodyWhereItIsWithoutIcmpErrors) {
    const auto read = [](const std::string& options) {
        const nf::Environment environment{
            .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts};
        const nf::Type& type = *nf::find_type("balancer");
        return type.create(Config::parse(options), environment)->reads(type.reads);
    };
    EXPECT_TRUE(read("{services: []}").contains(field::payload));
    EXPECT_FALSE(read("{services: [], icmp-errors: false}").overlaps(field::payload));
}

TEST(Balancer, RefusesOptionsThatMakeNoSense) {
    const auto service = [](const std::string& rest) { return "{services: [{address: 192.0.2.1, " + rest + "}]}"; };
    const std::pair<std::string, const char*> cases[] = {
        {"{}", "services"},
        {"{services: [{protocol: tcp}]}", "address"},
        {"{services: [{address: 192.0.2.0/24}]}", "not a single address"},
        {service("port: 80"), "goes with a protocol"},
        {service("protocol: sctp"), "sctp"},
        {service("protocol: tcp, port: 0"), "0"},
        {service("protocol: tcp, port: 70000"), "70000"},
        {service("slots: 100"), "prime"},
        {service("slots: 2, back-ends: [{address: 10.0.0.1}, {address: 10.0.0.2}, {address: 10.0.0.3}]"),
         "more back ends than slots"},
        {service("back-ends: [{mac: \"02:00:00:00:00:01\"}]"), "a back end has an address"},
        {service("back-ends: [{address: \"2001:db8::1\"}]"), "address family"},
        {service("back-ends: [{address: 10.0.0.0/8}]"), "not a single address"},
        {service("back-ends: [{address: 10.0.0.1, port: 80}]"), "leaves ports as they are"},
        {service("way: mac, back-ends: [{name: a}]"), "has a MAC address"},
        {service("way: mac, back-ends: [{address: 10.0.0.1, mac: \"02:00:00:00:00:01\"}]"),
         "have the service's address"},
        {service("back-ends: [{address: 10.0.0.1}, {address: 10.0.0.1}]"), "are called '10.0.0.1'"},
        {service("back-ends: [{address: 10.0.0.1, weight: -1}]"), "-1"},
        {service("back-ends: [{address: 10.0.0.1, via: nowhere}]"), "nowhere"},
        {service("back-ends: [{address: 192.0.2.1}]"), "is a service itself"},
        {"{services: [{address: 192.0.2.1}, {address: 192.0.2.1}]}", "two services 192.0.2.1"},
        {"{services: [{address: 192.0.2.1, back-ends: [{address: 10.0.0.1}]}, {address: 192.0.2.2, back-ends: "
         "[{address: 10.0.0.1}]}]}",
         "a back end of 192.0.2.1 already"},
        {service("backends: []"), "unknown field 'backends'"},
    };
    for (const auto& [options, want] : cases) {
        try {
            NfRunner("balancer", Config::parse(options, "chain.yaml"));
            ADD_FAILURE() << "accepted: " << options;
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find(want), std::string::npos) << options << ": " << error.what();
            EXPECT_EQ(error.diagnostics().front().where.line, 1u);
        }
    }
}

}  // namespace
}  // namespace millrace::test
