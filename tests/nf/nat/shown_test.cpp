// The mappings that NAT shows: which, in what order, and what they have counted.
#include <gtest/gtest.h>

#include "millrace/nf/flow_query.hpp"
#include "support/nf_runner.hpp"
#include "support/shown_lines.hpp"

namespace millrace::test {
namespace {

using nf::FlowQuery;
using nf::ShownTable;

constexpr const char* kTalks[] = {
    "{ipv4: {src: 10.0.0.1, dst: 192.0.2.1}, tcp: {src: 5000, dst: 443, flags: S}}",
    "{ipv4: {src: 192.0.2.1, dst: 198.51.100.1}, tcp: {src: 443, dst: 1032, flags: SA}}",
    "{ipv4: {src: 10.0.0.1, dst: 192.0.2.1}, tcp: {src: 5000, dst: 443, flags: A}}",
    "{ipv4: {src: 10.0.0.2, dst: 192.0.2.1}, udp: {src: 5000, dst: 53}, payload: {repeat: a, count: 400}}",
    "{ipv4: {src: 10.0.0.3, dst: 192.0.2.7}, icmp: {type: 8, rest: 0x00070001}}",
    "{ipv4: {src: 192.0.2.7, dst: 198.51.100.1}, icmp: {type: 0, rest: 0x04070001}}",
    "{ipv4: {src: 10.0.0.4, dst: 192.0.2.7}, tcp: {src: 5001, dst: 80, flags: S}}",
    "{ipv4: {src: 192.0.2.7, dst: 198.51.100.1}, tcp: {src: 80, dst: 1033, flags: RA}}",
};

class ShownMappings : public testing::Test {
protected:
    ShownMappings() {
        std::vector<Frame> frames;
        for (const char* talk : kTalks) frames.push_back(build_packet(std::string(talk)));
        runner_.run(frames, {1});
    }
    std::vector<std::string> ask(const std::string& words = {}, size_t most = 100,
                                 FlowQuery::By by = FlowQuery::By::bytes) {
        FlowQuery query;
        query.most = most;
        query.by = by;
        if (!words.empty()) query.read(words);
        const ShownTable shown = dynamic_cast<const nf::ShowsFlows&>(runner_.nf()).show_flows(query, nullptr);
        total_ = shown.total;
        return lines_of(shown);
    }
    NfRunner runner_{"nat",
                     "{inside: 10.0.0.0/24, pool: 198.51.100.1, ports: 1024-1087, timeouts: {udp: 10us, "
                     "tcp-transitory: 1s}}"};
    uint64_t total_ = 0;
};

TEST_F(ShownMappings, HaveBothEndpointsAndWhatTheyCounted) {
    EXPECT_EQ(ask(), (std::vector<std::string>{
                         "udp|10.0.0.2|5000|198.51.100.1|1032|192.0.2.1|53|new|1|442|0|0|0",
                         "tcp|10.0.0.1|5000|198.51.100.1|1032|192.0.2.1|443|open|2|108|1|54|0",
                         "tcp|10.0.0.4|5001|198.51.100.1|1033|192.0.2.7|80|over|1|54|1|54|0",
                         "icmp|10.0.0.3|id 7|198.51.100.1|id 1031|192.0.2.7||answered|1|42|1|42|0",
                     }));
    EXPECT_EQ(total_, 4u);
}

TEST_F(ShownMappings, AreThoseThatAreAskedForAndNoMore) {
    EXPECT_EQ(ask("tcp").size(), 2u);
    EXPECT_EQ(ask("tcp from 10.0.0.4 to any port 80").size(), 1u);
    EXPECT_EQ(ask("ip state new").size(), 2u) << "who was refused has no connection";
    EXPECT_EQ(ask("ip state established").size(), 2u);
    EXPECT_EQ(ask("udp to any port 54").size(), 0u);
    const auto first = ask({}, 1, FlowQuery::By::packets);
    ASSERT_EQ(first.size(), 1u);
    EXPECT_TRUE(first[0].starts_with("tcp|10.0.0.1|"));
    EXPECT_EQ(total_, 4u);
    EXPECT_TRUE(ask({}, 0).empty());
}

/// By the time of the last packet: nobody sweeps within a group.
TEST_F(ShownMappings, AreGoneWhenTheyHaveTimedOut) {
    const std::vector<Frame> later(100, build_packet(std::string(kTalks[2])));
    runner_.run(later, {1});
    EXPECT_TRUE(ask("udp").empty());
    EXPECT_EQ(ask().size(), 3u);
}

}  // namespace
}  // namespace millrace::test
