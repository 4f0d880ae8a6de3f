// The switch as those see it who control it: versions, time-outs, counters, generations, and flows in words.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <set>

#include "millrace/chain/configuration.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/nf/changeable.hpp"
#include "millrace/nf/switch/control/control.hpp"
#include "millrace/nf/switch/text/match_field.hpp"
#include "nf/switch/scratch.hpp"
#include "support/device_work.hpp"
#include "support/nf_runner.hpp"
#include "support/packet_arena.hpp"

namespace millrace {
namespace {

using namespace millrace::test;
using namespace millrace::nf::flow_switch;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<std::string> texts(const Control& control) {
    std::vector<std::string> all;
    for (const FlowEntry& entry : control.flows({}, {})) all.push_back(text_of(entry.flow, kSwitchPorts));
    return all;
}
using Texts = std::vector<std::string>;

TEST(FlowText, ReadsAsItWasWritten) {
    for (const char* text : {
             "priority=1,actions=drop",
             "priority=32768,cookie=0x10,idle_timeout=5,hard_timeout=6,in_port=2,eth_dst=02:00:00:00:00:01,actions="
             "output:1",
             "priority=1,eth_src=00:00:00:00:00:01/00:00:00:00:00:ff,eth_type=0x800,ip_dscp=8,ip_ecn=1,ip_src=10.0.0.0/"
             "255.0.255.0,actions=controller",
             "priority=1,vlan_vid=0x1005,vlan_pcp=3,actions=pop_vlan,output:1,output:2,in_port",
             "priority=1,eth_type=0x800,ip_proto=17,udp_dst=53,actions=set_field:10.0.0.1->ip_src,mod_tp_dst:54,mod_nw_"
             "ttl:3,output:3,controller",
             "priority=1,eth_type=0x86dd,ip_proto=6,tcp_src=80/0xfff0,ipv6_src=2001:db8::/"
             "32,actions=set_field:2001:db8::1->ipv6_dst,dec_ttl,output:1",
             "priority=1,actions=flood,in_port",
             "priority=1,actions=output:1,all",
             "priority=1,eth_type=0x806,arp_op=1,arp_spa=10.0.0.1,actions=push_vlan:0x8100,set_field:4103->vlan_vid,"
             "set_field:2->vlan_pcp,output:1",
             "priority=1,eth_type=0x800,ip_proto=1,icmp_type=8,icmp_code=0,actions=mod_nw_tos:8,mod_nw_ecn:1,mod_dl_"
             "src:02:00:00:00:00:02,group:7",
         })
        EXPECT_EQ(text_of(parse_flow(text, kSwitchPorts), kSwitchPorts), text);
}

TEST(FlowFields, AreThoseThatFlowsLookAtAndChange) {
    const auto used = [](const std::string& flow) {
        NfRunner runner("switch", "{flows: ['" + flow + "']}");
        return std::pair(runner.nf().reads(field::everything), runner.nf().writes(field::everything));
    };
    EXPECT_EQ(used("in_port=1,actions=output:2"), std::pair(field::none, field::none));
    EXPECT_EQ(used("ip,nw_src=10.0.0.1,actions=output:2"), std::pair(field::eth_type | field::ip_src, field::none));
    EXPECT_EQ(used("actions=mod_dl_src:02:00:00:00:00:01,output:2"), std::pair(field::eth_src, field::eth_src));
    EXPECT_TRUE(used("actions=push_vlan:0x8100,output:2").second.contains(field::length));
    // Whose flows may change has all that the type says.
    NfRunner changing("switch", "{changes: nothing, flows: ['in_port=1,actions=output:2']}");
    EXPECT_EQ(changing.nf().reads(field::everything), field::everything);
}

TEST(ControllerAddress, IsAHostOrAPortToListenOn) {
    const auto parsed = [](const char* text) -> std::string {
        const auto address = parse_controller(text);
        return !address ? "none" : (address->listens ? "at " : "to ") + address->host + " " + address->port;
    };
    EXPECT_EQ(parsed("tcp:127.0.0.1:6633"), "to 127.0.0.1 6633");
    EXPECT_EQ(parsed("tcp:controller.example"), "to controller.example 6653");
    EXPECT_EQ(parsed("tcp:[2001:db8::1]:6633"), "to 2001:db8::1 6633");
    EXPECT_EQ(parsed("tcp:[2001:db8::1]"), "to 2001:db8::1 6653");
    EXPECT_EQ(parsed("ptcp:"), "at  6653");
    EXPECT_EQ(parsed("ptcp:6633"), "at  6633");
    EXPECT_EQ(parsed("ptcp:6633:[::1]"), "at ::1 6633");
    EXPECT_EQ(parsed("ssl:controller.example"), "to controller.example 6653");
    EXPECT_EQ(parsed("pssl:6633"), "at  6633");
    EXPECT_TRUE(parse_controller("ssl:host")->tls && parse_controller("pssl:")->tls);
    EXPECT_FALSE(parse_controller("tcp:host")->tls || parse_controller("ptcp:")->tls);
    for (const char* wrong : {"", "tcp", "tcp:", "tcp::6633", "tcp:host:", "tcp:host:65536", "tcp:host:x", "tcp:::1",
                              "tcp:[::1", "ptcp:x", "ptcp:1:::1", "udp:1.2.3.4", "ssl", "ssl:", "pssl", "tls:host"})
        EXPECT_EQ(parsed(wrong), "none") << wrong;
}

TEST(Control, NumbersVersionsAndSaysWhatIsAtWork) {
    Control control(kSwitchPorts, {});
    EXPECT_EQ(control.progress(0), Control::Progress::at_work);
    const uint64_t version = control.change(controllers_change("add ip,actions=output:1"));
    EXPECT_EQ(control.progress(version), Control::Progress::waits);
    control.at_work(version, nullptr);
    EXPECT_EQ(control.progress(version), Control::Progress::at_work);
    const uint64_t too_many = control.change(controllers_change("add arp,actions=output:1"));
    const Control::Wanted wanted = control.wanted();
    EXPECT_EQ(wanted.version, too_many);
    EXPECT_EQ(wanted.flows.size(), 2u);
    control.give_up({}, {});
    EXPECT_EQ(control.progress(too_many), Control::Progress::refused);
    EXPECT_EQ(control.progress(version), Control::Progress::at_work);
    EXPECT_TRUE(texts(control).empty());
}

TEST(Control, RefusesWhatDoesNotFit) {
    Control control(kSwitchPorts, {});
    const auto refusal = [&](const char* text, bool overlap) -> std::optional<Refusal> {
        try {
            control.change(controllers_change(text), overlap);
        } catch (const Refusal& refused) {
            return refused;
        }
        return std::nullopt;
    };
    EXPECT_EQ(refusal("add ip,actions=group:3", false), Refusal::no_group);
    EXPECT_EQ(refusal("add priority=5,ip,nw_src=10.0.0.0/8,actions=drop", true), std::nullopt);
    EXPECT_EQ(refusal("add priority=5,ip,nw_dst=10.0.0.0/8,actions=drop", true), Refusal::overlap);
    EXPECT_EQ(refusal("add priority=6,ip,nw_dst=10.0.0.0/8,actions=drop", true), std::nullopt);
    EXPECT_EQ(refusal("add priority=5,ip,nw_src=11.0.0.0/8,actions=drop", true), std::nullopt);
    EXPECT_EQ(refusal("add priority=5,ip,nw_dst=10.0.0.0/8,actions=drop", false), std::nullopt);
}

TEST(Control, MeansFlowsByCookiePortAndGroup) {
    Control control(kSwitchPorts, {});
    Group group;
    group.id = 7;
    group.buckets = {{1, {{ActionKind::output, 0, 0, 0}}}};
    control.add_group(group);
    for (const char* flow :
         {"priority=1,cookie=0x11,actions=output:1", "priority=2,cookie=0x12,actions=output:1,output:3",
          "priority=3,cookie=0x21,actions=controller", "priority=4,cookie=0x22,actions=group:7"})
        control.change(controllers_change(flow));
    const auto count = [&](FlowFilter filter) { return control.flows({}, filter).size(); };
    EXPECT_EQ(count({}), 4u);
    EXPECT_EQ(count({0x10, 0xf0, {}, {}}), 2u);
    EXPECT_EQ(count({0, 0, 0, {}}), 2u);
    EXPECT_EQ(count({0, 0, 2, {}}), 1u);
    for (const char* flow : {"priority=5,actions=flood", "priority=6,actions=all", "priority=7,actions=in_port",
                             "priority=8,actions=output:2,flood,in_port"})
        control.change(controllers_change(flow));
    // A port is named, or it is not (OpenFlow 1.3.5, section 6.4); Open vSwitch 3.1 means the same flows.
    EXPECT_EQ(count({0, 0, 0, {}}), 2u);
    EXPECT_EQ(count({0, 0, 1, {}}), 1u);
    EXPECT_EQ(count({0, 0, FlowFilter::kFlood, {}}), 2u);
    EXPECT_EQ(count({0, 0, FlowFilter::kAll, {}}), 1u);
    EXPECT_EQ(count({0, 0, FlowFilter::kInPort, {}}), 2u);
    FlowChange by_port = controllers_change("delete");
    by_port.filter.out_port = 1;
    control.change(by_port);
    EXPECT_EQ(texts(control).back(), "priority=7,actions=in_port");
    control.change(controllers_change("delete_strict priority=5"));
    control.change(controllers_change("delete_strict priority=6"));
    control.change(controllers_change("delete_strict priority=7"));
    EXPECT_EQ(count({0, 0, FlowFilter::kToController, {}}), 1u);
    EXPECT_EQ(count({0, 0, {}, 7}), 1u);
    FlowChange remove = controllers_change("delete");
    remove.filter.cookie = 0x11;
    remove.filter.cookie_mask = 0xff;
    control.change(remove);
    EXPECT_EQ(control.flow_count(), 3u);
    control.remove_group(7);
    EXPECT_EQ(control.flow_count(), 2u);
}

TEST(Control, LetsFlowsTimeOutAndTellsWhatTheyCounted) {
    const nf::Type* type = nf::find_type("switch");
    nf::Environment environment{.node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts};
    std::shared_ptr<nf::NetworkFunction> now = type->create(Config::parse("{controller: 'tcp:127.0.0.1'}"),
                                                            environment);
    const auto control = dynamic_cast<Controllable&>(*now).control();
    const auto step = [&] {
        if (auto next = dynamic_cast<nf::Changeable&>(*now).next()) now = std::move(next);
        EXPECT_EQ(dynamic_cast<nf::Changeable&>(*now).next(), nullptr);
    };
    const auto begin = Control::Clock::now();
    for (const char* flow : {"priority=9,idle_timeout=10,udp,actions=output:1",
                             "priority=8,hard_timeout=30,ip,actions=output:2", "priority=7,actions=drop"}) {
        FlowChange add = controllers_change(flow);
        add.flow.flags = 1;
        control->change(std::move(add), false, begin);
    }
    step();
    const auto packet = [&](const char* yaml) {
        PacketArena arena;
        return type->process_with(1)(arena.add(build_packet(yaml)), now->image().tables());
    };
    packet("{ipv4: {}, udp: {}}");
    packet("{ipv4: {}, udp: {}}");
    packet("{ipv4: {}, tcp: {}}");
    const auto at = [&](seconds later) {
        control->at_work(control->version(), nullptr, begin + later);  // as next() does, but later
        step();
    };
    std::vector<FlowEntry> entries = control->flows({}, {});
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].counts.packets, 2u);
    EXPECT_EQ(entries[1].counts.packets, 1u);
    EXPECT_TRUE(control->take_removed().empty());
    // The counters are told by next(); without them nothing is seen to be used.
    at(seconds(11));
    EXPECT_EQ(control->flow_count(), 2u);
    std::vector<RemovedFlow> removed = control->take_removed();
    ASSERT_EQ(removed.size(), 1u);
    EXPECT_EQ(removed[0].reason, Removal::idle_timeout);
    EXPECT_EQ(std::chrono::duration_cast<seconds>(removed[0].age), seconds(11));
    at(seconds(31));
    removed = control->take_removed();
    ASSERT_EQ(removed.size(), 1u);
    EXPECT_EQ(removed[0].reason, Removal::hard_timeout);
    FlowChange remove = controllers_change("delete");
    packet("{ipv4: {}, tcp: {}}");
    control->change(remove);
    packet("{ipv4: {}, tcp: {}}");
    EXPECT_TRUE(control->take_removed().empty()) << "it still counts";
    step();
    removed = control->take_removed();
    ASSERT_EQ(removed.size(), 1u);
    EXPECT_EQ(removed[0].reason, Removal::asked);
    EXPECT_EQ(removed[0].counts.packets, 2u);
}

TEST(Control, BeginsCountersAnewForFlowsThatComeAgainAndWhereAsked) {
    const nf::Type* type = nf::find_type("switch");
    nf::Environment environment{.node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts};
    std::shared_ptr<nf::NetworkFunction> now = type->create(Config::parse("{flows: ['ip,actions=output:1']}"),
                                                            environment);
    const auto control = dynamic_cast<Controllable&>(*now).control();
    const auto step = [&] {
        if (auto next = dynamic_cast<nf::Changeable&>(*now).next()) now = std::move(next);
        dynamic_cast<nf::Changeable&>(*now).next();
    };
    const auto packets = [&] { return control->flows({}, {}).at(0).counts.packets; };
    const auto packet = [&] {
        PacketArena arena;
        type->process_with(1)(arena.add(build_packet("{ipv4: {}, udp: {}}")), now->image().tables());
    };
    step();
    packet();
    EXPECT_EQ(packets(), 1u);
    control->change(controllers_change("modify ip,actions=output:2"));
    step();
    packet();
    EXPECT_EQ(packets(), 2u);
    FlowChange reset = controllers_change("modify ip,actions=output:3");
    reset.reset_counts = true;
    control->change(reset);
    step();
    EXPECT_EQ(packets(), 0u);
    packet();
    EXPECT_EQ(packets(), 1u);
    control->change(controllers_change("delete ip"));
    control->change(controllers_change("add ip,actions=output:1"));
    step();
    EXPECT_EQ(packets(), 0u);
    packet();
    EXPECT_EQ(packets(), 1u);
}

TEST(Control, KeepsItsFlowsWhenTheConfigurationIsReadAnew) {
    const nf::Type* type = nf::find_type("switch");
    nf::Environment environment{.node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts};
    std::shared_ptr<nf::NetworkFunction> now = type->create(Config::parse("{flows: ['ip,actions=output:1']}"),
                                                            environment);
    const auto control = dynamic_cast<Controllable&>(*now).control();
    control->change(controllers_change("add arp,actions=output:2"));
    control->change(controllers_change("add ipv6,actions=output:2"));
    now = dynamic_cast<nf::Changeable&>(*now).next();
    environment.previous = now.get();
    std::shared_ptr<nf::NetworkFunction> next = type->create(
        Config::parse("{flows: ['udp,actions=output:3', 'ipv6,actions=drop']}"), environment);
    EXPECT_EQ(dynamic_cast<Controllable&>(*next).control(), control);
    // A change while the configuration is read, and one of the generation before that is not at work yet.
    control->change(controllers_change("add tcp,actions=output:2"));
    auto after = dynamic_cast<nf::Changeable&>(*next).next();
    ASSERT_NE(after, nullptr);
    EXPECT_EQ(texts(*control),
              (Texts{"priority=32768,eth_type=0x800,ip_proto=17,actions=output:3",
                     "priority=32768,eth_type=0x86dd,actions=drop", "priority=32768,eth_type=0x806,actions=output:2",
                     "priority=32768,eth_type=0x800,ip_proto=6,actions=output:2"}));
    EXPECT_EQ(dynamic_cast<nf::Changeable&>(*after).next(), nullptr);
}

class Injected : public testing::TestWithParam<std::string> {};

/// Takes what is punted out of a switch's queue.
uint64_t take_punts(Control& control, std::set<uint64_t>& cookies) {
    uint64_t packets = 0;
    for (PuntedPacket punted; control.punts().take(punted); ++packets) {
        cookies.insert(punted.cookie);
        rte_pktmbuf_free(punted.packet);
    }
    return packets;
}

TEST_P(Injected, AndPuntedPacketsAreAllAccountedFor) {
    // Each packet leaves by a port and goes to the controller; others are put in on the way, at the chain's end and at
    // its start.
    chain::LoadOptions load;
    load.device = GetParam();
    load.output_folder = testing::TempDir();
    const std::string text =
        "version: 1\nports:\n  in: {source: {size: 128, flows: 64, count: 100000000, rate: 20000}}\n  out: {sink: "
        "{}}\n  other: {sink: {}}\n"
        "chains:\n  c:\n    input: in\n    nfs:\n      - switch: {flows: "
        "['priority=9,udp,actions=output:out,controller', "
        "'cookie=0x77,arp,actions=controller'], controller: 'ptcp:0:127.0.0.1'}\n";
    exec::Runtime runtime(chain::parse_configuration(text, "(injected)", load), {});
    const auto control = dynamic_cast<Controllable&>(*runtime.configuration()->chains[0]->nodes[0].nf).control();
    control->listen(true);
    runtime.start();
    const Frame udp = build_packet("{ipv4: {}, udp: {}}");
    Frame arp(60);
    arp[12] = 0x08;
    arp[13] = 0x06;
    const uint16_t both = kPortSet | 0b110;
    uint64_t sent = 0, through = 0, punted = 0;
    std::set<uint64_t> cookies;
    for (int i = 0; i < 50; ++i) {
        runtime.wait(milliseconds(1));
        sent += runtime.inject(0, udp, kNoPort, i % 2 == 0 ? 1 : both) ? (i % 2 == 0 ? 1 : 2) : 0;
        through += runtime.inject(0, arp, 0, kNoPort);
        punted += take_punts(*control, cookies);
    }
    runtime.stop();
    while (!runtime.wait(milliseconds(1))) punted += take_punts(*control, cookies);
    runtime.finish();
    punted += take_punts(*control, cookies);
    control->listen(false);
    const exec::Report report = exec::make_report(runtime);
    const exec::ChainReport& chain = report.chains[0];
    EXPECT_TRUE(report.conserved());
    expect_work(Work::device_alone, report);
    EXPECT_EQ(chain.injected, 50u);
    EXPECT_EQ(chain.submitted, through);
    const uint64_t came = chain.received_packets - through;
    EXPECT_GT(came, 0u);
    EXPECT_EQ(chain.sent_packets, came + sent);
    const auto full = chain.drops.find("exit.punt-full");
    EXPECT_EQ(punted + (full == chain.drops.end() ? 0 : full->second), came + through);
    EXPECT_EQ(chain.punted, punted);
    EXPECT_EQ(cookies, (std::set<uint64_t>{0, 0x77}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Injected, testing::Values("cpu", "sim"), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace millrace
