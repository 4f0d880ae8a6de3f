// Conversations with a controller: known answers of every message, errors, and bytes that are no messages.
#include "openflow/conversation.hpp"
#include "openflow/messages.hpp"

#include <random>

namespace millrace::test {
namespace {

using flow_switch::Control;
using Strings = std::vector<std::string>;

std::string message(const std::string& name) { return kMessages.at(name); }

/// A message in hex without blanks, its header's length made right.
std::string with_its_length(const std::string& hex) {
    std::string plain;
    for (const char c : hex)
        if (c != ' ') plain += c;
    std::ostringstream length;
    length << std::hex << std::setw(4) << std::setfill('0') << plain.size() / 2;
    return plain.replace(4, 4, length.str());
}

/// A flow-mod (add, priority 7) of a match and instructions in hex, with the length that they make; blanks are left out.
std::string flow_mod(const std::string& match, const std::string& instructions = "") {
    return with_its_length("040e000000000005" "0000000000000000" "0000000000000000" "0000" "0000" "0000" "0007" "ffffffff" "00000000" "00000000" "0000" "0000" + match +
                           instructions);
}
const std::string kAnyMatch = "0001000400000000";

/// APPLY_ACTIONS with these actions.
std::string apply(const std::string& actions) {
    return with_its_length("00040000" "00000000" + actions);  // the length stands where messages have theirs
}
const std::string kOutput2 = "00000010000000020000000000000000", kSetEthDst = "00190010800006060200000000990000";

TEST(Session, GreetsByVersionBitmapOrNumber) {
    FakeDatapath datapath;
    Roles roles;
    EXPECT_EQ(to_hex(Session(datapath, roles).output()), "04000010000000010001000800000010");  // 1.3.5, section 7.5.1: bit 4
    struct Case {
        const char* hello;
        bool common;
    };
    const Case cases[] = {
        {"0400000800000001", true},
        {"0600000800000001", true},                            // 1.5 without a bitmap: the smaller number is ours
        {"0600001000000001 0001000800000050", true},           // 1.5 and 1.3
        {"0600001000000001 0001000800000040", false},          // 1.5 alone
        {"0100000800000001", false},                           // 1.0
        {"0400001800000001 00770007010203000001000800000010", true},  // an element that nobody knows comes first
    };
    for (const Case& one : cases) {
        Conversation with(false);
        with.say(one.hello);
        const std::vector<Said> said = with.said();
        EXPECT_EQ(with.alive, one.common) << one.hello;
        ASSERT_EQ(said.size(), one.common ? 0u : 1u) << one.hello;
        if (!said.empty()) {
            EXPECT_EQ(said[0].error(), error::hello_incompatible);
        }
    }
    Conversation rude(false);
    rude.say(message("features"));
    EXPECT_FALSE(rude.alive);
    EXPECT_EQ(rude.said()[0].error(), error::hello_incompatible);
}

TEST(Session, AnswersWhatItIsAsked) {
    Conversation with;
    const std::pair<const char*, const char*> cases[] = {
        {"echo", "70696e67"},
        {"features", "000000000000002a" "00000000" "01000000" "0000000f" "00000000"},
        {"get_config", "00000080"},
        {"queues", "0000000100000000"},
        {"role", "00000002000000000000000000000005"},
        {"get_async", "000000030000000000000007000000070000000f00000000"},
        {"mp_table", "0003000000000000" "00000000" "00000000" "0000000000000009" "0000000000000007"},
        {"mp_aggregate", "0002000000000000" "0000000000000000" "0000000000000000" "00000000" "00000000"},
        {"mp_group_desc", "0007000000000000"},
        {"mp_queue", "0005000000000000"},
        {"barrier", ""},
    };
    for (const auto& [name, body] : cases) {
        const Said said = with.answer(message(name));
        EXPECT_EQ(to_hex(said.body), body) << name;
        EXPECT_EQ(said.xid, 1u);
    }
    with.say(message("set_config"));
    with.say(message("set_async"));
    with.say(message("port_mod").replace(32, 12, "020000000001"));  // the port's address
    with.say(message("table_mod"));
    EXPECT_TRUE(with.said().empty());
    EXPECT_EQ(to_hex(with.answer(message("get_async")).body), "000000030000000300000007000000070000000f0000000f");
}

TEST(Session, DescribesPortsAndWhatTheyCounted) {
    Conversation with;
    const Said stats = with.answer(message("mp_port").substr(0, 32) + "0000000100000000");
    EXPECT_EQ(to_hex(stats.body).substr(16), "0000000100000000"
              "000000000000000b" "000000000000000d" "000000000000000c" "000000000000000e"   // packets and bytes
              "000000000000000f" "0000000000000010" "0000000000000011" "0000000000000012"   // drops and errors
              "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" "ffffffffffffffff");
    const Said ports = with.answer(message("mp_port_desc"));
    ASSERT_EQ(ports.body.size(), 8u + 3 * 64);
    EXPECT_EQ(to_hex(ByteView(ports.body).subspan(8, 64)), "00000001" "00000000" "020000000001" "0000" "6c616e00000000000000000000000000"
              "00000000" "00000004" "00000040" "00000000" "00000040" "00000000" "00989680" "00989680");
    EXPECT_EQ(with.answer(message("mp_port").substr(0, 32) + "0000000900000000").error(), error::bad_port);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(with.answer(message("mp_desc")).body.data() + 8)), "Millrace");
    EXPECT_GT(with.answer(message("mp_table_features")).body.size(), 200u);
    EXPECT_EQ(with.answer(message("mp_group_features")).body.size(), 8u + 40);
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
                                     "priority=7,eth_dst=02:00:00:00:00:00/ff:00:00:00:00:00,vlan_vid=0x1005,vlan_pcp=3,actions=pop_vlan,push_vlan:0x8100,"
                                     "set_field:4103->vlan_vid,output:1",
                                     "priority=7,eth_type=0x86dd,ip_proto=58,ipv6_dst=2001:db8::/32,icmpv6_type=135,actions=set_field:2001:db8::1->ipv6_src,"
                                     "mod_nw_ttl:9,in_port",
                                     "priority=7,eth_type=0x806,arp_op=1,arp_tpa=10.0.0.1,actions=output:1,output:2,output:3"}));
    EXPECT_TRUE(with.said().empty());
    // What comes back is what was sent: the match, and the instructions behind it.
    const Said stats = with.answer(message("mp_flow").substr(0, 96) + "0001000a80000a02080600000000" "0000");
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
        {"0406000800000001", error::bad_type},                   // a features reply
        {"04ee000800000001", error::bad_type},
        {message("experimenter"), error::bad_experimenter},
        {"0405000c0000000100000000", error::bad_length},
        {"040900080000000100", error::bad_length},
        {"0409000c0000000100010080", error::config_flags},
        {"041d000800000001", error::bad_type},                   // a meter-mod
        {"04120010000000010009000000000000", error::bad_multipart},
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
        {flow_mod("0001000c8000000400000001"), error::bad_length},              // without its padding
        {"0414000900000001 00", error::bad_length},
        {flow_mod("0001000c8000000400000009 00000000"), error::match_value},              // no such port
        {flow_mod("0001000c80000404ffffffff00000000"), error::match_field},               // metadata
        {flow_mod("0001000c00000404ffffffff00000000"), error::match_field},               // another class
        {flow_mod("0001000d80000a03080000000000000000"), error::match_length},
        {flow_mod("0001001080000a02080080000a0208000000"), error::match_twice},
        {flow_mod("0001000a80000c0200050000 00000000"), error::match_value},              // a VLAN without the bit that says so
        {flow_mod("0001001480000708020000000001 ff0000000000" "0000000000"), error::match_length},
        {flow_mod("00010014800007 0c020000000001ff0000000000" "00000000"), error::match_wildcards},
        {flow_mod("000100108000010800010000ffff0000"), error::match_mask},                // masked in_port
        {flow_mod(kAnyMatch, goto_table), error::instruction_table},
        {flow_mod(kAnyMatch, meter), error::instruction_unsupported},
        {flow_mod(kAnyMatch, "00020018000000000000000000000000000000000000 0000"), error::instruction_metadata},
        {flow_mod(kAnyMatch, "0009000800000000"), error::instruction_unknown},
        {flow_mod(kAnyMatch, "ffff000800000000"), error::instruction_experimenter},
        {flow_mod(kAnyMatch, "0004000700000000"), error::instruction_length},
        {flow_mod(kAnyMatch, "0004001000000000"), error::instruction_length},
        {flow_mod(kAnyMatch, apply("0000001000000009 0000000000000000")), error::action_port},
        {flow_mod(kAnyMatch, apply("00000010fffffff90000000000000000")), error::action_port},  // TABLE, in a flow
        {flow_mod(kAnyMatch, apply("00000008 00000002")), error::action_length},
        {flow_mod(kAnyMatch, apply("0000000c000000020000000000000000")), error::action_length},
        {flow_mod(kAnyMatch, apply("0013000888470000")), error::action_type},                  // push MPLS
        {flow_mod(kAnyMatch, apply("ffff000800000001")), error::action_experimenter},
        {flow_mod(kAnyMatch, apply("0016000800000007")), error::action_group},                 // no such group
        {flow_mod(kAnyMatch, apply("0019001080000a02080000000000 0000")), error::action_set_type},  // eth_type cannot be set
        {flow_mod(kAnyMatch, apply("0019001080000605020000000099 0000")), error::action_set_length},
        {flow_mod(kAnyMatch, apply("0019001080000c02000700000000 0000")), {2, 15}},            // a VLAN without the bit that says so
        {flow_mod(kAnyMatch, apply("0018000800000000")), {2, 10}},                             // a TTL of what may be no IP
        {flow_mod(kAnyMatch, apply(kOutput2 + kSetEthDst)), {2, 11}},                          // a change behind an output
        {flow_mod(kAnyMatch, apply(kOutput2 + kOutput2)), {2, 7}},
        {flow_mod(kAnyMatch, apply("0011000891000000")), {2, 5}},                              // a tag of type 0x9100
        {"040f001000000001 0003010000000007", error::group_command},
        {"040f001000000001 0000000000000007", error::group_type},                              // all
        {"040f001000000001 0000030000000007", error::group_type},                              // fast failover
        {"040f001000000001 0000010 0ffffff01", error::group_invalid},
        {"040f001000000001 0000020000000007", error::group_invalid},                           // indirect, without its bucket
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

TEST(Session, EndsWhereNobodyCanTellTheNextMessage) {
    Conversation with;
    with.say("0405000700000001");
    EXPECT_FALSE(with.alive);
    EXPECT_EQ(with.said()[0].error(), error::bad_length);
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
    EXPECT_TRUE(with.session.turn());
    EXPECT_TRUE(with.said().empty());
    with.datapath.control().at_work(with.datapath.control().version(), nullptr);
    EXPECT_TRUE(with.session.turn());
    const std::vector<Said> said = with.said();
    ASSERT_EQ(said.size(), 2u);
    EXPECT_EQ(said[0].type, Type::barrier_reply);
    EXPECT_EQ(said[1].type, Type::echo_reply);
}

TEST(Session, SendsPacketsOfTheControllerByPortsAndThroughTheChain) {
    Conversation with;
    with.say(message("packet_out"));
    ASSERT_EQ(with.datapath.injected.size(), 1u);
    const auto& sent = with.datapath.injected[0];
    const std::string frame = message("packet_table").substr(80);
    EXPECT_EQ(to_hex(sent.frame), frame.substr(0, 12) + "020000000077" + frame.substr(24));
    EXPECT_EQ(sent.in_port, kNoPort);
    EXPECT_EQ(sent.out_port, 1);
    with.say(message("packet_table"));
    ASSERT_EQ(with.datapath.injected.size(), 2u);
    EXPECT_EQ(to_hex(with.datapath.injected[1].frame), frame);
    EXPECT_EQ(with.datapath.injected[1].in_port, 0);
    EXPECT_EQ(with.datapath.injected[1].out_port, kNoPort);
    // FLOOD leaves out the port of ingress; CONTROLLER sends the packet back as a packet-in.
    with.say("040d004e00000001ffffffff000000010010000000000000" "00000010fffffffb0000000000000000" + frame.substr(0, 76));
    ASSERT_EQ(with.datapath.injected.size(), 3u);
    EXPECT_EQ(with.datapath.injected[2].out_port, kPortSet | 0b110);
    EXPECT_TRUE(with.said().empty());
    const Said back = with.answer("040d004e00000001ffffffff000000020010000000000000" "00000010fffffffdffff000000000000" + frame.substr(0, 76));
    EXPECT_EQ(back.type, Type::packet_in);
    EXPECT_EQ(to_hex(back.body), "ffffffff" "0026" "01" "00" "ffffffffffffffff" "0001000c80000004" "0000000200000000" "0000" + frame.substr(0, 76));
}

TEST(Session, TellsOfPacketsRemovedFlowsAndPorts) {
    Conversation with;
    const Bytes frame = from_hex("010203");
    EXPECT_TRUE(with.session.packet_in({frame, 3, PacketInReason::no_match, 0x77}));
    EXPECT_FALSE(with.session.packet_in({frame, 3, PacketInReason::invalid_ttl, 0x77})) << "not asked for unless by set-async";
    std::vector<Said> said = with.said();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(to_hex(said[0].body), "ffffffff" "0003" "00" "00" "0000000000000077" "0001000c80000004" "0000000300000000" "0000" "010203");

    // A hard time-out of 20 s, which the flow's controller hears of.
    with.say(message("flow_add"));
    Control& control = with.datapath.control();
    control.at_work(control.version(), nullptr, Control::Clock::now() + std::chrono::seconds(25));
    EXPECT_TRUE(with.flows().empty());
    EXPECT_TRUE(control.take_removed().empty()) << "the generation without it is not at work yet";
    control.at_work(control.version(), nullptr);
    for (const auto& removed : control.take_removed()) with.session.flow_removed(removed);
    said = with.said();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(to_hex(said[0].body).substr(0, 32), "0000000000001122" "0064" "01" "00" "00000019");  // hard time-out, after 25 s
    EXPECT_EQ(to_hex(said[0].body).substr(40), "000a" "0014" "0000000000000000" "0000000000000000" + message("flow_add").substr(96, 96));

    with.session.port_changed(with.datapath.views[1]);
    said = with.said();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(to_hex(said[0].body).substr(0, 24), "0200000000000000" "00000002");
}

TEST(Session, KeepsGroupsWithTheFlowsThatLeadThere) {
    Conversation with;
    with.say(message("group_add"));
    EXPECT_EQ(with.answer(message("group_add")).error(), error::group_exists);
    EXPECT_EQ(to_hex(with.answer(message("mp_group_desc")).body).substr(16), "0048010000000007" + message("group_add").substr(32));
    with.say(flow_mod(kAnyMatch, apply("0016000800000007")));
    EXPECT_EQ(with.flows(), (Strings{"priority=7,actions=group:7"}));
    const std::string stats = to_hex(with.answer(message("mp_group")).body);
    EXPECT_EQ(stats.substr(16, 32), "004800000000000700000001" "00000000");
    with.say(message("group_delete"));
    EXPECT_TRUE(with.flows().empty());
    EXPECT_TRUE(with.said().empty());
}

TEST(Session, LetsOneControllerBeTheMaster) {
    Conversation with;
    Session other(with.datapath, with.roles);
    other.receive(from_hex("0400000800000001"));
    EXPECT_EQ(with.answer(message("role")).number(2, 2), 2);
    other.output().clear();
    other.receive(from_hex("041800180000000100000002000000000000000000000006"));
    EXPECT_EQ(to_hex(other.output()), "041900180000000100000002000000000000000000000006");
    EXPECT_EQ(with.answer(message("flow_arp")).error(), error::is_slave);
    EXPECT_EQ(with.answer(message("packet_out")).error(), error::is_slave);
    EXPECT_FALSE(with.session.packet_in({{}, 1, PacketInReason::action, 0}));
    EXPECT_EQ(with.answer(message("role")).error(), error::role_stale);
    EXPECT_EQ(with.answer("041800180000000100000001000000000000000000000000").number(2, 2), 1);  // equal
    with.say(message("flow_arp"));
    EXPECT_EQ(with.flows().size(), 1u);
}

TEST(Session, CutsLongAnswersBetweenEntries) {
    Conversation with;
    constexpr unsigned kFlows = 3000;
    for (unsigned i = 0; i < kFlows; ++i) {
        std::ostringstream address;
        address << std::hex << std::setw(8) << std::setfill('0') << i;
        with.session.receive(from_hex(message("flow_arp").replace(136, 8, address.str())));
    }
    with.say(ByteView());
    with.say("04120038000000010001000000000000ff000000ffffffffffffffff00000000000000000000000000000000000000000001000400000000");
    const std::vector<Said> said = with.said();
    ASSERT_GT(said.size(), 3u);
    size_t flows = 0;
    for (size_t i = 0; i < said.size(); ++i) {
        EXPECT_EQ(said[i].number(2, 2), i + 1 < said.size() ? 1 : 0) << "more follows";
        for (size_t at = 8; at < said[i].body.size(); ++flows) at += said[i].number(at, 2);
    }
    EXPECT_EQ(flows, kFlows);
}

TEST(Session, TakesNoMessageThatIsCutAnywhere) {
    for (const auto& [name, hex] : kMessages) {
        const Bytes whole = from_hex(hex);
        for (size_t length = 0; length < whole.size(); ++length) {
            // As if more were to come: nothing is said.
            Conversation waiting;
            waiting.say(ByteView(whole).first(length));
            EXPECT_TRUE(waiting.alive && waiting.said().empty()) << name << " " << length;
            if (length < kHeaderBytes) continue;
            // As if that were all: an error, or a message of its own right, but nothing of it is lost.
            Conversation cut;
            Bytes bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
            bytes[2] = static_cast<uint8_t>(length >> 8);
            bytes[3] = static_cast<uint8_t>(length);
            cut.say(bytes);
            cut.said();
            if (name == "hello") continue;
            EXPECT_TRUE(cut.alive) << name << " " << length;
            EXPECT_EQ(to_hex(cut.answer(message("echo")).body), "70696e67") << name << " " << length;
        }
    }
}

TEST(Session, SurvivesMessagesWithAnyByteChanged) {
    std::mt19937 random(1);
    for (const auto& [name, hex] : kMessages) {
        for (unsigned i = 0; i < 3000; ++i) {
            Conversation with;
            with.say(message("group_add"));
            Bytes bytes = from_hex(hex);
            for (unsigned changes = 1 + random() % 3; changes-- > 0;) bytes[random() % bytes.size()] = static_cast<uint8_t>(random() % 4 == 0 ? 0xff : random());
            with.say(bytes);
            with.said();
        }
    }
}

}  // namespace
}  // namespace millrace::test
