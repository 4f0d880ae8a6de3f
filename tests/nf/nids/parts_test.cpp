// The NIDS in parts (nf::Parts), as devices run it: where there is more than is kept of a packet between them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "millrace/nf/nids/device.hpp"
#include "support/devices.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

/// Rule `i` wants this, and something of the header.
std::string pattern_of(size_t i) { return fmt::format("q{:05x}", i * 2654435761u >> 12 & 0xfffffu); }

std::string options_of(size_t rules) {
    std::string options = "{flows: none, rule: [";
    for (size_t i = 0; i < rules; ++i)
        options += fmt::format("'alert ip any any -> any any (content:\"{}\"; dsize:>3; isdataat:2; sid:{};)', ",
                               pattern_of(i), i + 1);
    return options + "]}";
}

/// A packet that has the patterns of rules [from, to).
test::Frame packet_with(size_t from, size_t to) {
    std::string payload;
    for (size_t i = from; i < to; ++i) payload += pattern_of(i) + ".";
    return test::build_packet(fmt::format("{{ipv4: {{}}, udp: {{}}, payload: \"{}\"}}", payload));
}

/// Runs the packets on every half, and holds each to `alerts`.
void expect_alerts(const std::string& options, const std::vector<test::Frame>& frames,
                   const std::vector<size_t>& alerts) {
    test::NfRunner runner("nids", options);
    for (const test::Half& half : test::halves(runner.type())) {
        const auto result = runner.run(frames, half);
        std::vector<size_t> told(frames.size());
        for (const Event& event : result.events) ++told[event.packet];
        for (size_t i = 0; i < frames.size(); ++i) {
            EXPECT_EQ(told[i], alerts[i]) << half.text() << ", packet " << i;
            EXPECT_EQ(result.decisions[i].outcome, alerts[i] > 0 ? kAlert : kClean) << half.text() << ", packet " << i;
        }
    }
}

TEST(NidsInParts, TellsOfMorePatternsAndRulesThanAreKept) {
    constexpr size_t kRoom = kKeptWords - 4, kIds = 2 * (kRoom - 1);
    // Around the room for what is noted and the rules of it together, for ids and what is noted, and for ids alone.
    std::vector<size_t> counts{0, 1, 31, 32, 33, kRoom - 1, kRoom, kRoom + 1};
    for (const size_t around : {kRoom / 2, 2 * kRoom / 3, kIds})
        for (size_t more = 0; more < 5; ++more) counts.push_back(around - 2 + more);
    std::vector<test::Frame> frames;
    std::vector<size_t> alerts;
    for (const size_t count : counts) {
        frames.push_back(packet_with(0, count));
        alerts.push_back(count);
    }
    frames.push_back(test::build_packet("{eth: {}, payload: \"q00000q00001\"}"));
    alerts.push_back(0);
    expect_alerts(options_of(2 * kKeptWords), frames, alerts);
}

TEST(NidsInParts, CountsAPatternOnceHoweverOftenItIsThere) {
    std::string payload;
    for (size_t i = 0; i < 200; ++i) payload += pattern_of(i % 3) + ".";
    expect_alerts(options_of(5),
                  {test::build_packet(fmt::format("{{ipv4: {{}}, udp: {{}}, payload: \"{}\"}}", payload))}, {3});
}

TEST(NidsInParts, KnowsMorePatternsThanSixteenBitsNumber) {
    constexpr size_t kRules = 70'000;
    expect_alerts(options_of(kRules), {packet_with(0, 3), packet_with(kRules - 70, kRules), packet_with(0, 0)},
                  {3, 70, 0});
}

/// Whatever is kept of flows: a function without parts would give the same answers.
TEST(NidsInParts, IsWhatEachVariantRuns) {
    for (const char* const flows : {"none", "{streams: none}", "{streams: {}}", "{streams: {http: usual}}"}) {
        const auto chain = test::make_configuration(
                               fmt::format("[nids: {{flows: {}, rule: 'alert tcp any any -> any any (flow:to_server; "
                                           "content:\"abcd\"; dsize:>3; sid:1;)'}}]",
                                           flows),
                               "sim")
                               .chains[0];
        const std::vector<device::Step> steps = device::plan_steps(*chain, {});
        EXPECT_TRUE(std::ranges::any_of(steps, [](const device::Step& step) { return step.judges_first; })) << flows;
    }
}

TEST(NidsInParts, IsWholeWhereRulesAskForPatternsAlone) {
    test::NfRunner more("nids", "rule: 'alert ip any any -> any any (content:\"abcd\"; dsize:>3; sid:1;)'");
    EXPECT_TRUE(more.nf().runs_in_parts());
    const auto chain =
        test::make_configuration(
            "[nids: {flows: none, rule: 'alert ip any any -> any any (content:\"abcd\"; dsize:>3; sid:1;)'}]", "sim")
            .chains[0];
    const std::vector<device::Step> steps = device::plan_steps(*chain, {});
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_TRUE(steps[0].finds_last && steps[1].judges_first) << "devices do run it so";
    test::NfRunner bare("nids", "rule: 'alert ip any any -> any any (content:\"abcd\"; nocase; sid:1;)'");
    EXPECT_FALSE(bare.nf().runs_in_parts());
}

}  // namespace
}  // namespace millrace::nf::nids
