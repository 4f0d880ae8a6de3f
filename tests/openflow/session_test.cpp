// Conversations with a controller: known answers, what is told unasked, and bytes that are no messages.
#include "openflow/conversation.hpp"
#include "openflow/flow_messages.hpp"

#include <random>

namespace millrace::test {
namespace {

using flow_switch::Control;

TEST(Session, GreetsByVersionBitmapOrNumber) {
    FakeDatapath datapath;
    Roles roles;
    EXPECT_EQ(to_hex(Session(datapath, roles).output()), "04000010000000010001000800000010");  // 1.3.5, section 7.5.1:
                                                                                               // bit 4
    struct Case {
        const char* hello;
        bool common;
    };
    const Case cases[] = {
        {"0400000800000001", true},
        {"0600000800000001", true},                    // 1.5 without a bitmap: the smaller number is ours
        {"0600001000000001 0001000800000050", true},   // 1.5 and 1.3
        {"0600001000000001 0001000800000040", false},  // 1.5 alone
        {"0100000800000001", false},                   // 1.0
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
        {"features",
         "000000000000002a"
         "00000000"
         "01000000"
         "0000000f"
         "00000000"},
        {"get_config", "00000080"},
        {"queues", "0000000100000000"},
        {"role", "00000002000000000000000000000005"},
        {"get_async", "000000030000000000000007000000070000000f00000000"},
        {"mp_table",
         "0003000000000000"
         "00000000"
         "00000000"
         "0000000000000009"
         "0000000000000007"},
        {"mp_aggregate",
         "0002000000000000"
         "0000000000000000"
         "0000000000000000"
         "00000000"
         "00000000"},
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
    EXPECT_EQ(to_hex(stats.body).substr(16),
              "0000000100000000"
              "000000000000000b"
              "000000000000000d"
              "000000000000000c"
              "000000000000000e"  // packets and bytes
              "000000000000000f"
              "0000000000000010"
              "0000000000000011"
              "0000000000000012"  // drops and errors
              "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
              "ffffffffffffffff");
    const Said ports = with.answer(message("mp_port_desc"));
    ASSERT_EQ(ports.body.size(), 8u + 3 * 64);
    EXPECT_EQ(to_hex(ByteView(ports.body).subspan(8, 64)),
              "00000001"
              "00000000"
              "020000000001"
              "0000"
              "6c616e00000000000000000000000000"
              "00000000"
              "00000004"
              "00000040"
              "00000000"
              "00000040"
              "00000000"
              "00989680"
              "00989680");
    EXPECT_EQ(with.answer(message("mp_port").substr(0, 32) + "0000000900000000").error(), error::bad_port);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(with.answer(message("mp_desc")).body.data() + 8)), "Millrace");
    EXPECT_GT(with.answer(message("mp_table_features")).body.size(), 200u);
    EXPECT_EQ(with.answer(message("mp_group_features")).body.size(), 8u + 40);
}

TEST(Session, EndsWhereNobodyCanTellTheNextMessage) {
    Conversation with;
    with.say("0405000700000001");
    EXPECT_FALSE(with.alive);
    EXPECT_EQ(with.said()[0].error(), error::bad_length);
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
    with.say(
        "040d004e00000001ffffffff000000010010000000000000"
        "00000010fffffffb0000000000000000" +
        frame.substr(0, 76));
    ASSERT_EQ(with.datapath.injected.size(), 3u);
    EXPECT_EQ(with.datapath.injected[2].out_port, kPortSet | 0b110);
    EXPECT_TRUE(with.said().empty());
    const Said back = with.answer(
        "040d004e00000001ffffffff000000020010000000000000"
        "00000010fffffffdffff000000000000" +
        frame.substr(0, 76));
    EXPECT_EQ(back.type, Type::packet_in);
    EXPECT_EQ(to_hex(back.body),
              "ffffffff"
              "0026"
              "01"
              "00"
              "ffffffffffffffff"
              "0001000c80000004"
              "0000000200000000"
              "0000" +
                  frame.substr(0, 76));
}

TEST(Session, TellsOfPacketsRemovedFlowsAndPorts) {
    Conversation with;
    const Bytes frame = from_hex("010203");
    EXPECT_TRUE(with.session.packet_in({frame, 3, PacketInReason::no_match, 0x77}));
    EXPECT_FALSE(with.session.packet_in({frame, 3, PacketInReason::invalid_ttl, 0x77}))
        << "not asked for unless by set-async";
    std::vector<Said> said = with.said();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(to_hex(said[0].body),
              "ffffffff"
              "0003"
              "00"
              "00"
              "0000000000000077"
              "0001000c80000004"
              "0000000300000000"
              "0000"
              "010203");

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
    EXPECT_EQ(to_hex(said[0].body).substr(0, 32),
              "0000000000001122"
              "0064"
              "01"
              "00"
              "00000019");  // hard time-out, after 25 s
    EXPECT_EQ(to_hex(said[0].body).substr(40),
              "000a"
              "0014"
              "0000000000000000"
              "0000000000000000" +
                  message("flow_add").substr(96, 96));

    with.session.port_changed(with.datapath.views[1]);
    said = with.said();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(to_hex(said[0].body).substr(0, 24),
              "0200000000000000"
              "00000002");
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
    with.say(
        "04120038000000010001000000000000ff000000ffffffffffffffff000000000000000000000000000000000000000000010004000000"
        "00");
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
            for (unsigned changes = 1 + random() % 3; changes-- > 0;)
                bytes[random() % bytes.size()] = static_cast<uint8_t>(random() % 4 == 0 ? 0xff : random());
            with.say(bytes);
            with.said();
        }
    }
}

}  // namespace
}  // namespace millrace::test
