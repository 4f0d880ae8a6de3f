// The mappings that NAT64 shows.
#include <gtest/gtest.h>

#include "millrace/nf/flow_query.hpp"
#include "support/nf_runner.hpp"
#include "support/shown_lines.hpp"

namespace millrace::test {
namespace {

constexpr const char* kTalks[] = {
    R"({ipv6: {src: "2001:db8::1", dst: "64:ff9b::192.0.2.1"}, tcp: {src: 5000, dst: 443, flags: S}})",
    "{ipv4: {src: 192.0.2.1, dst: 198.51.100.1}, tcp: {src: 443, dst: 1032, flags: SA}}",
    R"({ipv6: {src: "2001:db8::1", dst: "64:ff9b::192.0.2.1"}, tcp: {src: 5000, dst: 443, flags: A}})",
    R"({ipv6: {src: "2001:db8::2", dst: "64:ff9b::192.0.2.1"}, udp: {src: 5000, dst: 53}, payload: "question"})",
    R"({ipv6: {src: "2001:db8::3", dst: "64:ff9b::192.0.2.7"}, icmpv6: {type: 128, rest: 0x00070001}})",
};

class ShownMappings : public testing::Test {
protected:
    ShownMappings() {
        std::vector<Frame> frames;
        for (const char* talk : kTalks) frames.push_back(build_packet(std::string(talk)));
        runner_.run(frames, {1});
    }
    std::vector<std::string> ask(const std::string& words = {}) {
        nf::FlowQuery query;
        query.most = 100;
        if (!words.empty()) query.read(words);
        return lines_of(dynamic_cast<const nf::ShowsFlows&>(runner_.nf()).show_flows(query, nullptr));
    }
    NfRunner runner_{"nat64", "{pool: 198.51.100.1, ports: 1024-1087}"};
};

/// Bytes are those of frames as they came: of IPv6 from inside, of IPv4 back.
TEST_F(ShownMappings, HaveBothEndpointsAndWhatTheyCounted) {
    EXPECT_EQ(ask(), (std::vector<std::string>{
                         "tcp|2001:db8::1|5000|198.51.100.1|1032|192.0.2.1|443|open|2|148|1|54|0",
                         "udp|2001:db8::2|5000|198.51.100.1|1032|192.0.2.1|53|new|1|70|0|0|0",
                         "icmp|2001:db8::3|id 7|198.51.100.1|id 1031|192.0.2.7||new|1|62|0|0|0",
                     }));
}

TEST_F(ShownMappings, AreAskedForByWhatThoseInsideSee) {
    EXPECT_EQ(ask("tcp from 2001:db8::1 to 64:ff9b::/96 port 443").size(), 1u);
    EXPECT_EQ(ask("udp from 2001:db8::/64 to 64:ff9b::c000:201 port 53").size(), 1u);
    EXPECT_EQ(ask("icmpv6 from any to any").size(), 1u);
    EXPECT_TRUE(ask("tcp from 2001:db8::1 to 64:ff9b::c000:202").empty());
    EXPECT_TRUE(ask("tcp from 10.0.0.0/8 to any").empty());
}

}  // namespace
}  // namespace millrace::test
