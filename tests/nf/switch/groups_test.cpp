// Groups of the switch: which bucket a packet gets, and groups that are wrong.
#include <gtest/gtest.h>

#include <map>

#include "nf/switch/scratch.hpp"
#include "support/nf_runner.hpp"

namespace millrace {
namespace {

using namespace millrace::test;

TEST(Switch, SpreadsAGroupByWeightAndKeepsAFlowOnItsBucket) {
    const std::string groups = scratch_file("groups",
                                            "# two "
                                            "ways\ngroup_id=7,type=select,bucket=weight:3,actions=mod_dl_dst:02:00:00:"
                                            "00:00:07,output:2,bucket=weight:1,output:3\n");
    NfRunner runner("switch", "{groups: " + groups + ", flows: ['ip,actions=dec_ttl,group:7']}");
    std::vector<Frame> frames;
    for (int flow = 0; flow < 400; ++flow)
        for (int i = 0; i < 2; ++i)
            frames.push_back(build_packet("{ipv4: {src: 10.0." + std::to_string(flow / 100) + "." +
                                          std::to_string(flow % 100) + "}, udp: {src: 5, dst: 6}}"));
    const auto result = runner.run(frames, {8});
    std::map<uint16_t, int> ports;
    for (size_t i = 0; i < frames.size(); i += 2) {
        EXPECT_EQ(result.out_ports[i], result.out_ports[i + 1]);
        ++ports[result.out_ports[i]];
        EXPECT_EQ(result.frames[i][5], result.out_ports[i] == 1 ? 7 : frames[i][5]);
        EXPECT_EQ(result.frames[i][22], 63);  // TTL
    }
    EXPECT_EQ(ports.size(), 2u);
    EXPECT_NEAR(ports[1], 300, 40);
    check_halves_agree("switch", "{groups: " + groups + ", flows: ['ip,actions=dec_ttl,group:7']}", frames);
}

TEST(Switch, SpreadsAGroupOverPacketsThatAreNotIpByTheirAddressesTypeAndVlan) {
    // A thousand hosts that ask by ARP, as many in a VLAN each, and as many types of Ethernet.
    const std::string groups = scratch_file(
        "groups", "group_id=7,type=select,bucket=weight:3,output:2,bucket=weight:1,output:3\n");
    const std::string options = "{groups: " + groups + ", flows: ['actions=group:7']}";
    NfRunner runner("switch", options);
    const auto frame_of = [](int what, unsigned i) {
        Frame frame(60);
        std::fill_n(frame.begin(), 6, uint8_t{0xff});
        frame[6] = 2;
        size_t type = 12;
        if (what == 0) store_be16(frame.data() + 10, static_cast<uint16_t>(i));
        if (what == 1) {
            store_be16(frame.data() + 12, 0x8100);
            store_be16(frame.data() + 14, static_cast<uint16_t>(i + 1));
            type = 16;
        }
        store_be16(frame.data() + type, static_cast<uint16_t>(what == 2 ? 0x9100 + i : 0x0806));
        return frame;
    };
    for (int what = 0; what < 3; ++what) {
        std::vector<Frame> frames;
        for (unsigned i = 0; i < 1000; ++i)
            for (unsigned again = 0; again < 2; ++again) frames.push_back(frame_of(what, i));
        const auto result = runner.run(frames, {8});
        std::map<uint16_t, int> ports;
        for (size_t i = 0; i < frames.size(); i += 2) {
            EXPECT_EQ(result.out_ports[i], result.out_ports[i + 1]) << "two packets of one host";
            ++ports[result.out_ports[i]];
        }
        EXPECT_NEAR(ports[1], 750, 60) << what;
        EXPECT_NEAR(ports[2], 250, 60) << what;
        check_halves_agree("switch", options, frames);
    }
}

TEST(Switch, SharesAThousandBucketsOutByWeight) {
    std::string group = "group_id=1,type=select";
    for (int i = 0; i < 1000; ++i)
        group += ",bucket=weight:" + std::to_string(i % 4) + ",mod_dl_dst:02:00:00:00:" + (i < 500 ? "00" : "01") +
                 ":0" + std::to_string(i % 4) + ",output:2";
    NfRunner runner("switch", "{groups: " + scratch_file("groups", group + "\n") + ", flows: ['actions=group:1']}");
    std::vector<Frame> frames;
    for (int i = 0; i < 6000; ++i)
        frames.push_back(build_packet("{ipv4: {src: 10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250) +
                                      "}, udp: {src: 5, dst: 6}}"));
    const auto result = runner.run(frames, {1});
    std::map<unsigned, int> by_weight;
    for (const Frame& frame : result.frames) ++by_weight[frame[5]];
    EXPECT_EQ(by_weight[0], 0);
    for (const unsigned weight : {1u, 2u, 3u})
        EXPECT_NEAR(by_weight[weight], 1000 * static_cast<int>(weight), 130) << weight;
}

TEST(Switch, SaysWhereAGroupIsWrong) {
    struct Case {
        const char* group;
        const char* mistake;
    };
    const Case cases[] = {
        {"type=select,bucket=output:1", "1:1: the group has no number"},
        {"group_id=1,type=any,bucket=output:1", "1:17: groups of type 'any' are not understood"},
        {"group_id=1,type=select", "1:23: the group has no bucket with a weight"},
        {"group_id=1,type=indirect,bucket=output:1,bucket=output:2", "1:1: a group of type indirect has one bucket"},
        {"group_id=1,type=select,bucket=weight:5000,output:1", "1:38: '5000' is not a number from 0 to 4096"},
        {"group_id=1,type=select,bucket=weight", "1:31: 'weight' is not an action that the switch has"},
        {"group_id=1,type=select,bucket=group:2", "1:31: a bucket cannot lead to a group"},
        {"group_id=1,bucket=output:1\ngroup_id=1,bucket=output:2", "2:1: there are two groups 1"},
        {"group_id=1,colour=red,bucket=output:1", "1:12: 'colour' is not a word of a group"},
    };
    for (const Case& wrong : cases)
        EXPECT_EQ(text_of(refusal_of("groups: " + scratch_file("wrong.groups", wrong.group))), wrong.mistake)
            << wrong.group;
}

}  // namespace
}  // namespace millrace
