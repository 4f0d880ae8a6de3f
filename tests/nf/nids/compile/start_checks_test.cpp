// What the start of a payload tells of a rule: never that one is not met which is.
#include "millrace/nf/nids/compile/start_checks.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>

#include "millrace/nf/nids/rules/rule_files.hpp"
#include "support/devices.hpp"
#include "support/nf_runner.hpp"
#include "support/packet_builder.hpp"

namespace millrace::nf::nids {
namespace {

std::vector<Op> checks_of(const std::string& options) {
    RuleFile file = parse_rules("alert tcp any any -> any 80 (msg:\"t\"; " + options + " sid:1;)", "test.rules",
                                Variables::defaults());
    EXPECT_TRUE(file.errors.empty()) << options;
    const CompiledRules rules = compile(std::move(file.rules), false);
    EXPECT_TRUE(rules.unsupported.empty()) << options;
    const CompiledRule& rule = rules.compiled.at(0);
    const auto first = rules.ops.begin() + rule.first_op;
    std::vector<Op> checks(first, first + rule.fields);
    std::erase_if(checks, [](const Op& op) { return static_cast<Field>(op.mode) < Field::first_bytes; });
    return checks;
}

struct Bytes {
    uint32_t mask, value;
    friend bool operator==(const Bytes&, const Bytes&) = default;
};
std::vector<Bytes> first_bytes(const std::string& options) {
    std::vector<Bytes> all;
    for (const Op& op : checks_of(options))
        if (static_cast<Field>(op.mode) == Field::first_bytes)
            all.push_back({op.data, static_cast<uint32_t>(op.value)});
    return all;
}
bool asks_for_head(const std::string& options) {
    return std::ranges::any_of(checks_of(options), [](const Op& op) { return op.mode == 16; });
}

TEST(StartChecks, AreOfContentsThatMustStandFirst) {
    EXPECT_EQ(first_bytes("content:\"|18 03|\"; depth:2;"), (std::vector<Bytes>{{0xffff0000, 0x18030000}}));
    EXPECT_EQ(first_bytes("content:\"|00 00 00|\"; startswith;"), (std::vector<Bytes>{{0xffffff00, 0}}));
    EXPECT_EQ(first_bytes("dsize:<9; content:\"|01 02 03 04 05|\"; depth:5;"),
              (std::vector<Bytes>{{0xffffffff, 0x01020304}}));
    EXPECT_EQ(first_bytes("content:\"a1Z\"; nocase; depth:3;"), (std::vector<Bytes>{{0xdfffdf00, 0x41315a00}}));
    EXPECT_EQ(first_bytes("content:\"later\"; content:\"|05|\"; depth:1;"),
              (std::vector<Bytes>{{0xff000000, 0x05000000}}));
    for (const char* const options :
         {"content:\"ab\"; depth:3;", "content:\"ab\"; offset:1; depth:2;", "content:!\"ab\"; depth:2;",
          "content:\"ab\";", "content:\"ab\"; content:\"cd\"; within:2;", "http_uri; content:\"ab\"; depth:2;",
          "pcre:\"/^ab/\";"})
        EXPECT_EQ(first_bytes(options).size(), 0u) << options;
}

TEST(StartChecks, AreOfHttpWherePartsOfAHeadAreAskedFor) {
    for (const char* const options : {"http_uri; content:\"ab\";", "content:\"ab\"; http_stat_code; content:\"403\";"})
        EXPECT_TRUE(asks_for_head(options)) << options;
    for (const char* const options :
         {"content:\"ab\";", "file_data; content:\"abcd\";", "http_client_body; content:\"ab\";"})
        EXPECT_FALSE(asks_for_head(options)) << options;
}

TEST(StartChecks, AreLeftOutOfRulesWithoutRoom) {
    std::string options = "content:\"ab\"; depth:2;";
    for (uint32_t i = 0; i < kMaxOps - 3; ++i) options += fmt::format(" content:\"c{}\"; offset:2;", i);
    EXPECT_EQ(checks_of(options).size(), 1u);
    options += " content:\"last\"; offset:2;";
    EXPECT_EQ(checks_of(options).size(), 0u);
}

/// Rules of few bytes, against payloads of the same that may be shorter: each half tells what a plain look does.
TEST(StartChecks, RefuseNothingThatIsMet) {
    std::mt19937 random(7);
    struct Wanted {
        std::string bytes;
        bool nocase;
    };
    std::vector<Wanted> wanted;
    std::string options = "{flows: none, rule: [";
    const auto bytes = [&](size_t count) {
        std::string text;
        for (; count > 0; --count) text += std::string_view("\0aAbB", 5)[random() % 5];
        return text;
    };
    for (uint32_t i = 0; i < 60; ++i) {
        wanted.push_back({bytes(1 + random() % 6), i % 2 == 0});
        std::string hex;
        for (const char c : wanted.back().bytes) hex += fmt::format("{:02x} ", static_cast<uint8_t>(c));
        options += fmt::format("'alert udp any any -> any any (content:\"|{}|\"; {}depth:{}; sid:{};)', ", hex,
                               wanted.back().nocase ? "nocase; " : "", wanted.back().bytes.size(), i + 1);
    }
    test::NfRunner runner("nids", options + "]}");
    std::vector<test::Frame> frames;
    std::vector<size_t> met;
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    for (int i = 0; i < 400; ++i) {
        const std::string payload = bytes(random() % 8);
        test::PacketSpec spec;
        spec.ipv4.emplace();
        spec.udp.emplace();
        spec.payload.assign(payload.begin(), payload.end());
        frames.push_back(test::build(spec));
        met.push_back(static_cast<size_t>(std::ranges::count_if(wanted, [&](const Wanted& one) {
            return payload.size() >= one.bytes.size() &&
                   std::equal(one.bytes.begin(), one.bytes.end(), payload.begin(),
                              [&](char a, char b) { return one.nocase ? lower(a) == lower(b) : a == b; });
        })));
    }
    for (const test::Half& half : test::halves(runner.type())) {
        const auto result = runner.run(frames, half);
        std::vector<size_t> told(frames.size());
        for (const Event& event : result.events) ++told[event.packet];
        EXPECT_EQ(told, met) << half.text();
    }
}

}  // namespace
}  // namespace millrace::nf::nids
