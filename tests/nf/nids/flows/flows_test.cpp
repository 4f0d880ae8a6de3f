// Rules that ask for flows: what a model says of conversations, on every device, in any batches, by any workers.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/nf/nids/flows/device.hpp"
#include "millrace/nf/variant.hpp"

#include "nf/nids/captures.hpp"
#include "nf/nids/flows/talk.hpp"
#include "support/data.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

using test::EngineRun;
using test::Frame;

uint64_t statistic(NetworkFunction& nf, const std::string& name) {
    for (const Statistic& each : nf.statistics())
        if (each.name == name) return each.value;
    ADD_FAILURE() << name << " is not counted";
    return 0;
}
uint64_t statistic(const chain::Configuration& configuration, const std::string& name, size_t node = 0) {
    return statistic(*configuration.chains[0]->nodes[node].nf, name);
}

/// Batch by batch of any size, with room for so many notes of packets.
void expect_as_judged(const std::vector<Said>& said, const std::vector<Judged>& judged, const test::Half& half,
                      uint32_t notes) {
    SCOPED_TRACE(half.text() + ", " + std::to_string(notes) + " notes");
    test::NfRunner runner("nids", kFlowRules);
    ASSERT_EQ(runner.type().name, "nids:flows");
    auto& tables = *static_cast<NidsOfFlows::Tables*>(const_cast<void*>(runner.nf().image().tables()));
    ASSERT_EQ(tables.rules.notes.words.size(), RuleNotes::kUsual * RuleNotes::kWords);
    tables.rules.notes.words = {tables.rules.notes.words.data(), size_t{notes} * RuleNotes::kWords};
    run_in_batches(runner, half, said, [&](size_t i, const std::set<uint32_t>& told, uint32_t outcome) {
        ASSERT_EQ(told, judged[i].alerts) << "packet " << i << ", '" << said[i].text << "'";
        ASSERT_EQ(outcome, judged[i].outcome) << "packet " << i;
    });
    const uint64_t noted = tables.rules.notes.counts[RuleNotes::kTaken],
                   again = statistic(runner.nf(), "rules-asked-again");
    if (half.device.empty()) {
        EXPECT_EQ(noted > 0, notes > 0);
        EXPECT_EQ(again > 0, notes == 1);
    }
}

/// Batch by batch of any size, what was told of each packet and decided on it.
TEST(NidsFlows, AreWhatTheModelSaysInEveryHalf) {
    const std::vector<Said> said = mixed_conversations(150, 1);
    const std::vector<Judged> judged = judge(said);
    std::map<uint32_t, size_t> of_rule, of_outcome;
    for (const Judged& each : judged) {
        for (const uint32_t rule : each.alerts) ++of_rule[rule];
        ++of_outcome[each.outcome];
    }
    for (const uint32_t rule : {1u, 2u, 3u, 4u, 5u, 6u, 8u, 9u, 10u, 11u, 12u, 13u})
        ASSERT_GT(of_rule[rule], 10u) << "equal must not be equally nothing: rule " << rule;
    ASSERT_GT(of_outcome[2], 10u);
    for (const test::Half& half : test::halves(test::NfRunner("nids", kFlowRules).type()))
        expect_as_judged(said, judged, half, RuleNotes::kUsual);
}

/// What no note tells of is looked for again: where all are lost, and where there are none.
TEST(NidsFlows, AreTheSameWithoutNotes) {
    const std::vector<Said> said = mixed_conversations(150, 2);
    const std::vector<Judged> judged = judge(said);
    for (const test::Half& half : test::host_halves(test::NfRunner("nids", kFlowRules).type()))
        for (const uint32_t notes : {1u, 0u}) expect_as_judged(said, judged, half, notes);
}

/// A chain of that NIDS, with a rule more in front of its own and one behind them.
std::string chain_text(const std::string& front = {}, const std::string& back = {}) {
    std::string text = "\n    - nids:";
    std::string options = kFlowRules;
    const std::string head = "rule:\n";
    options.insert(options.find(head) + head.size(), front);
    for (const char c : options + back) {
        text += c;
        if (c == '\n') text += "          ";
    }
    return text;
}

void expect_judged(const std::vector<Said>& said, const std::vector<Judged>& judged, const EngineRun& run) {
    ASSERT_EQ(run.outcomes.size(), said.size());
    for (size_t i = 0; i < said.size(); ++i)
        ASSERT_EQ(run.outcomes[i].visits[0].decision.outcome, judged[i].outcome)
            << "packet " << i << ", '" << said[i].text << "'";
}

size_t alerts_in(const std::vector<Judged>& judged) {
    size_t alerts = 0;
    for (const Judged& each : judged) alerts += each.alerts.size();
    return alerts;
}

class NidsFlowsOnDevices : public test::DeviceInMode {};

TEST_P(NidsFlowsOnDevices, AreWhatTheModelSays) {
    const std::vector<Said> said = mixed_conversations(100, 2);
    const std::vector<Judged> judged = judge(said);
    exec::OffloadOptions options;
    options.mode = mode();
    const auto chain = test::make_configuration(chain_text(), name());
    expect_judged(said, judged, test::run_on_device(device(7), chain, frames_of(said), 130, options));
    EXPECT_EQ(statistic(chain, "alerts"), alerts_in(judged));
    EXPECT_EQ(statistic(chain, "entries"), 100u);
}
INSTANTIATE_TEST_SUITE_P(Devices, NidsFlowsOnDevices, testing::ValuesIn(test::devices_in_every_mode()),
                         test::device_in_mode_name);

/// Workers share the flows of a node; packets of one flow come to one of them.
TEST(NidsFlows, AreSharedByWorkers) {
    const std::vector<Said> said = mixed_conversations(1000, 3);
    const auto chain = test::make_configuration(chain_text(), "cpu");
    test::frame_pool();
    const auto work = [&](size_t worker) {
        test::Collector collector(false);
        exec::CpuEngine engine(collector);
        exec::ChainCounters counters(*chain.chains[0]);
        std::vector<rte_mbuf*> mbufs;
        const auto submit = [&] {
            engine.submit(chain.chains[0], counters, mbufs.data(), mbufs.size());
            mbufs.clear();
            collector.outcomes.clear();
        };
        for (size_t i = 0; i < said.size(); ++i) {
            // The client's address is that of one conversation.
            const Frame& frame = said[i].frame;
            const uint32_t client = load_be32(frame.data() + (said[i].to_server ? 26 : 30));
            if (client % 3 != worker) continue;
            mbufs.push_back(test::make_mbuf(frame, i));
            if (mbufs.size() == 100) submit();
        }
        submit();
    };
    std::thread first(work, 0), second(work, 1), third(work, 2);
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(statistic(chain, "alerts"), alerts_in(judge(said)));
    EXPECT_EQ(statistic(chain, "entries"), 1000u);
}

/// A generation with other rules has the flows of the one before it, and the bits whose names it has, too.
TEST(NidsFlows, StayWithTheNextGeneration) {
    const std::vector<Said> said = mixed_conversations(60, 4);
    const std::vector<Judged> judged = judge(said);
    const size_t half = said.size() / 2;
    // Other names come before those that stay, and behind.
    const std::string other = chain_text(
        "- 'alert ip any any -> any any (content:\"zzz\"; flowbits:set,another; sid:98;)'\n",
        "- 'alert ip any any -> any any (content:\"zz\"; flowbits:isset,new; sid:99;)'\n");
    const auto before = test::make_configuration(chain_text(), "cpu");
    test::run_on_cpu(before, frames_of(said, 0, half), 100);
    const auto after = test::make_configuration(other, "cpu", 0, "(test)", &before);
    const EngineRun rest = test::run_on_cpu(after, frames_of(said, half), 100);
    for (size_t i = half; i < said.size(); ++i)
        ASSERT_EQ(rest.outcomes[i - half].visits[0].decision.outcome, judged[i].outcome) << "packet " << i;
    EXPECT_EQ(statistic(after, "entries-lost"), 0u);
    EXPECT_EQ(statistic(after, "entries"), 60u);
}

TEST(NidsFlows, LoseTheirBitsWhereTooManyNewOnesHaveCome) {
    const auto text = [](size_t bits) {
        std::string rules = "[nids: {rule: [";
        for (size_t i = 0; i < bits; ++i)
            rules += fmt::format("'alert udp any any -> any any (content:\"set\"; flowbits:set,b{}; sid:{};)', ", i,
                                 i + 1);
        return rules + "'alert udp any any -> any any (content:\"ask\"; flowbits:isset,b0; sid:9999;)']}]";
    };
    const Frame sets = test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: set}");
    const Frame asks = test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: ask}");
    const auto first = test::make_configuration(text(1), "cpu");
    test::run_on_cpu(first, {sets, asks}, 2);
    EXPECT_EQ(statistic(first, "alerts"), 2u);
    const auto more = test::make_configuration(text(60), "cpu", 0, "(test)", &first);
    test::run_on_cpu(more, {asks}, 1);
    EXPECT_EQ(statistic(more, "alerts"), 3u) << "there was room for 96";
    EXPECT_TRUE(more.warnings.empty());
    const auto too_many = test::make_configuration(text(200), "cpu", 0, "(test)", &more);
    test::run_on_cpu(too_many, {asks}, 1);
    EXPECT_EQ(statistic(too_many, "alerts"), 3u);
    ASSERT_EQ(too_many.warnings.size(), 1u);
    EXPECT_EQ(statistic(too_many, "entries"), 1u) << "the flow itself is known";
}

/// However many rules of a flow one packet meets, all of them are told, setters first.
TEST(NidsFlows, TellEveryAlertOfAPacket) {
    std::string options = "rule:\n";
    for (int i = 1; i <= 40; ++i)
        options += fmt::format("- 'alert ip any any -> any any (content:\"xy\"; flow:to_server; sid:{};)'\n", i);
    for (int i = 41; i <= 80; ++i)
        options += fmt::format("- 'alert ip any any -> any any (content:\"xy\"; flowbits:isset,b{}; sid:{};)'\n", i, i);
    for (int i = 81; i <= 120; ++i)
        options += fmt::format("- 'alert ip any any -> any any (content:\"xy\"; flowbits:set,b{}; sid:{};)'\n", i - 40,
                               i);
    const std::vector<Frame> frames = {test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: axyz}")};
    for (const test::Half& half : test::halves(test::NfRunner("nids", options).type())) {
        // An event's room is not the point: there is some for as many packets.
        test::NfRunner runner("nids", options);
        std::vector<Frame> with_others = frames;
        with_others.resize(40, test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: nothing}"));
        const auto result = runner.run(with_others, half);
        ASSERT_EQ(result.events.size(), 120u) << half.text();
        std::set<uint32_t> told;
        for (const Event& event : result.events) told.insert(event.code);
        EXPECT_EQ(told.size(), 120u) << half.text();
        EXPECT_EQ(result.decisions[0], (Decision{0, 1})) << half.text();
        for (uint32_t i = 0; i < 40; ++i) {
            EXPECT_EQ(result.events[i].code, 80 + i) << half.text();
            EXPECT_EQ(result.events[40 + i].code, 40 + i) << half.text();
            EXPECT_EQ(result.events[80 + i].code, i) << half.text();
        }
    }
}

/// What a batch has no room for is counted; a packet that has some told keeps them.
TEST(NidsFlows, CountAlertsThatFindNoRoom) {
    MILLRACE_NEEDS_DEVICE("sim");
    std::string text = "[nids: {rule: [";
    for (int i = 1; i <= 200; ++i)
        text += fmt::format("'alert ip any any -> any any (content:\"xy\"; flow:to_server; sid:{};)', ", i);
    const auto chain = test::make_configuration(text + "]}]", "sim");
    const std::vector<Frame> frames = {test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: axyz}")};
    const EngineRun run = test::run_on_device(test::open_device("sim", 1), chain, frames, 1);
    EXPECT_EQ(run.counters->of_node(0).events_lost.get(), 1u) << "one packet";
    EXPECT_EQ(run.counters->of_node(0).retold_on_cpu.get(), 0u);
    EXPECT_GT(statistic(chain, "alerts"), 60u);
    EXPECT_LT(statistic(chain, "alerts"), 200u);
}

/// A million connections that never become any, and one that is.
TEST(NidsFlows, HoldOutInAFloodOfSyns) {
    for (const bool evicts : {true, false}) {
        const auto chain = test::make_configuration(
            fmt::format("[nids: {{flows: {{max-flows: 1k, when-full: {}}}, rule: ['alert tcp any any -> any any "
                        "(content:\"evil\"; flow:established,to_server; sid:1;)']}}]",
                        evicts ? "evict" : "refuse"),
            "cpu");
        test::frame_pool();
        test::Collector collector(false);
        exec::CpuEngine engine(collector);
        exec::ChainCounters counters(*chain.chains[0]);
        Frame syn = test::build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, tcp: {src: 1, dst: 80, flags: S}}");
        std::vector<rte_mbuf*> mbufs;
        const auto send = [&](const std::vector<Frame>& frames) {
            for (const Frame& frame : frames) mbufs.push_back(test::make_mbuf(frame, 0));
            engine.submit(chain.chains[0], counters, mbufs.data(), mbufs.size());
            mbufs.clear();
            collector.outcomes.clear();
        };
        const auto talk = [](const char* what) {
            return test::build_packet(fmt::format("{{ipv4: {{src: {}, dst: {}}}, tcp: {}}}",
                                                  what[0] == 'c' ? "10.9.0.1" : "10.9.0.2",
                                                  what[0] == 'c' ? "10.9.0.2" : "10.9.0.1", what + 1));
        };
        send({talk("c{src: 7, dst: 80, seq: 1, flags: S, window: 9000}"),
              talk("s{src: 80, dst: 7, seq: 1, ack: 2, flags: SA, window: 9000}"),
              talk("c{src: 7, dst: 80, seq: 2, ack: 2, flags: A, window: 9000}")});
        const uint32_t kSyns = evicts ? 1'000'000 : 100'000;
        std::vector<Frame> burst(250, syn);
        for (uint32_t i = 0; i < kSyns; i += 250) {
            for (uint32_t k = 0; k < 250; ++k) store_be32(burst[k].data() + 26, 0x0b000000u + i + k);
            send(burst);
        }
        const Frame evil = talk("c{src: 7, dst: 80, seq: 2, ack: 2, flags: PA, window: 9000}, payload: evil");
        send({evil});
        EXPECT_EQ(statistic(chain, "alerts"), 1u) << "who has shaken hands stays: its time-out is the longest";
        EXPECT_LE(statistic(chain, "entries"), 2048u);
        EXPECT_GT(statistic(chain, evicts ? "entries-evicted" : "entries-refused"), kSyns - 3000);
        EXPECT_EQ(counters.received_packets.get(), kSyns + 4);
    }
}

TEST(NidsFlows, AreCountedWhenTheyGoWithADevice) {
    MILLRACE_NEEDS_DEVICE("sim");
    const std::vector<Said> said = mixed_conversations(300, 5);
    const auto chain = test::make_configuration(chain_text(), "sim");
    device::sim::SimOptions options;
    options.faults = {{device::sim::Fault::Kind::device_lost, 60}};
    const EngineRun run = test::run_on_device(std::make_shared<device::sim::SimDevice>(options), chain, frames_of(said),
                                              100, {}, test::Work::fault);
    test::expect_conserved(run, said.size());
    EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
    EXPECT_GT(statistic(chain, "entries-lost"), 0u);
}

/// Published rules, nearly all of which ask for flows, on recorded traffic.
TEST(NidsFlows, AreTheSameInEveryHalfWithRealRulesAndTraffic) {
    MILLRACE_NEEDS_DATA("ids-rules");
    std::vector<Frame> frames;
    for (const char* folder : {"pcap/curated/suricata", "pcap/curated/zeek", "pcap/curated/ndpi"}) {
        if (!std::filesystem::exists(test::data_path(folder))) continue;
        for (const auto& file : std::filesystem::directory_iterator(test::data_path(folder)))
            for (Frame& frame : read_capture(file.path().string(), 150)) frames.push_back(std::move(frame));
    }
    ASSERT_GT(frames.size(), 300u);
    const std::string folder = test::data_path("ids-rules/et-open-2025/emerging-");
    const std::string options = fmt::format(
        "{{flows: {{max-flows: 4k}}, rules: [{0}policy.rules.xz, {0}hunting.rules.xz, {0}user_agents.rules.xz]}}",
        folder);
    test::NfResult want;
    for (const test::Half& half : test::halves(test::NfRunner("nids", options).type())) {
        if (half.lanes == 32) continue;
        test::NfRunner runner("nids", options);
        ASSERT_EQ(runner.type().name, "nids:stream-numbers") << "some have stream_size";
        const auto result = runner.run(frames, half);
        if (want.decisions.empty()) {
            want = result;
            EXPECT_GT(want.events.size(), 10u);
            continue;
        }
        ASSERT_EQ(result.events.size(), want.events.size()) << half.text();
        for (size_t i = 0; i < want.events.size(); ++i) {
            ASSERT_EQ(result.events[i].packet, want.events[i].packet) << half.text();
            ASSERT_EQ(result.events[i].code, want.events[i].code) << half.text();
        }
        for (size_t i = 0; i < frames.size(); ++i) ASSERT_EQ(result.decisions[i], want.decisions[i]) << half.text();
    }
}

TEST(NidsFlows, CostNothingWhereNoRuleAsksForThem) {
    const auto type_of = [](const char* options) { return test::NfRunner("nids", options).type().name; };
    EXPECT_EQ(type_of("rule: ['alert ip any any -> any any (content:\"a\"; sid:1;)']"), "nids");
    EXPECT_EQ(type_of("rule: ['alert ip any any -> any any (content:\"a\"; flow:stateless; sid:1;)']"), "nids");
    EXPECT_EQ(type_of("{flows: none, rule: ['alert ip any any -> any any (content:\"a\"; flow:to_server; sid:1;)']}"),
              "nids");
    EXPECT_EQ(type_of("rule: ['alert ip any any -> any any (content:\"a\"; flow:to_server; sid:1;)']"), "nids:streams");
    EXPECT_EQ(type_of("rule: ['alert udp any any -> any any (content:\"a\"; flowbits:set,x; sid:1;)']"), "nids:flows");
    EXPECT_EQ(type_of("rule: ['alert tcp any any -> any any (dsize:3; flowbits:set,x; sid:1;)']"), "nids:flows");
    EXPECT_EQ(type_of("{flows: {streams: none}, rule: ['alert tcp any any -> any any (content:\"a\"; flow:to_server; "
                      "sid:1;)']}"),
              "nids:flows");
    EXPECT_EQ(type_of("{flows: {streams: {}}, rule: ['alert tcp any any -> any any (content:\"a\"; sid:1;)']}"),
              "nids:streams");
    EXPECT_EQ(type_of("{flows: {streams: {http: usual}}, rule: ['alert tcp any any -> any any (content:\"a\"; "
                      "http_client_body; sid:1;)']}"),
              "nids:messages");
    EXPECT_EQ(type_of("{flows: {streams: {http: usual}}, rule: ['alert tcp any any -> any any (content:\"a\"; "
                      "sid:1;)']}"),
              "nids:streams")
        << "no rule asks of messages";
    const auto numbers = [&](const char* flows, const char* more) {
        return type_of(fmt::format("{{flows: {}, rule: ['alert tcp any any -> any any (content:\"a\"; "
                                   "stream_size:client,>,9; {} sid:1;)']}}",
                                   flows, more)
                           .c_str());
    };
    EXPECT_EQ(numbers("{streams: none}", ""), "nids:flow-numbers");
    EXPECT_EQ(numbers("{max-flows: 9}", ""), "nids:stream-numbers");
    EXPECT_EQ(numbers("{streams: {http: usual}}", "http_client_body;"), "nids:message-numbers");
    EXPECT_EQ(type_of("{flows: {streams: {}}, rule: ['alert udp any any -> any any (content:\"a\"; sid:1;)']}"),
              "nids");
}

TEST(NidsFlows, RefuseOptionsThatMakeNoSense) {
    for (const char* flows :
         {"some", "{max-flows: 0}", "{max-flow: 3}", "{midstream: perhaps}", "{timeouts: {tcp: 3s}}",
          "{timeouts: {tcp-new: 0s}}", "{when-full: wait}", "{streams: some}", "{streams: {tail: 63}}",
          "{streams: {tail: 17k}}", "{streams: {late-segments: 65}}", "{streams: {tails: 64}}"})
        EXPECT_THROW(
            test::NfRunner("nids", fmt::format("{{flows: {}, rule: ['alert ip any any -> any any (sid:1;)']}}", flows)),
            ConfigError)
            << flows;
}

}  // namespace
}  // namespace millrace::nf::nids
