// Flows and meters of OpenFlow 1.3 in words: what is read, what is refused and why.
#include <gtest/gtest.h>

#include "millrace/nf/switch/text/flow_parser.hpp"
#include "millrace/nf/switch/text/match_field.hpp"
#include "nf/switch/scratch.hpp"
#include "support/nf_runner.hpp"

namespace millrace {
namespace {

using namespace millrace::test;
using namespace millrace::nf::flow_switch;

TEST(FlowText, OfThePipelineReadsAsItWasWritten) {
    for (const char* text : {
             "table=3,priority=1,metadata=0x12/"
             "0xff,eth_type=0x8847,actions=meter:1,pop_mpls:0x800,clear_actions,write_actions(push_vlan:"
             "0x8100,output:2),write_metadata:0x1/0xff,goto_table:5",
             "priority=1,eth_type=0x8847,mpls_label=7,mpls_tc=3,mpls_bos=1,actions=push_mpls:0x8847,set_field:9->mpls_"
             "label,set_field:1->mpls_tc,set_field:0->mpls_bos,set_mpls_ttl:5,dec_mpls_ttl,copy_ttl_in,copy_ttl_out,"
             "output:2",
             "priority=1,eth_type=0x806,arp_sha=02:00:00:00:00:01/"
             "ff:ff:ff:00:00:00,actions=set_field:1->arp_op,set_field:"
             "10.0.0.1->arp_spa,set_field:02:00:00:00:00:02->arp_tha,output:2",
             "priority=1,eth_type=0x86dd,ip_proto=58,ipv6_label=0x5/0xf,icmpv6_type=135,nd_target=2001:db8::/"
             "32,nd_sll=02:00:"
             "00:00:00:01,actions=set_field:2001:db8::1->nd_target,set_field:02:00:00:00:00:02->nd_sll,output:2",
             "priority=1,eth_type=0x88e7,pbb_isid=7/0xff,actions=set_field:9->pbb_isid,output:2",
             "priority=1,eth_type=0x800,ip_proto=132,sctp_src=1,tun_id=0x7,actions=set_field:9->sctp_dst,set_field:0x8-"
             ">tun_"
             "id,output:2",
         }) {
        SCOPED_TRACE(text);
        std::string wrote;
        ASSERT_NO_THROW(wrote = text_of(parse_flow(text, kSwitchPorts), kSwitchPorts));
        EXPECT_EQ(text_of(parse_flow(wrote, kSwitchPorts), kSwitchPorts), wrote);
        EXPECT_EQ(wrote.size(), std::string(text).size()) << wrote;
    }
}

TEST(FlowText, RefusesWhatThePipelineCannotDo) {
    const auto mistake = [](const std::string& flow) {
        try {
            parse_flow(flow, kSwitchPorts);
        } catch (const nf::classify::WordMistake& found) {
            return found.message;
        }
        return std::string("accepted");
    };
    EXPECT_EQ(mistake("actions=goto_table:0"), "a packet goes to a table with a higher number only");
    EXPECT_EQ(mistake("table=254,actions=drop"), "'254' is not a number from 0 to 253");
    EXPECT_EQ(mistake("mpls_label=1,actions=drop"), "'mpls_label' asks for MPLS, and the flow does not");
    EXPECT_EQ(mistake("icmp6,nd_target=::1,actions=drop"),
              "'nd_target' asks for neighbour discovery, and the flow does not");
    EXPECT_EQ(mistake("ip,actions=dec_mpls_ttl,output:1"),
              "'dec_mpls_ttl' works on MPLS, and the flow may match other packets");
    EXPECT_EQ(mistake("actions=push_mpls:0x800"), "a label is of type 0x8847 or 0x8848");
    EXPECT_EQ(mistake("actions=push_pbb:0x88e7,push_pbb:0x88e7,push_pbb:0x88e7"), "a flow can push 40 bytes at most");
    EXPECT_EQ(mistake("actions=write_actions(output:1,goto_table:1)"),
              "'goto_table' is not an action that the switch has");
    EXPECT_EQ(mistake("mpls,mpls_tc=8,actions=drop"), "'8' is not a number from 0 to 7");
    EXPECT_THROW(parse_meter("meter=0,kbps,band=type=drop,rate=1"), nf::classify::WordMistake);
    EXPECT_THROW(parse_meter("meter=1,kbps,pktps,band=type=drop,rate=1"), nf::classify::WordMistake);
    EXPECT_THROW(parse_meter("meter=1,kbps,band=type=drop"), nf::classify::WordMistake);
    EXPECT_THROW(parse_meter("meter=1,kbps,band=type=dscp_remark,rate=1"), nf::classify::WordMistake);
    EXPECT_THROW(parse_meter("meter=1,kbps,band=type=other,rate=1"), nf::classify::WordMistake);
}

}  // namespace
}  // namespace millrace
