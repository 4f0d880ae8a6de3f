// xbits: what rules leave with hosts, and ask of them, when alerts are told.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "millrace/nf/nids/alerts/host_bits.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"
#include "millrace/packet/bytes.hpp"

#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

using test::Frame;

Rule rule_with(const std::string& options) {
    RuleFile file = parse_rules("alert ip any any -> any any (" + options + " sid:1;)", "test", Variables::defaults());
    EXPECT_TRUE(file.errors.empty());
    return file.rules.at(0);
}
Event between(uint32_t src, uint32_t dst, uint8_t version = 4) {
    Event event;
    event.ip_version = version;
    store_be32(event.src, src);
    store_be32(event.dst, dst);
    return event;
}
constexpr uint64_t kOneSecond = 1'000'000'000;

TEST(HostBits, EndByThemselves) {
    HostBits bits;
    const Rule sets = rule_with("xbits:set,a,track ip_src,expire 10;"), asks = rule_with("xbits:isset,a,track ip_src;");
    const Event event = between(1, 2);
    const uint64_t start = 100 * kOneSecond;
    EXPECT_FALSE(bits.admit(asks, event, start));
    EXPECT_TRUE(bits.admit(sets, event, start));
    EXPECT_TRUE(bits.admit(asks, event, start));
    EXPECT_TRUE(bits.admit(sets, event, start + 5 * kOneSecond)) << "and keeps its time";
    EXPECT_TRUE(bits.admit(asks, event, start + 10 * kOneSecond)) << "its last instant";
    EXPECT_FALSE(bits.admit(asks, event, start + 10 * kOneSecond + 1));
    EXPECT_TRUE(bits.admit(rule_with("xbits:isnotset,a,track ip_src;"), event, start + 10 * kOneSecond + 1));
    EXPECT_TRUE(bits.admit(sets, event, start + 11 * kOneSecond));
    EXPECT_TRUE(bits.admit(asks, event, start + 21 * kOneSecond)) << "set anew";
}

TEST(HostBits, AreOfHostsOrOfPairsInAnyOrder) {
    HostBits bits;
    bits.admit(rule_with("xbits:set,a,track ip_dst;"), between(1, 2), 0);
    EXPECT_TRUE(bits.admit(rule_with("xbits:isset,a,track ip_src;"), between(2, 9), 0)) << "the same host";
    EXPECT_FALSE(bits.admit(rule_with("xbits:isset,a,track ip_src;"), between(1, 2), 0));
    EXPECT_FALSE(bits.admit(rule_with("xbits:isset,b,track ip_src;"), between(2, 1), 0)) << "another name";
    EXPECT_FALSE(bits.admit(rule_with("xbits:isset,a,track ip_src;"), between(2, 1, 6), 0)) << "another address";
    const Rule pair = rule_with("xbits:isset,p,track ip_pair;");
    bits.admit(rule_with("xbits:set,p,track ip_pair;"), between(1, 2), 0);
    EXPECT_TRUE(bits.admit(pair, between(1, 2), 0));
    EXPECT_TRUE(bits.admit(pair, between(2, 1), 0));
    EXPECT_FALSE(bits.admit(pair, between(1, 3), 0));
    EXPECT_FALSE(bits.admit(pair, between(1, 2, 6), 0));
}

TEST(HostBits, AreUnsetToggledAndAskedTogether) {
    HostBits bits;
    const Event event = between(1, 2);
    const Rule asks = rule_with("xbits:isset,a,track ip_src; xbits:isnotset,b,track ip_src; xbits:set,b,track ip_src;");
    bits.admit(rule_with("xbits:toggle,a,track ip_src;"), event, 0);
    EXPECT_TRUE(bits.admit(asks, event, 0));
    EXPECT_FALSE(bits.admit(asks, event, 0)) << "it has set b";
    bits.admit(rule_with("xbits:unset,b,track ip_src;"), event, 0);
    EXPECT_TRUE(bits.admit(asks, event, 0));
    bits.admit(rule_with("xbits:toggle,a,track ip_src; xbits:unset,b,track ip_src;"), event, 0);
    EXPECT_FALSE(bits.admit(asks, event, 0));
    EXPECT_EQ(bits.size(), 0u);
}

TEST(HostBits, HaveRoomForSoMany) {
    HostBits bits;
    const Rule sets = rule_with("xbits:set,a,track ip_src,expire 1000;");
    for (uint32_t i = 0; i < HostBits::kMaxEntries; ++i) bits.admit(sets, between(i, 0), i * kOneSecond / 1000);
    EXPECT_EQ(bits.size(), HostBits::kMaxEntries);
    EXPECT_EQ(bits.forgotten(), 0u);
    const uint64_t now = HostBits::kMaxEntries * kOneSecond / 1000;
    bits.admit(sets, between(0xffffffff, 0), now);
    EXPECT_GT(bits.forgotten(), HostBits::kMaxEntries / 3);
    EXPECT_LE(bits.size(), HostBits::kMaxEntries * 2 / 3);
    EXPECT_TRUE(bits.admit(rule_with("xbits:isset,a,track ip_src;"), between(0xffffffff, 0), now));
    EXPECT_FALSE(bits.admit(rule_with("xbits:isset,a,track ip_src;"), between(0, 0), now))
        << "the first was the oldest";
}

/// Rules by the letters that they look for, setters first, as they are asked.
const char* const kHostRules[] = {
    "content:\"s\"; xbits:set,one,track ip_src; noalert;", "content:\"u\"; xbits:unset,one,track ip_src;",
    "content:\"t\"; xbits:toggle,one,track ip_src;",       "content:\"d\"; xbits:set,two,track ip_dst; noalert;",
    "content:\"p\"; xbits:set,three,track ip_pair;",       "content:\"?\"; xbits:isset,one,track ip_src;",
    "content:\"!\"; xbits:isnotset,one,track ip_src;",     "content:\"e\"; xbits:isset,two,track ip_src;",
    "content:\"q\"; xbits:isset,three,track ip_pair;",
};

struct Sent {
    std::vector<Frame> frames;
    std::vector<uint32_t> sids;  ///< of alerts, in order
};

/// Packets between hosts, each of a flow of its own, and what a model makes of them.
Sent random_packets(uint32_t clients, size_t count, unsigned seed) {
    std::mt19937 rng(seed);
    std::set<uint32_t> one, two;
    std::set<std::pair<uint32_t, uint32_t>> three;
    Sent sent;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t client = test::ipv4("10.0.0.0") + static_cast<uint32_t>(rng() % clients);
        const uint32_t server = test::ipv4("10.9.0.0") + static_cast<uint32_t>(rng() % 3);
        const bool up = rng() % 2 == 0;
        const uint32_t src = up ? client : server, dst = up ? server : client;
        std::string text;
        for (size_t n = rng() % 4; n > 0; --n) text += "sutdp?!eq"[rng() % 9];
        test::PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = src;
        spec.ipv4->dst = dst;
        spec.udp.emplace();
        spec.udp->src = static_cast<uint16_t>(rng());
        spec.udp->dst = static_cast<uint16_t>(rng());
        spec.payload = Frame(text.begin(), text.end());
        sent.frames.push_back(test::build(spec));
        const auto has = [&](char letter) { return text.find(letter) != std::string::npos; };
        const auto tell = [&](uint32_t rule) { sent.sids.push_back(rule + 1); };
        if (has('s')) one.insert(src);
        if (has('u')) one.erase(src), tell(1);
        if (has('t')) {
            if (one.erase(src) == 0) one.insert(src);
            tell(2);
        }
        if (has('d')) two.insert(dst);
        if (has('p')) three.insert(std::minmax(src, dst)), tell(4);
        if (has('?') && one.contains(src)) tell(5);
        if (has('!') && !one.contains(src)) tell(6);
        if (has('e') && two.contains(src)) tell(7);
        if (has('q') && three.contains(std::minmax(src, dst))) tell(8);
    }
    return sent;
}

std::string chain_with(const std::string& eve) {
    std::string text = "[nids: {flows: {max-flows: 64k}, eve: '" + eve + "', rule: [";
    // Those that ask stand first: the order of files is not that in which they are asked.
    for (const size_t i : {5, 6, 7, 8, 0, 1, 2, 3, 4})
        text += fmt::format("'alert udp any any -> any any ({} sid:{};)', ", kHostRules[i], i + 1);
    return text + "]}]";
}

void expect_told(const chain::Configuration& chain, const std::string& eve, const Sent& sent) {
    chain.chains[0]->nodes[0].nf->flush();
    std::vector<uint32_t> sids;
    std::ifstream file(eve);
    for (std::string line; std::getline(file, line);)
        sids.push_back(nlohmann::json::parse(line)["alert"]["signature_id"].get<uint32_t>());
    EXPECT_EQ(sids, sent.sids);
    for (uint32_t rule = 1; rule < std::size(kHostRules); ++rule)
        if (rule != 3) {
            EXPECT_GT(std::count(sids.begin(), sids.end(), rule + 1), 5) << "rule " << rule;
        }
}

std::string fresh_eve(const std::string& name) {
    const std::string path = (std::filesystem::path(testing::TempDir()) / ("millrace-host-bits-" + name)).string();
    std::filesystem::remove(path);
    return path;
}

class HostBitsOnDevices : public test::DeviceInMode {};

TEST_P(HostBitsOnDevices, AreWhatTheModelSays) {
    for (const uint32_t clients : {1u, 1000u}) {
        const Sent sent = random_packets(clients, 6000, clients);
        const std::string eve = fresh_eve(test::device_in_mode_name({GetParam(), 0}));
        exec::OffloadOptions options;
        options.mode = mode();
        const auto chain = test::make_configuration(chain_with(eve), name());
        const auto run = test::run_on_device(device(7), chain, sent.frames, 130, options);
        EXPECT_EQ(run.counters->of_node(0).events_lost.get(), 0u);
        expect_told(chain, eve, sent);
    }
}
INSTANTIATE_TEST_SUITE_P(Devices, HostBitsOnDevices, testing::ValuesIn(test::devices_in_every_mode()),
                         test::device_in_mode_name);

TEST(HostBits, AreWhatTheModelSaysOnTheCpu) {
    for (const uint32_t clients : {1u, 1000u}) {
        const Sent sent = random_packets(clients, 6000, clients + 1);
        const std::string eve = fresh_eve("cpu");
        const auto chain = test::make_configuration(chain_with(eve), "cpu");
        test::run_on_cpu(chain, sent.frames, 100);
        expect_told(chain, eve, sent);
    }
}

/// As thresholds do, they stay while the alert file does.
TEST(HostBits, StayWithTheNextGeneration) {
    const auto text = [](const std::string& eve) {
        return "[nids: {eve: '" + eve +
               "', rule: ['alert udp any any -> any any (content:\"set\"; xbits:set,a,track ip_src; noalert; sid:1;)', "
               "'alert udp any any -> any any (content:\"ask\"; xbits:isset,a,track ip_src; sid:2;)']}]";
    };
    const auto alerts = [](const chain::Configuration& chain, const char* payload) {
        test::run_on_cpu(chain, {test::build_packet(fmt::format("{{ipv4: {{}}, udp: {{}}, payload: {}}}", payload))},
                         1);
        for (const Statistic& each : chain.chains[0]->nodes[0].nf->statistics())
            if (each.name == "alerts") return each.value;
        return uint64_t{99};
    };
    const std::string eve = fresh_eve("first"), other = fresh_eve("other");
    const auto first = test::make_configuration(text(eve), "cpu");
    EXPECT_EQ(alerts(first, "ask"), 0u);
    EXPECT_EQ(alerts(first, "set"), 0u) << "it is silent";
    EXPECT_EQ(alerts(first, "ask"), 1u);
    const auto second = test::make_configuration(text(eve), "cpu", 0, "(test)", &first);
    EXPECT_EQ(alerts(second, "ask"), 2u);
    const auto third = test::make_configuration(text(other), "cpu", 0, "(test)", &second);
    EXPECT_EQ(alerts(third, "ask"), 0u);
}

}  // namespace
}  // namespace millrace::nf::nids
