// What a controller asks of tables, meters and groups beyond the first table; the messages are os-ken's.
#include "openflow/conversation.hpp"
#include "millrace/nf/switch/text/flow_parser.hpp"
#include "millrace/openflow/wire/actions.hpp"
#include "openflow/pipeline_messages.hpp"

namespace millrace::test {
namespace {

using Strings = std::vector<std::string>;

std::string pipeline_message(const std::string& name) { return kPipelineMessages.at(name); }

class SessionPipeline : public testing::Test {
protected:
    Error error_of(const std::string& name) { return with.answer(pipeline_message(name)).error(); }
    /// Says it, and expects no answer.
    void say(const std::string& name) {
        with.say(pipeline_message(name));
        for (const Said& said : with.said())
            ADD_FAILURE() << name << ": error " << said.error().type << ", " << said.error().code;
    }

    Conversation with{true, true};
};

TEST_F(SessionPipeline, AddsFlowsWithAllInstructionsAndGivesThemBackAsTheyCame) {
    say("meter_add");
    say("flow_pipeline");
    EXPECT_EQ(with.flows(),
              (Strings{"table=3,priority=7,metadata=0x10/0xf0,eth_type=0x8847,mpls_label=100,actions=meter:1,pop_mpls:"
                       "0x800,set_field:10.0.0.9->ip_dst,clear_actions,write_actions(push_vlan:0x8100,output:2),write_"
                       "metadata:0x1/0xff,goto_table:9"}));
    const Said stats = with.answer(pipeline_message("mp_flow_3"));
    const std::string got = to_hex(stats.body), sent = pipeline_message("flow_pipeline");
    EXPECT_EQ(got.substr(got.size() - (sent.size() - 96)), sent.substr(96));
    EXPECT_EQ(got.substr(20, 2), "03");  // its table
}

TEST_F(SessionPipeline, WritesInstructionsOfFilesThatReadTheSame) {
    const flow_switch::PortNumbers ports({"lan", "wan", "dmz"});
    for (const char* text :
         {"table=3,mpls,actions=meter:1,pop_mpls:0x0800,clear_actions,write_actions(set_field:9->ip_dscp,output:2),"
          "write_metadata:1/0xff,goto_table:9",
          "mpls,actions=set_mpls_ttl:7,dec_mpls_ttl,copy_ttl_in,copy_ttl_out,set_mpls_label:5,push_mpls:0x8847,output:"
          "2",
          "dl_type=0x88e7,actions=set_field:7->pbb_isid,push_pbb:0x88e7,pop_pbb,output:2",
          "arp,actions=set_field:2->arp_op,set_field:1.2.3.4->arp_tpa,set_field:02:00:00:00:00:01->arp_sha,output:2",
          "icmp6,icmpv6_type=135,actions=set_field:2001:db8::1->nd_target,set_field:02:00:00:00:00:01->nd_sll,output:2",
          "sctp,actions=set_field:7->sctp_src,set_tunnel:9,output:2",
          "ipv6,actions=set_field:7->ipv6_label,set_field:59->ip_proto,output:2",
          "icmp,actions=set_field:0->icmp_type,set_field:1->icmp_code,output:2"}) {
        flow_switch::Flow flow = nf::flow_switch::parse_flow(text, ports);
        Bytes bytes;
        Writer writer(bytes);
        write_match(writer, flow.match, ports);
        Reader reader(bytes, error::match_length);
        EXPECT_EQ(to_hex(bytes).substr(0, 4), "0001") << text;
        flow_switch::Flow again = flow;
        again.match = read_match(reader, ports);
        again.set_table(flow.table());
        EXPECT_EQ(identity_of(again), identity_of(flow)) << text;
        bytes.clear();
        write_instructions(writer, flow, ports);
        EXPECT_EQ(read_instructions(bytes, flow.table(), flow.match, ports), flow.actions) << text;
    }
}

TEST_F(SessionPipeline, RemovesFlowsOfOneTableOrOfAll) {
    for (unsigned i = 0; i < 2; ++i) {
        say("flow_any_table");
        say("flow_nd");
        EXPECT_EQ(with.flows().size(), 2u);
        say(i == 0 ? "flow_delete_3" : "flow_delete_strict_all");
        EXPECT_EQ(with.flows(),
                  (Strings{"priority=7,eth_type=0x86dd,ip_proto=58,icmpv6_type=135,nd_target=2001:db8::1,nd_"
                           "sll=02:00:00:00:00:01,actions=set_field:02:00:00:00:00:02->nd_sll,output:2"}));
    }
    say("flow_delete_all");
    EXPECT_TRUE(with.flows().empty());
}

TEST_F(SessionPipeline, RefusesFlowsByTheirFault) {
    EXPECT_EQ(error_of("flow_pipeline"), error::meter_invalid);  // there is none
    EXPECT_EQ(error_of("flow_back"), error::instruction_table);
    EXPECT_EQ(error_of("flow_table_254"), error::flow_table_id);
    EXPECT_EQ(error_of("flow_nd_alone"), error::match_need);
    EXPECT_EQ(error_of("flow_mpls_ip"), (Error{2, 10}));  // OFPBAC_MATCH_INCONSISTENT
    EXPECT_TRUE(with.flows().empty());
}

TEST_F(SessionPipeline, KeepsMetersAndTellsOfThem) {
    say("meter_add");
    EXPECT_EQ(error_of("meter_add"), error::meter_exists);
    EXPECT_EQ(to_hex(with.answer(pipeline_message("mp_meter_config")).body).substr(16),
              "001800050000000100010010000003e80000006400000000");
    say("meter_modify");
    EXPECT_EQ(with.datapath.control().meters().at(0).bands.size(), 2u);
    const std::string stats = to_hex(with.answer(pipeline_message("mp_meter")).body);
    EXPECT_EQ(stats.size(), 2u * (8 + 40 + 2 * 16));
    EXPECT_EQ(error_of("mp_meter_7"), error::meter_unknown);
    EXPECT_EQ(to_hex(with.answer(pipeline_message("mp_meter_features")).body).substr(16),
              "00000400"
              "00000006"
              "0000000f"
              "10ff0000");
    say("flow_delete_all");
    say("flow_pipeline");
    say("meter_delete");
    EXPECT_TRUE(with.flows().empty()) << "flows go with their meter";
    EXPECT_EQ(error_of("meter_modify"), error::meter_unknown);
    say("meter_add");
    say("meter_delete_all");
    EXPECT_TRUE(with.datapath.control().meters().empty());
    EXPECT_EQ(error_of("meter_bad_flags"), error::meter_flags);
    EXPECT_EQ(error_of("meter_no_rate"), error::meter_rate);
    EXPECT_EQ(error_of("meter_zero"), error::meter_invalid);
    EXPECT_EQ(error_of("meter_command"), error::meter_command);
    EXPECT_EQ(error_of("meter_no_precedence"), error::meter_band);
}

TEST_F(SessionPipeline, HasGroupsOfEveryType) {
    say("group_all");
    EXPECT_EQ(error_of("group_all_differs"), error::action_unsupported_order);
    say("group_ff");
    EXPECT_EQ(error_of("group_ff_blind"), error::group_watch);
    const std::string described = to_hex(with.answer(pipeline_message("mp_group_desc")).body);
    EXPECT_EQ(described.substr(16 + 4, 2), "00");
    EXPECT_NE(described.find("030000000009"), std::string::npos);
    EXPECT_TRUE(with.datapath.control().watches_links());
}

TEST_F(SessionPipeline, RefusesMessagesThatAreCutOff) {
    for (const auto& [name, hex] : kPipelineMessages) {
        for (size_t bytes = 8; bytes < hex.size() / 2; bytes += 4) {
            std::string cut = hex.substr(0, 2 * bytes);
            std::ostringstream length;
            length << std::hex << std::setw(4) << std::setfill('0') << bytes;
            with.say(cut.replace(4, 4, length.str()));
            for (const Said& said : with.said()) EXPECT_LE(static_cast<int>(said.type), 29) << name;
            ASSERT_TRUE(with.alive) << name << " at " << bytes;
        }
    }
}

TEST_F(SessionPipeline, LeavesTheseOutWhereTheSwitchHasOneTable) {
    Conversation plain;
    EXPECT_EQ(plain.answer(pipeline_message("flow_any_table")).error(), error::flow_table_id);
    EXPECT_EQ(plain.answer(pipeline_message("meter_add")).error(), error::meter_invalid);
    EXPECT_EQ(plain.answer(pipeline_message("flow_nd")).error(), error::instruction_unsupported);
    plain.say(pipeline_message("group_all"));
    EXPECT_TRUE(plain.said().empty());
}

}  // namespace
}  // namespace millrace::test
