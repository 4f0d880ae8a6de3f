// Rules that ask for what is counted of flows: what a model says of conversations, on every device.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

#include "nf/nids/flows/talk.hpp"
#include "nf/nids/streams/sessions.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

using test::Frame;

/// What a flow has, by a model that counts what is said, and knows nothing of sequence numbers.
struct Counted {
    bool tcp = false;
    size_t client = 0, server = 0;
    bool client_ends = false, server_ends = false;  ///< a FIN waits for its acknowledgement
    std::set<int> bits;
    std::map<char, uint32_t> ints;

    uint32_t number(char name) const { return ints.contains(name) ? ints.at(name) : 0; }
    void take(const Said& said) {
        if (said.flags == 0 || said.forged) return;
        tcp = true;
        size_t& own = said.to_server ? client : server;
        size_t& other = said.to_server ? server : client;
        bool& other_ends = said.to_server ? server_ends : client_ends;
        own += said.text.size() + ((said.flags & tcp::kSyn) != 0 ? 1 : 0);
        if ((said.flags & tcp::kAck) != 0 && other_ends) ++other, other_ends = false;
        if ((said.flags & tcp::kFin) != 0) (said.to_server ? client_ends : server_ends) = true;
    }
};

struct NumberRule {
    char letter;
    std::string options;
    std::function<bool(const Counted&)> asks;
    std::function<void(Counted&)> does = [](Counted&) {};
};

std::function<bool(const Counted&)> of_tcp(std::function<bool(const Counted&)> asks) {
    return [asks = std::move(asks)](const Counted& flow) { return flow.tcp && asks(flow); };
}

const std::vector<NumberRule>& number_rules() {
    const auto always = [](const Counted&) { return true; };
    static const std::vector<NumberRule> rules = {
        {'a', "stream_size:client,<,12;", of_tcp([](auto& flow) { return flow.client < 12; })},
        {'b', "stream_size:server,>,7;", of_tcp([](auto& flow) { return flow.server > 7; })},
        {'c', "stream_size:both,>=,5;", of_tcp([](auto& flow) { return flow.client >= 5 && flow.server >= 5; })},
        {'d', "stream_size:either,=,9;", of_tcp([](auto& flow) { return flow.client == 9 || flow.server == 9; })},
        {'e', "stream_size:either,!=,1;", of_tcp([](auto& flow) { return flow.client != 1 || flow.server != 1; })},
        {'f', "stream_size:server,<=,1;", of_tcp([](auto& flow) { return flow.server <= 1; })},
        {'g', "stream_size:client,>,3; stream_size:client,<,9;",
         of_tcp([](auto& flow) { return flow.client > 3 && flow.client < 9; })},
        {'h', "stream_size:client,>,4; flowbits:set,one;", of_tcp([](auto& flow) { return flow.client > 4; }),
         [](Counted& flow) { flow.bits.insert(1); }},
        {'i', "flowbits:isset,one; stream_size:server,>,4;",
         of_tcp([](auto& flow) { return flow.bits.contains(1) && flow.server > 4; })},
        {'j', "flowint:n,+,1;", always, [](Counted& flow) { ++flow.ints['n']; }},
        {'k', "flowint:n,>,2; flowint:n,-,2;",
         [](const Counted& flow) { return flow.ints.contains('n') && flow.ints.at('n') > 2; },
         [](Counted& flow) { flow.ints['n'] -= 2; }},
        {'l', "flowint:n,==,m;",
         [](const Counted& flow) { return flow.ints.contains('n') && flow.ints.at('n') == flow.number('m'); }},
        {'m', "flowint:m,=,n;", always, [](Counted& flow) { flow.ints['m'] = flow.number('n'); }},
        {'n', "flowint:m,notset;", [](const Counted& flow) { return !flow.ints.contains('m'); }},
    };
    return rules;
}
/// Their letters in the order in which they are asked: those that set bits, then those that ask for them, then those
/// that set numbers, that do both, that ask for them, and the others.
constexpr std::string_view kAskedSo = "hijmklnabcdefg";

std::string number_options(const char* flows) {
    std::string text = std::string("{flows: ") + flows + ", rule: [";
    for (size_t i = 0; i < number_rules().size(); ++i)
        text += "'alert ip any any -> any any (content:\"" + std::string(1, number_rules()[i].letter) + "\"; " +
                number_rules()[i].options + " sid:" + std::to_string(i + 1) + ";)', ";
    // No conversation has it: it asks for messages, where they are followed.
    return text + "'alert http any any -> any any (http.uri; content:\"/zzz\"; sid:100;)']}";
}

std::vector<std::set<uint32_t>> count_and_judge(const std::vector<Said>& said) {
    std::map<size_t, Counted> flows;
    std::vector<std::set<uint32_t>> all;
    for (const Said& packet : said) {
        Counted& flow = flows[packet.flow];
        flow.take(packet);
        std::set<uint32_t> alerts;
        for (const char letter : kAskedSo) {
            const auto i = static_cast<uint32_t>(letter - 'a');
            const NumberRule& rule = number_rules()[i];
            if (packet.text.find(rule.letter) == std::string::npos || !rule.asks(flow)) continue;
            rule.does(flow);
            alerts.insert(i);
        }
        all.push_back(std::move(alerts));
    }
    return all;
}

void expect_every_rule_told(const std::vector<std::set<uint32_t>>& judged) {
    std::map<uint32_t, size_t> of_rule;
    for (const std::set<uint32_t>& alerts : judged)
        for (const uint32_t rule : alerts) ++of_rule[rule];
    for (uint32_t i = 0; i < number_rules().size(); ++i)
        ASSERT_GT(of_rule[i], 5u) << "equal must not be equally nothing: rule " << i;
}

struct Followed {
    const char* flows;
    const char* type;
};
const Followed kFollowed[] = {{"{max-flows: 4k, streams: none}", "nids:flow-numbers"},
                              {"{max-flows: 4k}", "nids:stream-numbers"},
                              {"{max-flows: 4k, streams: {http: usual}}", "nids:message-numbers"}};

/// One conversation and many, batch by batch of any size.
TEST(NidsNumbers, AreWhatTheModelSaysOnEveryEngine) {
    for (const Followed& followed : kFollowed) {
        const std::string options = number_options(followed.flows);
        for (const size_t conversations : {1u, 150u}) {
            const std::vector<Said> said = mixed_conversations(conversations, 11);
            const auto judged = count_and_judge(said);
            if (conversations > 1) expect_every_rule_told(judged);
            for (const test::Half& half : test::halves(test::NfRunner("nids", options).type())) {
                SCOPED_TRACE(std::string(followed.type) + ", " + half.text());
                test::NfRunner runner("nids", options);
                ASSERT_EQ(runner.type().name, followed.type);
                run_in_batches(runner, half, said, [&](size_t i, const std::set<uint32_t>& told, uint32_t) {
                    ASSERT_EQ(told, judged[i]) << "packet " << i << ", '" << said[i].text << "'";
                });
            }
        }
    }
}

class NidsNumbersOnDevices : public test::DeviceInMode {};

TEST_P(NidsNumbersOnDevices, AreWhatTheModelSays) {
    for (const size_t conversations : {1u, 1000u}) {
        std::vector<Said> said = mixed_conversations(conversations, 12);
        said.resize(std::min<size_t>(said.size(), 8000));  // what the pool of frames has room for
        std::set<uint32_t> clients;
        for (const Said& each : said) clients.insert(load_be32(each.frame.data() + (each.to_server ? 26 : 30)));
        EXPECT_GE(clients.size(), std::min<size_t>(conversations, 900));
        const auto judged = count_and_judge(said);
        exec::OffloadOptions options;
        options.mode = mode();
        const auto chain = test::make_configuration("[nids: " + number_options(kFollowed[1].flows) + "]", name());
        const test::EngineRun run = test::run_on_device(device(7), chain, frames_of(said), 130, options);
        ASSERT_EQ(run.outcomes.size(), said.size());
        size_t alerts = 0;
        for (size_t i = 0; i < said.size(); ++i) {
            alerts += judged[i].size();
            ASSERT_EQ(run.outcomes[i].visits[0].decision.outcome, judged[i].empty() ? 0u : 1u)
                << "packet " << i << ", '" << said[i].text << "'";
        }
        for (const Statistic& each : chain.chains[0]->nodes[0].nf->statistics()) {
            if (each.name == "alerts") {
                EXPECT_EQ(each.value, alerts);
            } else if (each.name == "entries") {
                EXPECT_EQ(each.value, clients.size());
            }
        }
        EXPECT_EQ(run.counters->retried_on_cpu.get(), 0u);
    }
}
INSTANTIATE_TEST_SUITE_P(Devices, NidsNumbersOnDevices, testing::ValuesIn(test::devices_in_every_mode()),
                         test::device_in_mode_name);

/// A generation with other rules goes on counting, and begins where none asked before.
TEST(NidsNumbers, StayWithTheNextGeneration) {
    const std::vector<Said> said = mixed_conversations(60, 13);
    const auto judged = count_and_judge(said);
    const size_t half = said.size() / 2;
    const auto text = [](const char* more) {
        std::string options = number_options(kFollowed[0].flows);
        return "[nids: " + options.insert(options.rfind("]"), more) + "]";
    };
    const auto before = test::make_configuration(text(""), "cpu");
    test::run_on_cpu(before, frames_of(said, 0, half), 100);
    const auto after = test::make_configuration(
        text(", 'alert ip any any -> any any (content:\"zz\"; stream_size:client,>,1; sid:99;)'"), "cpu", 0, "(test)",
        &before);
    const test::EngineRun rest = test::run_on_cpu(after, frames_of(said, half), 100);
    for (size_t i = half; i < said.size(); ++i)
        ASSERT_EQ(rest.outcomes[i - half].visits[0].decision.outcome, judged[i].empty() ? 0u : 1u) << "packet " << i;
}

/// What has no room any more is cleared, and said so.
TEST(NidsNumbers, AreClearedWhereTooManyNewOnesHaveCome) {
    const auto text = [](size_t ints) {
        std::string rules =
            "[nids: {rule: ['alert udp any any -> any any (content:\"set\"; flowint:a,=,3; sid:1;)', "
            "'alert udp any any -> any any (content:\"ask\"; flowint:a,==,3; sid:2;)'";
        for (size_t i = 0; i < ints; ++i)
            rules += fmt::format(", 'alert udp any any -> any any (content:\"more\"; flowint:n{},>,1; sid:{};)'", i,
                                 i + 3);
        return rules + "]}]";
    };
    const std::vector<Frame> sets = {test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: set}")};
    const std::vector<Frame> asks = {test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}, payload: ask}")};
    const auto outcome = [](const chain::Configuration& chain, const std::vector<Frame>& frames) {
        return test::run_on_cpu(chain, frames, 1).outcomes[0].visits[0].decision.outcome;
    };
    const auto first = test::make_configuration(text(0), "cpu");
    EXPECT_EQ(outcome(first, sets), 1u);
    const auto more = test::make_configuration(text(7), "cpu", 0, "(test)", &first);
    EXPECT_EQ(outcome(more, asks), 1u) << "there was room for eight";
    EXPECT_TRUE(more.warnings.empty());
    const auto too_many = test::make_configuration(text(8), "cpu", 0, "(test)", &more);
    EXPECT_EQ(outcome(too_many, asks), 0u);
    ASSERT_EQ(too_many.warnings.size(), 1u);
}

/// Rules that ask for numbers may come and go: bits stay, and bytes are counted from where one asks.
TEST(NidsNumbers, ComeAndGoWithTheRulesThatAsk) {
    const auto text = [](const char* rules) {
        return std::string(
                   "[nids: {flows: {streams: none}, rule: ['alert tcp any any -> any any (content:\"set\"; "
                   "flowbits:set,one; sid:1;)', ") +
               rules + "]}]";
    };
    const char* const plain = "'alert tcp any any -> any any (content:\"ask\"; flowbits:isset,one; sid:2;)'";
    const std::string asking =
        "'alert tcp any any -> any any (content:\"ask\"; flowbits:isset,one; "
        "stream_size:client,=,4; stream_size:server,=,1; sid:2;)'";
    Session session(1, 100);
    session.send("setask.ask.ask", {0, 3});
    session.send("setask.ask.ask", {3, 3});
    session.send("setask.ask.ask", {6, 4});
    session.send("setask.ask.ask", {10, 4});
    const std::vector<Frame>& frames = session.frames;
    const auto outcome = [](const chain::Configuration& chain, const std::vector<Frame>& some) {
        return test::run_on_cpu(chain, some, 9).outcomes.back().visits[0].decision.outcome;
    };
    const auto type_of = [](const chain::Configuration& chain) { return chain.chains[0]->nodes[0].type->name; };
    const auto first = test::make_configuration(text(plain), "cpu");
    EXPECT_EQ(type_of(first), "nids:flows");
    EXPECT_EQ(outcome(first, {frames.begin(), frames.begin() + 4}), 1u);
    const auto second = test::make_configuration(text(asking.c_str()), "cpu", 0, "(test)", &first);
    EXPECT_EQ(type_of(second), "nids:flow-numbers");
    EXPECT_EQ(outcome(second, {frames[4]}), 1u) << "three bytes, and where they begin";
    EXPECT_EQ(outcome(second, {frames[5]}), 0u) << "seven";
    const auto third = test::make_configuration(text(plain), "cpu", 0, "(test)", &second);
    EXPECT_EQ(type_of(third), "nids:flows");
    EXPECT_EQ(outcome(third, {frames[6]}), 1u);
    EXPECT_TRUE(second.warnings.empty());
    EXPECT_TRUE(third.warnings.empty());
}

/// Bytes of several segments, or of an HTTP message: what the flow has counts when the last of them comes.
TEST(NidsNumbers, AreAskedWhereSegmentsMeetARuleTogether) {
    const std::string request = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\n\r\n";
    const std::string text = request + "..needle..needle....needle";
    const auto size = [&](size_t bytes) { return request.size() + bytes + 1; };
    for (const char* http : {"none", "usual"}) {
        const std::string options = fmt::format(
            "{{flows: {{max-flows: 4k, streams: {{http: {}}}}}, rule: ["
            "'alert tcp any any -> any any (content:\"needle\"; flowint:n,+,1; sid:1;)', "
            "'alert tcp any any -> any any (content:\"needle\"; flowint:n,==,2; sid:2;)', "
            "'alert tcp any any -> any any (content:\"needle\"; stream_size:client,=,{}; sid:3;)', "
            "'alert tcp any any -> any any (content:\"eedl\"; nocase; http_client_body; stream_size:client,>,{}; "
            "sid:4;)']}}",
            http, size(26), size(5));
        const bool messages = std::string_view(http) == "usual";
        std::vector<Session> sessions;
        for (uint32_t i = 0; i < 33; ++i) {
            Session& session = sessions.emplace_back(i, 0xfffffff0u + i);
            const size_t head = request.size();
            const size_t cuts[] = {0, head, head + 5, head + 8, head + 13, head + 16, head + 23, head + 26};
            for (size_t k = 0; k + 1 < std::size(cuts); ++k) session.send(text, {cuts[k], cuts[k + 1] - cuts[k]});
        }
        std::vector<Frame> frames;
        for (size_t k = 0; k < sessions[0].frames.size(); ++k)
            for (const Session& session : sessions) frames.push_back(session.frames[k]);
        for (const test::Half& half : test::halves(test::NfRunner("nids", options).type())) {
            SCOPED_TRACE(half.text());
            test::NfRunner runner("nids", options);
            ASSERT_EQ(runner.type().name, messages ? "nids:message-numbers" : "nids:stream-numbers");
            const auto result = runner.run(frames, half);
            std::map<uint32_t, std::vector<uint32_t>> turns;  // of a rule: which packet of each session, in order
            for (const Event& event : result.events)
                if (event.packet % sessions.size() == 7)
                    turns[event.code].push_back(static_cast<uint32_t>(event.packet / sessions.size()));
            EXPECT_EQ(turns[0], (std::vector<uint32_t>{5, 7, 9}))
                << "behind the handshake, the head, and the first parts";
            EXPECT_EQ(turns[1], std::vector<uint32_t>{7});
            EXPECT_EQ(turns[2], std::vector<uint32_t>{9});
            if (messages) {
                EXPECT_EQ(turns[3], std::vector<uint32_t>{5});
            }
            EXPECT_EQ(result.events.size() % sessions.size(), 0u) << "all sessions are alike";
        }
    }
}

}  // namespace
}  // namespace millrace::nf::nids
