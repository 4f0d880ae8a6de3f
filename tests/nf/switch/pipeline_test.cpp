// The switch with all of OpenFlow 1.3: golden packets, all device halves alike, tables, groups, meters.
#include <gtest/gtest.h>

#include <set>

#include "millrace/nf/changeable.hpp"
#include "millrace/nf/switch/control/control.hpp"
#include "millrace/nf/switch/text/match_field.hpp"
#include "millrace/nf/switch/pipeline.hpp"
#include "millrace/nf/variant.hpp"
#include "millrace/nf/switch/text/flow_parser.hpp"
#include "nf/switch/scratch.hpp"
#include "support/data.hpp"
#include "support/golden.hpp"
#include "support/packet_arena.hpp"

namespace millrace {
namespace {

using namespace millrace::test;
using namespace millrace::nf::flow_switch;
using std::chrono::milliseconds;

TEST(Pipeline, GivesTheGoldenAnswers) { run_golden_file("switch", source_path("tests/nf/switch/pipeline.yaml")); }

/// Flows of four tables, each of which leads on or sends, with fields and actions that a packet may have or not.
std::string random_tables(Rng& rng, size_t count) {
    const auto pick = [&](std::initializer_list<const char*> words) {
        return std::string(words.begin()[rng() % words.size()]);
    };
    std::string text;
    for (size_t i = 0; i < count; ++i) {
        const unsigned table = static_cast<unsigned>(rng() % 4);
        text += "table=" + std::to_string(table) + ",priority=" + std::to_string(rng() % 1000);
        const std::string kind = pick({"", "ip", "udp", "tcp", "sctp", "icmp", "icmp6", "tcp6", "arp", "mpls", "ipv6",
                                       "icmp6,icmpv6_type=135", "dl_type=0x88e7"});
        text += kind.empty() ? ",metadata=" + std::to_string(rng() % 4) : "," + kind;
        const bool ip = kind == "ip" || kind == "udp" || kind == "tcp" || kind == "sctp" || kind == "icmp";
        if (rng() % 4 == 0) text += ",in_port=" + std::to_string(1 + rng() % 2);
        if (!kind.empty() && rng() % 3 == 0) text += ",metadata=" + std::to_string(rng() % 4) + "/3";
        if (rng() % 5 == 0) text += ",tun_id=" + std::to_string(rng() % 2);
        if ((kind == "udp" || kind == "tcp" || kind == "tcp6") && rng() % 4)
            text += ",tp_dst=" + std::to_string(rng() % 9);
        if (ip && rng() % 4) text += ",nw_dst=10.0.0." + std::to_string(rng() % 4) + "/" + pick({"30", "31", "32"});
        if (kind == "sctp" && rng() % 2) text += ",sctp_dst=" + std::to_string(rng() % 4) + "/0xfffe";
        if (kind == "arp" && rng() % 2) text += ",arp_sha=02:00:00:00:00:01/00:00:00:00:00:03";
        if (kind == "mpls" && rng() % 2) text += ",mpls_label=" + std::to_string(rng() % 4) + "/0xffffe";
        if (kind == "ipv6" && rng() % 2) text += pick({",ipv6_label=0/0xf", ",ipv6_exthdr=0/0x40"});
        if (kind.starts_with("icmp6,") && rng() % 2) text += ",nd_target=2001:db8::/32";
        text += ",actions=";
        if (rng() % 2)
            text += "write_metadata:" + std::to_string(rng() % 4) + "/" + std::to_string(1 + rng() % 3) + ",";
        if (ip && rng() % 3 == 0) text += pick({"dec_ttl,", "mod_nw_dst:10.0.0.1,", "push_mpls:0x8847,"});
        if (kind == "udp" && rng() % 3 == 0 && !text.ends_with("push_mpls:0x8847,")) text += "mod_tp_src:77,";
        if (kind == "sctp" && rng() % 2 && !text.ends_with("push_mpls:0x8847,")) text += "set_field:9->sctp_src,";
        if (kind == "arp" && rng() % 2) text += "set_field:2->arp_op,set_field:02:00:00:00:00:07->arp_tha,";
        if (kind == "mpls" && rng() % 2)
            text += pick({"pop_mpls:0x0800,", "dec_mpls_ttl,", "copy_ttl_in,", "copy_ttl_out,", "set_mpls_tc:3,"});
        if (kind == "dl_type=0x88e7") text += pick({"pop_pbb,", "set_field:7->pbb_isid,"});
        if (kind == "icmp" && rng() % 2 && !text.ends_with("push_mpls:0x8847,")) text += "set_field:0->icmp_type,";
        if (kind.starts_with("icmp6,") && rng() % 2) text += "set_field:2001:db8::7->nd_target,";
        if (kind == "ipv6" && rng() % 2) text += "set_field:77->ipv6_label,";
        if (rng() % 6 == 0) text += pick({"push_vlan:0x8100,", "pop_vlan,", "push_pbb:0x88e7,", "set_tunnel:1,"});
        const std::string end = pick({"output:2", "output:3,output:4", "flood", "controller", "in_port"});
        const bool on = table < 3 && rng() % 4 != 0;
        text += pick({"write_actions(", "clear_actions,write_actions("}) + end + ")";
        if (on) text += ",goto_table:" + std::to_string(table + 1 + rng() % (3 - table));
        text += "\n";
    }
    // So that packets get on.
    return text + "table=0,priority=0,actions=goto_table:1\ntable=1,priority=0,actions=goto_table:3\n";
}

/// Frames of all kinds that flows ask for; some end too early.
std::vector<Frame> random_frames(Rng& rng, size_t count) {
    RandomOptions options;
    options.adjust = [](PacketSpec& spec, Rng& random) {
        if (spec.ipv4) spec.ipv4->dst = 0x0a000000u | static_cast<uint32_t>(random() % 5);
        if (spec.tcp) spec.tcp->dst = static_cast<uint16_t>(random() % 9);
        if (spec.udp) spec.udp->dst = static_cast<uint16_t>(random() % 9);
    };
    std::vector<Frame> frames = random_packets(rng, count, options);
    const auto wrap = [&](Frame& frame, uint16_t type, std::initializer_list<uint8_t> header, bool whole) {
        Frame made(frame.begin(), frame.begin() + 12);
        made.push_back(static_cast<uint8_t>(type >> 8));
        made.push_back(static_cast<uint8_t>(type));
        made.insert(made.end(), header);
        made.insert(made.end(), frame.begin() + (whole ? 0 : 14), frame.end());
        frame = std::move(made);
    };
    for (size_t i = 0; i < frames.size(); ++i) {
        Frame& frame = frames[i];
        if (frame.size() < 60) continue;
        const auto label = static_cast<uint8_t>(rng() % 4 << 4);
        switch (rng() % 6) {
            case 0:
                wrap(frame, 0x8847, {0, 0, static_cast<uint8_t>(label | 1), static_cast<uint8_t>(rng() % 3)}, false);
                break;
            case 1: wrap(frame, 0x8847, {0, 0, label, 9, 0, 0, 0x11, 5}, false); break;
            case 2: wrap(frame, 0x88e7, {0, 0, 0, static_cast<uint8_t>(rng())}, true); break;
            case 3:
                if (frame[12] == 8 && frame[13] == 0) frame[23] = 132;
                break;
            default: break;
        }
        if (rng() % 8 == 0) frame.resize(14 + rng() % (frame.size() - 13));
    }
    return frames;
}

TEST(Pipeline, IsTheSameWithAnyNumberOfLanesByEveryEngineAndOnEveryDevice) {
    Rng rng(5);
    for (const size_t flows : {1, 33, 300}) {
        const std::string file = scratch_file("pipeline.flows", random_tables(rng, flows));
        const auto frames = random_frames(rng, 1100);
        const auto wanted = NfRunner("switch", "{file: " + file + ", engine: linear}").run(frames, {1});
        std::set<uint32_t> outcomes, hit;
        for (const Decision& decision : wanted.decisions) {
            outcomes.insert(decision.outcome);
            hit.insert(decision.detail);
        }
        if (flows == 300) {
            EXPECT_GE(outcomes.size(), 4u);
            EXPECT_GE(hit.size(), 12u);
        }
        for (const std::string engine : {"tuple", "bloom", "merged", "auto"}) {
            const auto got = NfRunner("switch", "{file: " + file + ", engine: " + engine + "}").run(frames, {8});
            EXPECT_EQ(got.decisions, wanted.decisions) << engine;
            EXPECT_EQ(got.frames, wanted.frames) << engine;
            EXPECT_EQ(got.out_ports, wanted.out_ports) << engine;
        }
        check_halves_agree("switch", "{file: " + file + "}", frames);
    }
}

TEST(Pipeline, DoesWhatTheSwitchDoesWhereThatIsEnough) {
    Rng rng(6);
    std::string text;
    for (unsigned i = 0; i < 200; ++i) {
        text += "priority=" + std::to_string(rng() % 3) + (rng() % 2 ? ",udp,tp_dst=" : ",tcp,tp_src=") +
                std::to_string(rng() % 16) + "/0xfffe,actions=";
        const char* const actions[] = {"dec_ttl,output:2", "mod_vlan_vid:7,flood",   "pop_vlan,output:3,controller",
                                       "in_port",          "mod_nw_src:1.2.3.4,all", "drop"};
        text += std::string(actions[rng() % std::size(actions)]) + "\n";
    }
    const std::string file = scratch_file("plain.flows", text + "priority=0,actions=output:4\n");
    const auto frames = random_packets(rng, 1100);
    NfRunner plain("switch", "{file: " + file + ", pipeline: never}"),
        full("switch", "{file: " + file + ", pipeline: always}");
    EXPECT_EQ(plain.type().name, "switch");
    EXPECT_EQ(full.type().name, "switch:pipeline");
    const auto wanted = plain.run(frames, {8}, 1), got = full.run(frames, {8}, 1);
    EXPECT_EQ(got.decisions, wanted.decisions);
    EXPECT_EQ(got.frames, wanted.frames);
    EXPECT_EQ(got.out_ports, wanted.out_ports);
}

TEST(Pipeline, IsTakenWhereFlowsNeedItOrMayComeTo) {
    const auto name = [](const std::string& options) { return NfRunner("switch", options).type().name; };
    EXPECT_EQ(name("{flows: ['udp,actions=output:2']}"), "switch");
    EXPECT_EQ(name("{flows: ['mpls,mpls_label=1,actions=output:2']}"), "switch:pipeline");
    EXPECT_EQ(name("{flows: ['actions=goto_table:1']}"), "switch:pipeline");
    EXPECT_EQ(name("{controller: 'tcp:127.0.0.1'}"), "switch:pipeline");
    EXPECT_EQ(name("{controller: 'tcp:127.0.0.1', pipeline: never}"), "switch");
    EXPECT_EQ(refusal_of("{flows: ['actions=goto_table:1'], pipeline: never}").message,
              "flow 'actions=goto_table:1' needs the pipeline");
}

/// A switch that a controller controls, and packets that it gets.
class Controlled {
public:
    explicit Controlled(const std::string& options = "{controller: 'tcp:127.0.0.1'}")
        : now_(nf::find_type("switch")->create(
              Config::parse(options),
              {.node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts})) {
        step();
    }
    Control& control() { return *dynamic_cast<Controllable&>(*now_).control(); }
    void step() {
        if (auto next = dynamic_cast<nf::Changeable&>(*now_).next()) now_ = std::move(next);
        dynamic_cast<nf::Changeable&>(*now_).at_work();
    }
    void change(const std::string& text) {
        FlowChange made = controllers_change(text);
        control().change(std::move(made));
        step();
    }
    /// Outcome, port and bytes of one packet.
    struct Result {
        uint32_t outcome;
        uint16_t port;
        Frame frame;
    };
    Result send(const std::string& yaml) { return send(build_packet(yaml)); }
    Result send(const Frame& frame) {
        PacketArena arena;
        Packet& packet = arena.add(frame);
        packet.set_in_port(0);
        packet.parse();
        const nf::Type& type = nf::type_of(*nf::find_type("switch"), *now_);
        const Decision decision = type.process_with(8)(packet, now_->image().tables());
        return {decision.outcome, packet.out_port(), arena.bytes(0)};
    }

private:
    std::shared_ptr<nf::NetworkFunction> now_;
};

TEST(Pipeline, SendsByTheFirstLiveBucketOfAGroup) {
    Controlled with;
    Group group = parse_group(
        "group_id=7,type=ff,bucket=watch_port:2,actions=output:2,bucket=watch_port:3,actions=output:3", kSwitchPorts);
    with.control().add_group(group);
    group = parse_group("group_id=8,type=ff,bucket=watch_group:7,actions=output:2,bucket=watch_port:4,actions=output:4",
                        kSwitchPorts);
    with.control().add_group(group);
    with.change("priority=1,actions=group:7");
    with.change("priority=2,udp,actions=group:8");
    EXPECT_EQ(with.send("{ipv4: {}, tcp: {}}").port, 1);
    const auto down = [&](std::vector<bool> ports) {
        with.control().set_down(std::move(ports));
        with.step();
    };
    down({false, true, false, false});
    EXPECT_EQ(with.send("{ipv4: {}, tcp: {}}").port, 2);
    EXPECT_EQ(with.send("{ipv4: {}, udp: {}}").port, 1);  // the group that it watches is live
    down({false, true, true, false});
    EXPECT_EQ(with.send("{ipv4: {}, tcp: {}}").outcome, Switch::kDrop);
    EXPECT_EQ(with.send("{ipv4: {}, udp: {}}").port, 3);
    down({false, false, true, false});
    EXPECT_EQ(with.send("{ipv4: {}, tcp: {}}").port, 1);
}

TEST(Pipeline, RefusesGroupsWhoseBucketsMakeDifferentPackets) {
    EXPECT_THROW(parse_group("group_id=1,type=all,bucket=dec_ttl,output:2,bucket=output:3", kSwitchPorts),
                 nf::classify::WordMistake);
    EXPECT_NO_THROW(parse_group("group_id=1,type=all,bucket=output:2,bucket=output:3,bucket=output:2", kSwitchPorts));
    EXPECT_THROW(parse_group("group_id=1,type=ff,bucket=output:2", kSwitchPorts), nf::classify::WordMistake);
    EXPECT_THROW(parse_group("group_id=1,type=any,bucket=output:2", kSwitchPorts), nf::classify::WordMistake);
}

TEST(Pipeline, MetersByPacketsAndByKilobits) {
    Controlled with;
    // Later than it is, so that what the test takes adds nothing.
    const auto begin = Control::Clock::now() + std::chrono::hours(1);
    with.control().add_meter(parse_meter("meter=1,pktps,burst,band=type=drop,rate=100,burst_size=10"));
    with.control().add_meter(parse_meter("meter=2,kbps,burst,band=type=drop,rate=1000,burst_size=100"));
    with.change("priority=2,udp,actions=meter:1,output:2");
    with.change("priority=1,actions=meter:2,output:2");
    with.control().refill_meters(begin);
    with.step();
    const auto passed = [&](const std::string& packet, unsigned count) {
        unsigned number = 0;
        for (unsigned i = 0; i < count; ++i) number += with.send(packet).outcome == Switch::kForward;
        return number;
    };
    const std::string thousand = "{ipv4: {}, tcp: {}, payload: {repeat: 'a', count: 946}}";  // 1,000 bytes
    EXPECT_EQ(passed("{ipv4: {}, udp: {}}", 1000), 10u);
    EXPECT_EQ(passed(thousand, 1000), 12u);  // of 12,500 bytes
    EXPECT_EQ(with.send(thousand).outcome, Switch::kMetered);
    with.control().refill_meters(begin + milliseconds(50));
    with.step();
    EXPECT_EQ(passed("{ipv4: {}, udp: {}}", 1000), 5u);
    EXPECT_EQ(passed(thousand, 1000), 6u);
    with.control().refill_meters(begin + std::chrono::hours(1));
    with.step();
    EXPECT_EQ(passed("{ipv4: {}, udp: {}}", 1000), 10u);  // the burst, and no more
    EXPECT_EQ(with.control().meter_counts(1).packets, 3000u);
    EXPECT_EQ(with.control().band_counts(1, 0).packets, 3000u - 25);
    EXPECT_EQ(with.control().flows_of_meter(1), 1u);
    with.control().remove_meter(1);  // and the flow with it
    with.step();
    EXPECT_EQ(with.control().flow_count(), 1u);
}

TEST(Pipeline, MarksWhatAMeterWouldNotDrop) {
    Controlled with;
    with.control().add_meter(
        parse_meter("meter=9,pktps,burst,band=type=dscp_remark,rate=10,burst_size=2,prec_level=1,band=type=drop,rate="
                    "20,burst_size=4"));
    with.change("priority=1,actions=meter:9,output:2");
    const auto tos = [&](const char* ip) {
        const auto result = with.send("{ipv4: {tos: " + std::string(ip) + "}, udp: {}}");
        return result.outcome == Switch::kForward ? result.frame[15] : 0xffu;
    };
    EXPECT_EQ(tos("0x48"), 0x48u);  // AF21
    EXPECT_EQ(tos("0x48"), 0x48u);
    EXPECT_EQ(tos("0x49"), 0x51u);  // AF22, and ECN as it was
    EXPECT_EQ(tos("0xb8"), 0xb8u);  // EF has no drop precedence
    EXPECT_EQ(tos("0x48"), 0xffu);  // the band of the higher rate is met
}

TEST(Pipeline, CountsWhatTablesLookUpAndFind) {
    Controlled with;
    with.change("priority=1,udp,actions=goto_table:3");
    with.change("table=3,udp,tp_dst=7,actions=output:2");
    for (unsigned i = 0; i < 1000; ++i) {
        with.send("{ipv4: {}, udp: {dst: 7}}");
        with.send("{ipv4: {}, udp: {dst: 8}}");
        with.send("{ipv4: {}, tcp: {}}");
    }
    with.step();
    const auto counts = with.control().table_counts();
    EXPECT_EQ(counts.at(0).lookups, 3000u);
    EXPECT_EQ(counts.at(0).matched, 2000u);
    EXPECT_EQ(counts.at(3).lookups, 2000u);
    EXPECT_EQ(counts.at(3).matched, 1000u);
    with.change("delete table=3");
    EXPECT_EQ(with.control().table_counts().at(3).matched, 1000u) << "also of flows that went";
    EXPECT_EQ(with.control().flow_count(), 1u);
}

TEST(Pipeline, ChangesOverToLongKeysAndBack) {
    Controlled with;
    for (unsigned i = 0; i < 300; ++i) with.change("udp,tp_dst=" + std::to_string(i) + ",actions=output:2");
    EXPECT_EQ(with.send("{ipv4: {}, udp: {dst: 7}}").port, 1);
    with.change("priority=40000,udp,tp_dst=7,metadata=1,actions=output:3");
    EXPECT_EQ(with.send("{ipv4: {}, udp: {dst: 7}}").port, 1);
    with.change("priority=40000,arp,arp_sha=02:00:00:00:00:01,actions=output:3");
    EXPECT_EQ(
        with.send(
                "{eth: {type: 0x0806}, payload: {hex: '0001080006040001 020000000001 0a000001 000000000000 0a000002'}}")
            .port,
        2);
    EXPECT_EQ(with.send("{ipv6: {}, udp: {dst: 7}}").outcome, Switch::kMiss);
    with.change("delete metadata=1/1");
    with.change("delete arp");
    for (unsigned i = 0; i < 1000; ++i) with.step();
    EXPECT_EQ(with.send("{ipv4: {}, udp: {dst: 299}}").port, 1);
}

TEST(Pipeline, TakesPacketsThatEndAnywhere) {
    // Every length of frames of every kind, through flows that look at everything: what is not there is left alone.
    Rng rng(7);
    const std::string file = scratch_file("ends.flows", random_tables(rng, 300));
    std::vector<Frame> frames;
    for (const Frame& whole : random_frames(rng, 24))
        for (size_t bytes = 14; bytes < std::min<size_t>(whole.size(), 100); ++bytes)
            frames.emplace_back(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes));
    check_halves_agree("switch", "{file: " + file + "}", frames);
}

}  // namespace
}  // namespace millrace
