// Segments with any numbers, flags and lengths: every half makes the same of them, and goes on.
#include <gtest/gtest.h>

#include "nf/nids/streams/sessions.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

TEST(NidsStreams, AreTheSameInEveryHalfWhateverComes) {
    const std::string options =
        R"({flows: {max-flows: 30, midstream: true, streams: {tail: 64, late-segments: 1}}, rule: [
        'alert tcp any any -> any any (content:"abca"; sid:1;)', 'alert tcp any any -> any any (content:"bb"; content:"ac"; distance:3; sid:2;)',
        'alert tcp any any -> any any (content:"cabbac"; content:"aaaaa"; content:"bcbcb"; flow:established; sid:3;)',
        'alert tcp any any -> any any (pcre:"/a[bc]{4}a/"; flow:to_server; sid:4;)', 'alert tcp any any -> any any (content:"ccab"; offset:3; depth:40; sid:5;)']})";
    std::mt19937 rng(17);
    std::vector<test::Frame> frames;
    for (int i = 0; i < 4000; ++i) {
        Session session(rng() % 60, 0xffffff00u, 0x7fffff00u);
        const bool begins = rng() % 40 == 0;
        if (!begins) session.frames.clear();
        const uint32_t near = static_cast<uint32_t>(rng() % 1000), any = static_cast<uint32_t>(rng());
        const bool from_client = rng() % 3 != 0;
        std::string text(rng() % 20 == 0 ? 1500 + rng() % 1400 : rng() % 120, 'a');
        for (char& c : text) c = static_cast<char>('a' + rng() % 3);
        const uint8_t flags = rng() % 10 == 0 ? static_cast<uint8_t>(rng() & 0x1f) : uint8_t{tcp::kAck};
        session.add(from_client, rng() % 12 == 0 ? any : (from_client ? 0xffffff01u : 0x7fffff01u) + near, text, flags);
        frames.insert(frames.end(), session.frames.begin(), session.frames.end());
    }
    test::NfResult want;
    for (const test::Half& half : test::halves(test::NfRunner("nids", options).type())) {
        test::NfRunner runner("nids", options);
        const test::NfResult result = runner.run(frames, half);
        if (want.decisions.empty()) want = result;
        EXPECT_EQ(result.decisions, want.decisions) << half.text();
        ASSERT_EQ(result.events.size(), want.events.size()) << half.text();
        for (size_t i = 0; i < want.events.size(); ++i)
            ASSERT_TRUE(result.events[i].packet == want.events[i].packet &&
                        result.events[i].code == want.events[i].code);
    }
    std::vector<size_t> told(7);
    for (const Event& event : want.events) ++told.at(event.code);
    for (const uint32_t code : {0u, 1u, 3u, 5u, 6u}) EXPECT_GT(told[code], 5u) << code;
}

}  // namespace
}  // namespace millrace::nf::nids
