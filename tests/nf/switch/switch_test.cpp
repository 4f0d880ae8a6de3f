// The switch as an NF: golden packets, all halves alike, outputs, groups, counters.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "millrace/base/files/file.hpp"
#include "lab/classify/synthetic.hpp"
#include "millrace/nf/switch/text/flow_parser.hpp"
#include "support/data.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"
#include "nf/switch/scratch.hpp"

namespace millrace {
namespace {

using namespace millrace::test;
using nf::flow_switch::Flow;
using nf::flow_switch::FlowSet;
using nf::flow_switch::PortNumbers;

/// Flows over few values, so that they overlap and are hit, with changes of all kinds.
std::string random_flows(Rng& rng, size_t count) {
    const auto pick = [&](std::initializer_list<const char*> words) {
        return std::string(words.begin()[rng() % words.size()]);
    };
    std::string text;
    for (size_t i = 0; i < count; ++i) {
        std::string flow = rng() % 3 == 0 ? "priority=" + std::to_string(rng() % 4) : "priority=32768";
        if (rng() % 4 == 0) flow += ",in_port=" + std::to_string(1 + rng() % 2);
        if (rng() % 4 == 0)
            flow += pick({",dl_vlan=0xffff", ",dl_vlan=1", ",vlan_vid=0x1000/0x1000", ",dl_vlan_pcp=0"});
        const std::string kind = pick({"", "ip", "udp", "tcp", "icmp", "ipv6", "udp6", "tcp6", "arp"});
        if (!kind.empty()) flow += "," + kind;
        // A flow for everything would hide those behind it.
        const bool v6 = kind.ends_with("6"), ports = kind.starts_with("tcp") || kind.starts_with("udp"),
                   ip = !kind.empty() && kind != "arp";
        if (ip && !v6 && rng() % 2)
            flow += ",nw_src=10.0.0." + std::to_string(rng() % 8) + "/" + std::to_string(29 + rng() % 4);
        if (v6 && rng() % 2)
            flow += ",ipv6_dst=2001:db8::" + std::to_string(rng() % 8) + "/" + std::to_string(124 + rng() % 5);
        if (ports && rng() % 2) flow += ",tp_dst=" + std::to_string(rng() % 8) + (rng() % 2 ? "/0xfffe" : "");
        if (kind.empty()) flow += ",dl_dst=02:00:00:00:00:0" + std::to_string(rng() % 4) + ",dl_type=0x0800";
        flow += ",actions=";
        if (rng() % 4 == 0)
            flow += pick({"mod_dl_src:02:00:00:00:00:07,", "push_vlan:0x8100,", "pop_vlan,", "mod_vlan_vid:9,",
                          "mod_vlan_pcp:3,"});
        if (ip && rng() % 3 == 0) flow += pick({"dec_ttl,", "mod_nw_tos:16,", "mod_nw_ttl:3,"});
        if (ip && !v6 && rng() % 3 == 0) flow += "mod_nw_dst:192.0.2.1,";
        if (v6 && rng() % 3 == 0) flow += "set_field:2001:db8::99->ipv6_src,";
        if (ports && rng() % 3 == 0) flow += "mod_tp_src:77,";
        flow += pick({"output:1", "output:2", "output:3,output:4", "flood", "flood,in_port", "controller", "in_port"});
        text += flow + "\n";
    }
    return text;
}

RandomOptions traffic_near_the_flows() {
    RandomOptions options;
    options.max_payload = 64;
    options.adjust = [](PacketSpec& spec, Rng& rng) {
        if (spec.ipv4) spec.ipv4->src = 0x0a000000u | static_cast<uint32_t>(rng() % 9);
        if (spec.ipv6)
            spec.ipv6->dst = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(rng() % 9)};
        if (spec.tcp) spec.tcp->dst = static_cast<uint16_t>(rng() % 9);
        if (spec.udp) spec.udp->dst = static_cast<uint16_t>(rng() % 9);
    };
    return options;
}

TEST(Switch, GivesTheGoldenAnswers) { run_golden("switch"); }

TEST(Switch, IsTheSameWithAnyNumberOfLanesAndByEveryEngine) {
    Rng rng(1);
    for (const size_t flows : {0, 1, 33, 300}) {
        const std::string file = scratch_file("random.flows", random_flows(rng, flows));
        const auto frames = random_packets(rng, 1100, traffic_near_the_flows());
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
        for (const std::string engine : {"linear", "tuple", "bloom", "merged", "auto"}) {
            const std::string options = "{file: " + file + ", engine: " + engine + "}";
            const auto got = NfRunner("switch", options).run(frames, {8});
            EXPECT_EQ(got.decisions, wanted.decisions) << engine;
            EXPECT_EQ(got.frames, wanted.frames) << engine;
            EXPECT_EQ(got.out_ports, wanted.out_ports) << engine;
            check_halves_agree("switch", options, frames);
        }
    }
}

TEST(Switch, SendsByTheFirstFlowOfItsFile) {
    // The definition, on flows that the parser has read: the highest priority, then the first.
    Rng rng(2);
    const std::string text = random_flows(rng, 200);
    FlowSet set;
    nf::flow_switch::load_flows(text, "flows", PortNumbers(kTestPorts), set);
    ASSERT_EQ(set.flows.size(), 200u);
    NfRunner runner("switch", "{file: " + scratch_file("first.flows", text) + "}");
    const auto frames = random_packets(rng, 2000, traffic_near_the_flows());
    const auto result = runner.run(frames, {8}, 1);
    size_t matched = 0;
    for (size_t i = 0; i < frames.size(); ++i) {
        if (result.decisions[i].outcome == kRefused) continue;
        Frame frame = frames[i];
        Packet packet;
        packet.attach(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()), 0, 0);
        packet.set_in_port(1);
        packet.parse();
        const auto key = nf::classify::ternary_key<15>(nf::classify::flow_fields_of(packet));
        uint32_t best = kNoDetail;
        for (uint32_t f = 0; f < set.flows.size(); ++f) {
            const auto value = nf::classify::ternary_key<15>(set.flows[f].match.value),
                       mask = nf::classify::ternary_key<15>(set.flows[f].match.mask);
            bool matches = true;
            for (unsigned w = 0; w < 15; ++w) matches = matches && (key.words[w] & mask.words[w]) == value.words[w];
            if (matches && (best == kNoDetail || set.flows[f].priority > set.flows[best].priority)) best = f;
        }
        ASSERT_EQ(result.decisions[i].detail, best);
        matched += best != kNoDetail;
    }
    EXPECT_GT(matched, 1000u);
}

TEST(Switch, SendsByAllPortsOfAFlow) {
    const auto port_of = [](const std::string& actions, uint16_t in_port) {
        NfRunner runner("switch", "{flows: ['actions=" + actions + "']}");
        return runner.run({build_packet("{ipv4: {}, udp: {}}")}, {1}, in_port).out_ports[0];
    };
    EXPECT_EQ(port_of("output:2,output:4", 0), kPortSet | 0b1010);
    EXPECT_EQ(port_of("output:2,output:4", 1), 3);  // not back where it came in
    EXPECT_EQ(port_of("flood", 2), kPortSet | 0b1011);
    EXPECT_EQ(port_of("all", 0), kPortSet | 0b1110);
    EXPECT_EQ(port_of("flood,in_port", 2), kPortSet | 0b1111);
    EXPECT_EQ(port_of("in_port,output:1", 1), kPortSet | 0b0011);
    EXPECT_EQ(port_of("output:2,controller", 0), kPortSet | kPortSetPunt | 0b0010);
    EXPECT_EQ(port_of("flood,controller", 1), kPortSet | kPortSetPunt | 0b1101);
    EXPECT_EQ(port_of("output:2,controller", 1), kNoPort);  // to the controller alone
    EXPECT_FALSE(is_port_set(kNoPort));
    EXPECT_FALSE(is_port_set(0));
    EXPECT_TRUE(is_port_set(kPortSet | 0x3fff));
}

TEST(Switch, RefusesMoreFlowsThanItsConfigurationAllows) {
    EXPECT_EQ(text_of(refusal_of("max-flows: 4000000000")), "1:12: 4000000000 is out of range");
    EXPECT_EQ(text_of(refusal_of("max-flows: 0")), "1:12: 0 is out of range");
    EXPECT_EQ(text_of(refusal_of("{max-flows: 2, flows: ['arp,actions=drop', 'ip,actions=drop', 'actions=drop']}")),
              "1:63: there are more than 2 flows");
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "priority=" + std::to_string(i) + ",actions=drop\n";
    const std::string file = scratch_file("many.flows", text);
    EXPECT_EQ(text_of(refusal_of("{max-flows: 999, file: " + file + "}")), "1000:1: there are more than 999 flows");
    NfRunner("switch", Config::parse("{max-flows: 1000, file: " + file + "}", "chain.yaml"));
}

TEST(Switch, CountsPacketsAndBytesOfEachFlow) {
    const std::string folder = scratch().string();
    nf::Environment environment{.node_name = "nf", .chain_name = "chain", .output_folder = folder, .ports = kTestPorts};
    NfRunner runner("switch", Config::parse("{flows: ['udp,actions=output:2', 'actions=drop'], dump: flows.txt}"),
                    environment);
    const std::vector<Frame> frames = {build_packet("{ipv4: {}, udp: {}}"),
                                       build_packet("{ipv4: {}, udp: {}, payload: hello}"),
                                       build_packet("{ipv4: {}, tcp: {}}")};
    for (const unsigned lanes : {1u, 8u, 32u}) runner.run(frames, {lanes});
    runner.nf().flush();
    EXPECT_EQ(read_file(folder + "/flows.txt"),
              "n_packets=6, n_bytes=" + std::to_string(3 * (frames[0].size() + frames[1].size())) +
                  ", udp,actions=output:2\nn_packets=3, n_bytes=" + std::to_string(3 * frames[2].size()) +
                  ", actions=drop\n");
    std::map<std::string, uint64_t> statistics;
    for (const nf::Statistic& statistic : runner.nf().statistics()) statistics[statistic.name] = statistic.value;
    EXPECT_EQ(statistics["flows"], 2u);
    EXPECT_EQ(statistics["used-flows"], 2u);
    EXPECT_EQ(statistics["flow-packets"], 9u);
}

TEST(Switch, KeepsTheCountersOfFlowsThatStayInTheNextGeneration) {
    const nf::Type* type = nf::find_type("switch");
    const std::string folder = scratch().string();
    nf::Environment environment{.node_name = "nf", .chain_name = "chain", .output_folder = folder, .ports = kTestPorts};
    std::unique_ptr<nf::NetworkFunction> before;
    Frame udp = build_packet("{ipv4: {}, udp: {}}"), tcp = build_packet("{ipv4: {}, tcp: {}}"),
          arp = build_packet("{eth: {type: 0x0806}, payload: x}");
    const auto count = [&](Frame frame) {
        Packet packet;
        packet.attach(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()), 0, 0);
        packet.set_in_port(0);
        packet.parse();
        type->process_with(1)(packet, before->image().tables());
    };
    const auto next = [&](const std::string& flows) {
        environment.previous = before.get();
        auto made = type->create(Config::parse("{max-flows: 8, dump: kept.txt, flows: [" + flows + "]}"), environment);
        before = std::move(made);
    };
    const auto dumped = [&] {
        before->flush();
        return read_file(folder + "/kept.txt");
    };
    const std::string bytes = std::to_string(udp.size()), two = std::to_string(2 * udp.size()),
                      tcp_bytes = std::to_string(tcp.size());
    next("'udp,actions=output:2'");
    count(udp);
    next("'tcp,actions=output:2', 'udp,actions=output:3'");  // other actions, another place: the same flow
    EXPECT_EQ(dumped(), "n_packets=0, n_bytes=0, tcp,actions=output:2\nn_packets=1, n_bytes=" + bytes +
                            ", udp,actions=output:3\n");
    count(udp);
    count(tcp);
    next("'udp,actions=output:2'");
    EXPECT_EQ(dumped(), "n_packets=2, n_bytes=" + two + ", udp,actions=output:2\n");
    next("'tcp,actions=output:2', 'priority=7,udp,actions=drop', 'arp,actions=drop'");  // new ones begin at 0
    EXPECT_EQ(dumped(),
              "n_packets=0, n_bytes=0, tcp,actions=output:2\nn_packets=0, n_bytes=0, "
              "priority=7,udp,actions=drop\nn_packets=0, n_bytes=0, arp,actions=drop\n");
    for (int i = 0; i < 50; ++i) {  // flows come and go; their counters are used again, and those that stay keep theirs
        next("'tcp,actions=output:2', 'udp,tp_dst=" + std::to_string(i) + ",actions=drop'");
        count(tcp);
    }
    EXPECT_EQ(dumped(), "n_packets=50, n_bytes=" + std::to_string(50 * tcp.size()) +
                            ", tcp,actions=output:2\nn_packets=0, n_bytes=0, udp,tp_dst=49,actions=drop\n");
}

TEST(Switch, LoadsManySyntheticFlows) {
    const auto set = nf::classify::make_synthetic({.rules = 20000, .classes = 200});
    std::string text;
    for (const auto& rule : set.rules) text += nf::classify::flow_text(rule) + ",actions=output:2\n";
    std::vector<std::string> ports;
    for (int i = 0; i < 64; ++i) ports.push_back("p" + std::to_string(i));
    FlowSet flows;
    nf::flow_switch::load_flows(text, "synthetic", PortNumbers(ports), flows);
    ASSERT_EQ(flows.flows.size(), set.rules.size());
    for (size_t i = 0; i < set.rules.size(); ++i) {
        // OpenFlow's port 1 is the first, index 0.
        auto wanted = set.rules[i];
        if (wanted.mask.in_port != 0) --wanted.value.in_port;
        // The twelve fields, without the table.
        const auto key = [](const nf::classify::FlowFields& fields) { return nf::classify::ternary_key<15>(fields); };
        const auto value = key(wanted.value), got = key(flows.flows[i].match.value);
        const auto mask = key(wanted.mask), got_mask = key(flows.flows[i].match.mask);
        for (unsigned w = 0; w < 15; ++w) {
            ASSERT_EQ(got.words[w], value.words[w]) << flows.flows[i].text;
            ASSERT_EQ(got_mask.words[w], mask.words[w]) << flows.flows[i].text;
        }
    }
}

TEST(Switch, LoadsClassBenchNgFlows) {
    // The tool writes no protocol, which OpenFlow asks for before ports, and no actions.
    MILLRACE_NEEDS_DATA("openflow/of1_1000.flows");
    std::string text;
    for_each_line(read_file(data_path("openflow/of1_1000.flows")), [&](std::string_view line, uint32_t) {
        if (line.empty()) return;
        const auto has = [&](const char* word) { return line.find(word) != std::string_view::npos; };
        text += std::string(line) + (has("nw_") && !has("eth_type") ? ", ip" : "") +
                (has("tp_") && !has("nw_proto") ? ", nw_proto=17" : "") + ", actions=output:2\n";
    });
    FlowSet set;
    std::vector<std::string> ports(60000, "p");
    try {
        nf::flow_switch::load_flows(text, "of1", PortNumbers(ports), set);
    } catch (const ConfigError& error) {
        for (size_t i = 0; i < 3 && i < error.diagnostics().size(); ++i)
            ADD_FAILURE() << text_of(error.diagnostics()[i]);
    }
    EXPECT_GT(set.flows.size(), 600u);
}

TEST(Switch, SaysWhereAFlowIsWrong) {
    struct Case {
        const char* flow;
        const char* mistake;
    };
    const Case cases[] = {
        {"ip", "1:3: the flow has no actions"},
        {"ip,actions", "1:4: '=' and the actions are missing"},
        {"ip,actions=", "1:12: there is no action"},
        {"ip,nw_scr=10.0.0.1,actions=drop", "1:4: 'nw_scr' is not a field that the switch looks at"},
        {"ipv,actions=drop", "1:1: 'ipv' is not a word of a flow"},
        {"nw_src=10.0.0.1,actions=drop", "1:1: 'nw_src' asks for IPv4, and the flow does not"},
        {"ip,nw_src=10.0.0.256,actions=drop", "1:11: '10.0.0.256' is not an IPv4 address or prefix"},
        {"ip,tp_dst=80,actions=drop", "1:4: 'tp_dst' asks for TCP, UDP or SCTP, and the flow does not"},
        {"tcp,udp,actions=drop", "1:5: this asks a field for a second value"},
        {"tcp,tp_dst=65536,actions=drop", "1:12: '65536' is not a number from 0 to 65535"},
        {"tcp,udp_dst=1,actions=drop", "1:5: 'udp_dst' asks for TCP, UDP or SCTP, and the flow does not"},
        {"ip,nw_tos=3,actions=drop", "1:11: the two lowest bits of nw_tos are ECN's and must be 0"},
        {"dl_src=1:2,actions=drop", "1:8: '1:2' is not a MAC address"},
        {"in_port=9,actions=drop", "1:9: there is no port '9'"},
        {"table=254,actions=drop", "1:7: '254' is not a number from 0 to 253"},
        {"idle_timeout=65536,actions=drop", "1:14: '65536' is not a number from 0 to 65535"},
        {"priority=65536,actions=drop", "1:10: '65536' is not a number from 0 to 65535"},
        {"dl_vlan=4096,actions=drop", "1:9: '4096' is not a VLAN identifier from 0 to 4095, nor 0xffff for no tag"},
        {"actions=output:9", "1:16: there is no port '9'"},
        {"actions=normal", "1:9: 'normal' is not an action that the switch has"},
        {"actions=output:1,drop", "1:18: 'drop' stands with other actions"},
        {"actions=drop,output:1", "1:14: nothing can stand behind a group or drop"},
        {"actions=output:1,output:1", "1:18: the packet leaves by this port already"},
        {"actions=output:1,mod_dl_src:02:00:00:00:00:01,output:2",
         "1:18: a packet leaves with the same bytes by all its ports"},
        {"actions=dec_ttl,output:1", "1:9: 'dec_ttl' works on IP, and the flow may match other packets"},
        {"ip,actions=set_field:2001:db8::1->ipv6_src,output:1",
         "1:35: 'ipv6_src' works on IPv6, and the flow may match other packets"},
        {"ip,actions=set_field:10.0.0.1,output:1", "1:12: '->' and a field are missing"},
        {"ip,actions=set_field:1->metadata,output:1", "1:25: 'metadata' is not a field that the switch can set"},
        {"actions=set_field:1->vlan_vid,output:1",
         "1:22: 'vlan_vid' works on tagged packets, and the flow may match other packets"},
        {"actions=push_vlan:0x8100,push_vlan:0x8100,push_vlan:0x8100,output:1", "1:43: a flow can push 2 tags at most"},
        {"actions=push_vlan:0x9100,output:1", "1:19: a tag is of type 0x8100 or 0x88a8"},
        {"actions=mod_dl_src(02:00:00:00:00:01", "1:9: ')' is missing"},
        {"actions=group:3", "1:1: there is no group 3"},
    };
    for (const Case& wrong : cases)
        EXPECT_EQ(text_of(refusal_of("file: " + scratch_file("wrong.flows", wrong.flow))), wrong.mistake) << wrong.flow;
    EXPECT_EQ(text_of(refusal_of(
                  "file: " + scratch_file("wrong.flows",
                                          "# fine\n\n  actions=drop # fine, too\n   ip , nonsense=1 actions=drop\n"))),
              "4:9: 'nonsense' is not a field that the switch looks at");
}

TEST(Switch, RefusesOptionsThatItDoesNotKnow) {
    EXPECT_EQ(refusal_of("flow: []").hint, "did you mean 'flows'?");
    EXPECT_EQ(refusal_of("engine: bit-vectors").message,
              "'bit-vectors' is not one of linear, tuple, bloom, merged, auto");
    EXPECT_EQ(refusal_of("ports: {1: nowhere}").message, "there is no port 'nowhere'");
    EXPECT_EQ(refusal_of("flows: ['actions=output:5']").message, "there is no port '5'");
    EXPECT_EQ(refusal_of("flows: ['actions=output:5']").hint,
              "the ports are 1 (port0), 2 (port1), 3 (port2), 4 (port3)");
}

}  // namespace
}  // namespace millrace
