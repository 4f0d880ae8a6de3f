// The flows that connection tracking shows: which, in what order, and what they have counted.
#include <gtest/gtest.h>

#include "millrace/nf/flow_query.hpp"
#include "support/nf_runner.hpp"
#include "support/shown_lines.hpp"

namespace millrace::test {
namespace {

using nf::FlowQuery;
using nf::ShownTable;

constexpr const char* kTalks[] = {
    "{ipv4: {src: 10.0.0.1, dst: 192.0.2.1}, tcp: {src: 1000, dst: 443, seq: 1, flags: S}}",
    "{ipv4: {src: 192.0.2.1, dst: 10.0.0.1}, tcp: {src: 443, dst: 1000, seq: 9, ack: 2, flags: SA}}",
    "{ipv4: {src: 10.0.0.1, dst: 192.0.2.1}, tcp: {src: 1000, dst: 443, seq: 2, ack: 10, flags: A}}",
    "{ipv4: {src: 10.0.0.2, dst: 192.0.2.1}, udp: {src: 5000, dst: 53}, payload: {repeat: a, count: 400}}",
    "{ipv6: {src: '2001:db8::9', dst: '2001:db8::1'}, udp: {src: 5001, dst: 53}}",
    "{ipv6: {src: '2001:db8::1', dst: '2001:db8::9'}, udp: {src: 53, dst: 5001}}",
    "{ipv4: {src: 10.9.0.3, dst: 10.0.0.9}, icmp: {type: 8, rest: 0x00070001}}",
    "{vlan: 20, ipv4: {src: 10.0.0.4, dst: 192.0.2.7, protocol: 47}, payload: gre}",
};

class Shown : public testing::Test {
protected:
    Shown() {
        std::vector<Frame> frames;
        for (const char* talk : kTalks) frames.push_back(build_packet(std::string(talk)));
        runner_.run(frames, {1});
    }
    ShownTable ask(const std::string& words = {}, size_t most = 100, FlowQuery::By by = FlowQuery::By::bytes) {
        FlowQuery query;
        query.most = most;
        query.by = by;
        if (!words.empty()) query.read(words);
        return dynamic_cast<const nf::ShowsFlows&>(runner_.nf()).show_flows(query, nullptr);
    }
    NfRunner runner_{"conntrack", "{max-flows: 64, zones: vlan}"};
};

TEST_F(Shown, HaveBothEndsAndWhatTheyCounted) {
    const ShownTable shown = ask();
    EXPECT_EQ(shown.total, 5u);
    EXPECT_EQ(lines_of(shown), (std::vector<std::string>{
                                   "udp|10.0.0.2|5000|192.0.2.1|53|0|new|1|442|0|0|0",
                                   "tcp|10.0.0.1|1000|192.0.2.1|443|0|established|2|108|1|54|0",
                                   "udp|2001:db8::9|5001|2001:db8::1|53|0|established|1|62|1|62|0",
                                   "icmp|10.9.0.3|id 7|10.0.0.9|id 7|0|new|1|42|0|0|0",
                                   "gre|10.0.0.4||192.0.2.7||20|new|1|41|0|0|0",
                               }));
}

TEST_F(Shown, AreThoseOfMostBytesPacketsOrTime) {
    EXPECT_EQ(lines_of(ask({}, 1))[0].substr(0, 12), "udp|10.0.0.2");
    EXPECT_EQ(ask({}, 1).total, 5u);
    EXPECT_EQ(ask({}, 0).rows.size(), 0u);
    EXPECT_EQ(lines_of(ask({}, 1, FlowQuery::By::packets))[0].substr(0, 12), "tcp|10.0.0.1");
    runner_.time_ns = 3'000'000'000;
    runner_.run({build_packet(std::string(kTalks[6]))}, {1});
    const std::string longest = lines_of(ask({}, 1, FlowQuery::By::duration))[0];
    EXPECT_EQ(longest.substr(0, 13), "icmp|10.9.0.3");
    EXPECT_EQ(longest.substr(longest.rfind('|')), "|2999");
}

TEST_F(Shown, AreThoseThatMatchAFirewallsWords) {
    EXPECT_EQ(ask("tcp").total, 1u);
    EXPECT_EQ(ask("ip").total, 5u);
    EXPECT_EQ(ask("udp from any to any port 53").total, 2u);
    EXPECT_EQ(ask("ip from 10.0.0.0/16").total, 3u) << "who began it";
    EXPECT_EQ(ask("ip to 10.0.0.0/16").total, 1u);
    EXPECT_EQ(ask("ip from 2001:db8::9").total, 1u);
    EXPECT_EQ(ask("ip state established").total, 2u);
    EXPECT_EQ(ask("ip state new").total, 3u);
}

TEST(FlowQuery, RefusesWordsThatAreNoMatch) {
    for (const char* words :
         {"", "tcpp", "tcp from", "deny tcp", "tcp flags S/SA", "ip priority 3", "ip name x", "# tcp"})
        EXPECT_THROW(FlowQuery{}.read(words), std::runtime_error) << words;
}

/// More flows than are asked for: those with most bytes, by a reference that has all of them.
TEST(ShownOfMany, AreTheFirstOfThem) {
    NfRunner runner("conntrack", "{max-flows: 40k}");
    Rng rng(4);
    std::map<uint32_t, uint64_t> bytes;
    std::vector<Frame> frames;
    for (uint32_t i = 0; i < 20'000; ++i) {
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = 0x0a000000 + static_cast<uint32_t>(rng() % 10'000);
        spec.udp.emplace();
        spec.payload = Frame(rng() % 600);
        frames.push_back(build(spec));
        bytes[spec.ipv4->src] += frames.back().size();
    }
    runner.run(frames, {1});
    std::vector<uint64_t> wanted;
    for (const auto& [source, n] : bytes) wanted.push_back(n);
    std::ranges::sort(wanted, std::greater<>());
    FlowQuery query;
    query.most = 50;
    const ShownTable shown = dynamic_cast<const nf::ShowsFlows&>(runner.nf()).show_flows(query, nullptr);
    EXPECT_EQ(shown.total, bytes.size());
    ASSERT_EQ(shown.rows.size(), 50u);
    for (size_t i = 0; i < 50; ++i) EXPECT_EQ(std::get<uint64_t>(shown.rows[i][8]), wanted[i]);
}

}  // namespace
}  // namespace millrace::test
