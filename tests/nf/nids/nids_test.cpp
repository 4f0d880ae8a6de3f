// The NF as a whole: golden packets, all halves against each other, options.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "captures.hpp"
#include "millrace/nf/nids/evaluate.hpp"
#include "support/data.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

TEST(Nids, DoesWhatItsGoldenPacketsSay) { test::run_golden("nids"); }

TEST(Nids, AllHalvesAgreeOnRandomTraffic) {
    test::Rng rng(1);
    test::RandomOptions random;
    random.max_payload = 300;
    random.adjust = [](test::PacketSpec& spec, test::Rng& draw) {
        // Few letters, so that contents and their relatives occur by chance.
        for (uint8_t& byte : spec.payload) byte = static_cast<uint8_t>("abcdAB1 \n"[draw() % 9]);
    };
    test::check_halves_agree("nids", R"(
mode: ips
rule:
- 'alert ip any any -> any any (content:"ab"; content:"c"; distance:1; within:3; content:"d"; distance:0; within:2; sid:1;)'
- 'drop udp any any -> any any (content:"abc"; nocase; content:!"dd"; pcre:"/b+c[ad]{2}/"; sid:2;)'
- 'alert tcp any any -> any any (content:"b"; offset:3; depth:5; byte_test:1,>,98,0,relative; isdataat:20,relative; sid:3;)'
- 'alert ip any any -> any any (content:"1"; byte_jump:1,0,relative,string,dec; content:"a"; distance:0; within:1; sid:4;)'
- 'pass tcp any any -> any any (content:"cccc"; sid:5;)'
- 'alert tcp any any -> any :30000 (flags:S+; dsize:>10; sid:6;)'
- 'alert icmp any any -> any any (itype:8; pcre:"/^a/"; sid:7;)'
- 'alert ip any any -> any any (content:"a"; endswith; sid:8;)'
)",
                             test::random_packets(rng, 1500, random));
}

TEST(Nids, AllHalvesAgreeOnRealTrafficWithRealRules) {
    MILLRACE_NEEDS_DATA("ids-rules");
    std::vector<test::Frame> frames;
    for (const char* folder : {"pcap/curated/suricata", "pcap/curated/zeek", "pcap/curated/ndpi"}) {
        if (!std::filesystem::exists(test::data_path(folder))) continue;
        for (const auto& file : std::filesystem::directory_iterator(test::data_path(folder)))
            for (test::Frame& frame : read_capture(file.path().string(), 150)) frames.push_back(std::move(frame));
    }
    ASSERT_GT(frames.size(), 300u);
    if (frames.size() > 1100) frames.resize(1100);
    test::check_halves_agree(
        "nids",
        "{flows: none, rules: [" + test::data_path("ids-rules/snort3-community/snort3-community.rules.xz") + "]}",
        frames);
}

TEST(Nids, TellsEveryAlertHoweverManyRulesMatch) {
    std::string options = "rule:\n";
    for (int i = 1; i <= 20; ++i)
        options += "- 'alert ip any any -> any any (content:\"" + std::string(1, static_cast<char>('z' - i)) +
                   "\"; sid:" + std::to_string(i) + ";)'\n";
    for (int i = 21; i <= 1000; ++i)
        options += "- 'alert ip any any -> any any (content:\"xy\"; dsize:<" + std::to_string(i + 10) +
                   "; sid:" + std::to_string(i) + ";)'\n";
    test::NfRunner runner("nids", options);
    const std::vector<test::Frame> frames = {
        test::build_packet("{ipv4: {}, udp: {}, payload: abcdefghijklmnopqrstuvwxyz}"),
        test::build_packet("{ipv4: {}, udp: {}, payload: yyyyy}")};
    for (const test::Half& half : test::halves(runner.type())) {
        const auto result = runner.run(frames, half);
        ASSERT_EQ(result.events.size(), 1001u) << half.text();
        for (uint32_t i = 0; i < 1000; ++i) {
            ASSERT_EQ(result.events[i].code, i) << half.text();
            ASSERT_EQ(result.events[i].order, i) << half.text();
        }
        EXPECT_EQ(result.events[1000].code, 0u) << "the letter y alone, " << half.text();
        EXPECT_EQ(result.decisions[0].detail, 0u) << half.text();
    }
}

TEST(Nids, ForgetsAThousandAlertsWhereAPassRuleMatches) {
    std::string options = "rule:\n";
    for (int i = 1; i <= 1000; ++i)
        options += "- 'alert ip any any -> any any (content:\"xy\"; dsize:<" + std::to_string(i + 10) +
                   "; sid:" + std::to_string(i) + ";)'\n";
    options += "- 'pass ip any any -> any any (content:\"ab\"; sid:1001;)'\n";
    test::NfRunner runner("nids", options);
    const std::vector<test::Frame> frames = {test::build_packet("{ipv4: {}, udp: {}, payload: abxy}"),
                                             test::build_packet("{ipv4: {}, udp: {}, payload: acxy}")};
    for (const test::Half& half : test::halves(runner.type())) {
        const auto result = runner.run(frames, half);
        EXPECT_EQ(result.events.size(), 1000u) << half.text();
        EXPECT_TRUE(std::all_of(result.events.begin(), result.events.end(), [](const Event& event) {
            return event.packet == 1;
        })) << half.text();
        EXPECT_EQ(result.decisions[0].outcome, kClean) << half.text();
    }
}

/// Rules for the same few contents, most of which ask for nothing else: what one of them says may make others idle.
TEST(Nids, DecidesAsEachRuleByItselfWouldHoweverManyShareAContent) {
    struct Verb {
        const char *action, *option;
        bool pass, drop, alert;
    };
    constexpr Verb kVerbs[] = {{"pass", "", true, false, false},
                               {"drop", "", false, true, true},
                               {"drop", "noalert; ", false, true, false},
                               {"alert", "", false, false, true},
                               {"reject", "", false, true, true}};
    const char* const kContents[] = {"first", "second", "sec"};
    const std::vector<test::Frame> frames = {
        test::build_packet("{ipv4: {}, udp: {}, payload: nothing}"),
        test::build_packet("{ipv4: {}, udp: {}, payload: a First one}"),
        test::build_packet("{ipv4: {}, tcp: {}, payload: a SECOND one}"),
        test::build_packet("{ipv6: {}, tcp: {}, payload: secfirst}"),
        test::build_packet("{ipv4: {}, udp: {}, payload: second and first}"),
        test::build_packet("{ipv6: {}, udp: {}, payload: fir.st seconds}"),
    };
    const std::vector<std::array<bool, 3>> holds = {{false, false, false}, {true, false, false}, {false, true, true},
                                                    {true, false, true},   {true, true, true},   {false, true, true}};
    const std::array<bool, 6> is_udp = {true, true, false, false, true, true};
    test::Rng rng(7);
    for (int round = 0; round < 60; ++round) {
        struct Drawn {
            const Verb* verb;
            size_t content;
            bool udp_only;
        };
        std::vector<Drawn> rules(1 + rng() % 9);
        std::string options = "mode: ips\nrule:\n";
        for (size_t i = 0; i < rules.size(); ++i) {
            rules[i] = {&kVerbs[rng() % std::size(kVerbs)], rng() % std::size(kContents), rng() % 4 == 0};
            options += fmt::format("- '{} {} any any -> any any (content:\"{}\"; nocase; {}sid:{};)'\n",
                                   rules[i].verb->action, rules[i].udp_only ? "udp" : "ip", kContents[rules[i].content],
                                   rules[i].verb->option, i + 1);
        }
        test::NfRunner runner("nids", options);
        for (const test::Half& half : test::host_halves(runner.type())) {
            const auto result = runner.run(frames, half);
            std::vector<size_t> alerts(frames.size());
            for (const Event& event : result.events) ++alerts[event.packet];
            for (size_t p = 0; p < frames.size(); ++p) {
                uint32_t pass = kNoDetail, drop = kNoDetail, alert = kNoDetail;
                size_t expected = 0;
                for (uint32_t i = static_cast<uint32_t>(rules.size()); i-- > 0;) {
                    if (!holds[p][rules[i].content] || (rules[i].udp_only && !is_udp[p])) continue;
                    if (rules[i].verb->pass) pass = i;
                    if (rules[i].verb->drop) drop = i;
                    if (!rules[i].verb->alert) continue;
                    alert = i;
                    ++expected;
                }
                const Decision decision = pass != kNoDetail    ? Decision{pass, kClean}
                                          : drop != kNoDetail  ? Decision{drop, kBlock}
                                          : alert != kNoDetail ? Decision{alert, kAlert}
                                                               : Decision{kNoDetail, kClean};
                EXPECT_EQ(result.decisions[p].outcome, decision.outcome) << half.text() << ", packet " << p << "\n"
                                                                         << options;
                EXPECT_EQ(result.decisions[p].detail, decision.detail) << half.text() << ", packet " << p << "\n"
                                                                       << options;
                EXPECT_EQ(alerts[p], pass != kNoDetail ? 0 : expected) << half.text() << ", packet " << p << "\n"
                                                                       << options;
            }
        }
    }
}

void expect_error(const std::string& options, const std::string& part) {
    try {
        test::NfRunner runner("nids", options);
        ADD_FAILURE() << "no error: " << options;
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
}

TEST(Nids, RefusesOptionsThatCannotBe) {
    expect_error("{}", "there are no rules");
    expect_error("{rule: 'alert tcp any any -> any any (sid:x;)'}", "not a number");
    expect_error("{rules: /nowhere.rules}", "/nowhere.rules");
    expect_error("{rule: 'alert tcp any any -> any any (sid:1;)', disable: [2]}", "no rule has the sid 2");
    expect_error("{rule: 'alert tcp any any -> any any (sid:1;)', variables: {HOME_NET: nonsense}}", "not an address");
    expect_error("{rule: 'alert tcp any any -> any any (sid:1;)', mode: loud}", "loud");
}

TEST(Nids, GoesOnWithoutBrokenRulesWhenAsked) {
    test::NfRunner runner(
        "nids",
        "{on-error: skip, rule: ['alert tcp any any -> any any (sid:x;)', 'alert ip any any -> any any (sid:1;)']}");
    const auto result = runner.run({test::build_packet("{ipv4: {}, udp: {}}")}, {1});
    EXPECT_EQ(result.events.size(), 1u);
}

}  // namespace
}  // namespace millrace::nf::nids
