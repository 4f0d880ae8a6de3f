// The NF as a whole: golden packets, all engines against each other, options.
#include <gtest/gtest.h>

#include <filesystem>

#include "captures.hpp"
#include "support/data.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

TEST(Nids, DoesWhatItsGoldenPacketsSay) { test::run_golden("nids"); }

TEST(Nids, AllEnginesAgreeOnRandomTraffic) {
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
)", test::random_packets(rng, 1500, random));
}

TEST(Nids, AllEnginesAgreeOnRealTrafficWithRealRules) {
    MILLRACE_NEEDS_DATA("ids-rules");
    std::vector<test::Frame> frames;
    for (const char* folder : {"pcap/curated/suricata", "pcap/curated/zeek", "pcap/curated/ndpi"}) {
        if (!std::filesystem::exists(test::data_path(folder))) continue;
        for (const auto& file : std::filesystem::directory_iterator(test::data_path(folder)))
            for (test::Frame& frame : read_capture(file.path().string(), 150)) frames.push_back(std::move(frame));
    }
    ASSERT_GT(frames.size(), 300u);
    if (frames.size() > 1100) frames.resize(1100);
    test::check_halves_agree("nids", "rules: [" + test::data_path("ids-rules/snort3-community/snort3-community.rules.xz") + "]", frames);
}

TEST(Nids, TellsAtMostFifteenAlertsAndCountsTheRest) {
    std::string options = "rule:\n";
    for (int i = 1; i <= 20; ++i)
        options += "- 'alert ip any any -> any any (content:\"" + std::string(1, static_cast<char>('z' - i)) + "\"; sid:" + std::to_string(i) + ";)'\n";
    test::NfRunner runner("nids", options);
    const auto result = runner.run({test::build_packet("{ipv4: {}, udp: {}, payload: abcdefghijklmnopqrstuvwxyz}")}, {8});
    ASSERT_EQ(result.events.size(), 16u);
    for (uint32_t i = 0; i < 15; ++i) EXPECT_EQ(result.events[i].code, i);
    EXPECT_EQ(result.events[15].code, 0x80000000u | 5);
    EXPECT_EQ(result.decisions[0].detail, 0u);
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
    test::NfRunner runner("nids", "{on-error: skip, rule: ['alert tcp any any -> any any (sid:x;)', 'alert ip any any -> any any (sid:1;)']}");
    const auto result = runner.run({test::build_packet("{ipv4: {}, udp: {}}")}, {1});
    EXPECT_EQ(result.events.size(), 1u);
}

}  // namespace
}  // namespace millrace::nf::nids
