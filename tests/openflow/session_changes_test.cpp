// A controller changes flows and groups: what comes of it, what is refused, and when a barrier is answered.
#include "openflow/conversation.hpp"
#include "openflow/flow_messages.hpp"

namespace millrace::test {
namespace {

using Strings = std::vector<std::string>;

TEST(Session, RefusesFlowsBeyondTheMostAndTellsIt) {
    Conversation with;
    with.datapath.control().set_max_flows(1000);
    const auto add = [](unsigned source) {
        std::ostringstream port;
        port << std::hex << std::setw(4) << std::setfill('0') << source;
        return flow_mod("00010015 80000a020800 8000140111 80001e02" + port.str() + "000000");
    };
    for (unsigned i = 0; i < 1000; ++i) with.say(add(i));
    EXPECT_TRUE(with.said().empty());
    EXPECT_EQ(with.answer(add(1000)).error(), error::flow_table_full);
    with.say(add(7));  // the same flow again takes no room
    EXPECT_TRUE(with.said().empty());
    EXPECT_EQ(with.datapath.control().flow_count(), 1000u);
    const Said features = with.answer(message("mp_table_features"));
    EXPECT_EQ(to_hex(ByteView(features.body).subspan(8 + 60, 4)), "000003e8");
}

TEST(Session, AddsModifiesAndRemovesFlows) {
    Conversation with;
    with.say(message("flow_add"));
    const std::string match = ",in_port=1,eth_type=0x800,ip_proto=6,ip_src=10.0.0.0/255.0.0.0,tcp_dst=80,actions=";
    const std::string head = "priority=100,cookie=0x1122,idle_timeout=10,hard_timeout=20" + match;
    EXPECT_EQ(with.flows(), (Strings{head + "mod_dl_dst:02:00:00:00:00:99,dec_ttl,output:2,controller"}));
    with.say(message("flow_modify"));
    EXPECT_EQ(with.flows(), (Strings{head + "output:1"}));
    with.say(message("flow_vlan") + message("flow_ipv6") + message("flow_arp"));
    EXPECT_EQ(with.flows(), (Strings{head + "output:1",
                                     // Action sets have an order of their own (section 5.10).
                                     "priority=7,eth_dst=02:00:00:00:00:00/"
                                     "ff:00:00:00:00:00,vlan_vid=0x1005,vlan_pcp=3,actions=pop_vlan,push_vlan:0x8100,"
                                     "set_field:4103->vlan_vid,output:1",
                                     "priority=7,eth_type=0x86dd,ip_proto=58,ipv6_dst=2001:db8::/"
                                     "32,icmpv6_type=135,actions=set_field:2001:db8::1->ipv6_src,"
                                     "mod_nw_ttl:9,in_port",
                                     "priority=7,eth_type=0x806,arp_op=1,arp_tpa=10.0.0.1,actions=flood"}));
    EXPECT_TRUE(with.said().empty());
    // What comes back is what was sent: the match, and the instructions behind it.
    const Said stats = with.answer(message("mp_flow").substr(0, 96) +
                                   "0001000a80000a02080600000000"
                                   "0000");
    const std::string got = to_hex(stats.body), sent = message("flow_arp");
    EXPECT_EQ(got.substr(got.size() - (sent.size() - 96)), sent.substr(96));
    with.say(message("flow_delete"));
    EXPECT_TRUE(with.flows().empty());
    const std::vector<Said> removed = with.said();  // one had asked to be told
    ASSERT_EQ(removed.size(), 0u) << "the agent tells, not the session";
    EXPECT_EQ(with.datapath.control().take_removed().size(), 1u);
}

TEST(Session, RefusesWhatItCannotDo) {
    Conversation with;
    const std::string goto_table = "0001000801000000", meter = "0006000800000001";
    const std::pair<std::string, Error> cases[] = {
        {"0505000800000001", error::bad_version},
        {"0406000800000001", error::bad_type},  // a features reply
        {"04ee000800000001", error::bad_type},
        {message("experimenter"), error::bad_experimenter},
        {"0405000c0000000100000000", error::bad_length},
        {"040900080000000100", error::bad_length},
        {"0409000c0000000100010080", error::config_flags},
        {"041d000800000001", error::bad_length},  // a meter-mod
        {"04120010000000010009000000000000", error::bad_length},
        {"04120010000000010003000100000000", error::multipart_overflow},
        {"0412001200000001000c0000000000000000", error::table_features_permission},
        {"04160010000000010000000900000000", error::queue_port},
        {"0418001800000001000000090000000000000000000000 05", error::role_bad},
        {"0411001000000001 0100000000000000", error::table_mod_table},
        {"0411001000000001 0000000000000003", error::table_mod_config},
        {message("port_mod"), error::port_mod_address},
        {message("flow_bad"), error::match_need},
        {flow_mod("0000000400000000"), error::match_type},
        {flow_mod("0001000300000000"), error::match_length},
        {flow_mod("0001000880000004"), error::match_length},
        {flow_mod("0001000c8000000400000001"), error::bad_length},  // without its padding
        {"0414000900000001 00", error::bad_length},
        {flow_mod("0001000c8000000400000009 00000000"), error::match_value},  // no such port
        {flow_mod("0001000c80000404ffffffff00000000"), error::match_length},  // metadata
        {flow_mod("0001000c00000404ffffffff00000000"), error::match_field},   // another class
        {flow_mod("0001000d80000a03080000000000000000"), error::match_length},
        {flow_mod("0001001080000a02080080000a0208000000"), error::match_twice},
        {flow_mod("0001000a80000c0200050000 00000000"), error::match_value},  // a VLAN without the bit that says so
        {flow_mod("0001001480000708020000000001 ff0000000000"
                  "0000000000"),
         error::match_length},
        {flow_mod("00010014800007 0c020000000001ff0000000000"
                  "00000000"),
         error::match_wildcards},
        {flow_mod("000100108000010800010000ffff0000"), error::match_mask},  // masked in_port
        {flow_mod(kAnyMatch, goto_table), error::instruction_unsupported},
        {flow_mod(kAnyMatch, meter), error::instruction_unsupported},
        {flow_mod(kAnyMatch, "00020018000000000000000000000000000000000000 0000"), error::instruction_unsupported},
        {flow_mod(kAnyMatch, "0009000800000000"), error::instruction_unknown},
        {flow_mod(kAnyMatch, "ffff000800000000"), error::instruction_experimenter},
        {flow_mod(kAnyMatch, "0004000700000000"), error::instruction_length},
        {flow_mod(kAnyMatch, "0004001000000000"), error::instruction_length},
        {flow_mod(kAnyMatch, apply("0000001000000009 0000000000000000")), error::action_port},
        {flow_mod(kAnyMatch, apply("00000010fffffff90000000000000000")), error::action_port},  // TABLE, in a flow
        {flow_mod(kAnyMatch, apply("00000008 00000002")), error::action_length},
        {flow_mod(kAnyMatch, apply("0000000c000000020000000000000000")), error::action_length},
        {flow_mod(kAnyMatch, apply("0013000888470000")), error::instruction_unsupported},  // push MPLS, with one table
        {flow_mod(kAnyMatch, apply("ffff000800000001")), error::action_experimenter},
        {flow_mod(kAnyMatch, apply("0016000800000007")), error::action_group},  // no such group
        {flow_mod(kAnyMatch, apply("0019001080000a02080000000000 0000")), error::instruction_unsupported},
        {flow_mod(kAnyMatch, apply("0019001080000004000000010000 0000")), error::action_set_type},  // in_port
        {flow_mod(kAnyMatch, apply("0019001080000605020000000099 0000")), error::action_set_length},
        {flow_mod(kAnyMatch, apply("0019001080000c02000700000000 0000")), {2, 15}},  // a VLAN without the bit that says
                                                                                     // so
        {flow_mod(kAnyMatch, apply("0018000800000000")), {2, 10}},                   // a TTL of what may be no IP
        {flow_mod(kAnyMatch, apply(kOutput2 + kSetEthDst)), {2, 11}},                // a change behind an output
        {flow_mod(kAnyMatch, apply(kOutput2 + kOutput2)), {2, 7}},
        {flow_mod(kAnyMatch, apply("0011000891000000")), {2, 5}},  // a tag of type 0x9100
        {"040f001000000001 0003010000000007", error::group_command},
        {"040f001000000001 0000040000000007", error::group_type},
        {"040f001000000001 0000010 0ffffff01", error::group_invalid},
        {"040f001000000001 0000020000000007", error::group_invalid},  // indirect, without its bucket
        {"040f001000000001 0001010000000007", error::group_unknown},
        {"040f001800000001 0000010000000007 0008000100000000", error::group_bucket},
        {"040f002800000001 0000010000000007 00180001ffffffffffffffff00000000 0016000800000001", error::group_chaining},
        {message("packet_out").substr(0, 16) + "00000005" + message("packet_out").substr(24), error::buffer_unknown},
        {message("packet_out").substr(0, 24) + "00000009" + message("packet_out").substr(32), error::bad_port},
        {"040d001800000001 ffffffff fffffffd 0000 000000000000", error::bad_packet},
        {"040d001800000001 ffffffff fffffffd 0010 000000000000", error::bad_length},
    };
    for (const auto& [hex, wanted] : cases) {
        const std::string plain = with_its_length(hex);
        const Said said = with.answer(plain);
        EXPECT_EQ(said.error(), wanted) << plain;
        ASSERT_TRUE(with.alive) << plain;
        ASSERT_EQ(said.type, Type::error);
        EXPECT_EQ(to_hex(ByteView(said.body).subspan(4)), plain.substr(0, 128)) << "the message's first 64 bytes";
    }
    EXPECT_TRUE(with.flows().empty());
    EXPECT_TRUE(with.datapath.injected.empty());
}

TEST(Session, ChecksOverlapFlagsAndTables) {
    Conversation with;
    with.say(message("flow_arp"));
    const auto mod = [&](const std::string& table_command, const std::string& flags, const std::string& priority) {
        std::string hex = message("flow_arp");
        return hex.replace(48, 4, table_command).replace(60, 4, priority).replace(88, 4, flags);
    };
    EXPECT_EQ(with.answer(mod("0000", "0002", "0007")).error(), error::flow_overlap);
    with.say(mod("0000", "0002", "0008"));
    EXPECT_EQ(with.flows().size(), 2u);
    EXPECT_EQ(with.answer(mod("0000", "8000", "0007")).error(), error::flow_flags);
    EXPECT_EQ(with.answer(mod("0100", "0000", "0007")).error(), error::flow_table_id);
    EXPECT_EQ(with.answer(mod("ff00", "0000", "0007")).error(), error::flow_table_id);
    EXPECT_EQ(with.answer(mod("0005", "0000", "0007")).error(), error::flow_command);
    EXPECT_EQ(with.answer(message("flow_arp").replace(64, 8, "00000003")).error(), error::buffer_unknown);
}

TEST(Session, TellsOfChangesWhoseTablesHaveNoRoom) {
    Conversation with;
    with.say(message("flow_arp"), false);
    EXPECT_EQ(with.flows().size(), 1u);
    with.datapath.control().give_up({}, {});
    with.say(ByteView(), true);
    const std::vector<Said> said = with.said();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].error(), error::flow_table_full);
    EXPECT_EQ(to_hex(ByteView(said[0].body).subspan(4)), message("flow_arp").substr(0, 128));
    EXPECT_TRUE(with.flows().empty());
}

TEST(Session, HoldsBackWhatStandsBehindABarrierUntilAllBeforeIsAtWork) {
    Conversation with;
    with.say(message("flow_arp") + message("barrier") + message("echo"), false);
    EXPECT_TRUE(with.session.iterate());
    EXPECT_TRUE(with.said().empty());
    with.datapath.control().at_work(with.datapath.control().version(), nullptr);
    EXPECT_TRUE(with.session.iterate());
    const std::vector<Said> said = with.said();
    ASSERT_EQ(said.size(), 2u);
    EXPECT_EQ(said[0].type, Type::barrier_reply);
    EXPECT_EQ(said[1].type, Type::echo_reply);
}

TEST(Session, KeepsGroupsWithTheFlowsThatLeadThere) {
    Conversation with;
    with.say(message("group_add"));
    EXPECT_EQ(with.answer(message("group_add")).error(), error::group_exists);
    EXPECT_EQ(to_hex(with.answer(message("mp_group_desc")).body).substr(16),
              "0048010000000007" + message("group_add").substr(32));
    with.say(flow_mod(kAnyMatch, apply("0016000800000007")));
    EXPECT_EQ(with.flows(), (Strings{"priority=7,actions=group:7"}));
    const std::string stats = to_hex(with.answer(message("mp_group")).body);
    EXPECT_EQ(stats.substr(16, 32),
              "004800000000000700000001"
              "00000000");
    with.say(message("group_delete"));
    EXPECT_TRUE(with.flows().empty());
    EXPECT_TRUE(with.said().empty());
}

}  // namespace
}  // namespace millrace::test
