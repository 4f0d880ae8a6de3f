// Rules that segments of a stream meet together: however a text is cut, the same rules, each once, on every device.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/nf/variant.hpp"

#include "nf/nids/streams/sessions.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

using test::Frame;

constexpr uint32_t kAlert = 1, kBlock = 2;

std::string options(const std::vector<std::string>& rules, const std::string& streams = "{}",
                    const std::string& more = "") {
    std::string text = "{" + more + "flows: {max-flows: 4k, streams: " + streams + "}, rule: [";
    for (size_t i = 0; i < rules.size(); ++i)
        text += fmt::format("'{} sid:{};)', ", rules[i].substr(0, rules[i].size() - 1), i + 1);
    return text + "]}";
}
std::string alert(const std::string& what) { return "alert tcp any any -> any any (" + what + ")"; }

/// Packets that raised each rule's alert, by what explain says of it; ascending.
std::map<uint32_t, std::vector<uint32_t>> alerts_of(const test::NfResult& result) {
    std::map<uint32_t, std::vector<uint32_t>> alerts;
    for (const Event& event : result.events) alerts[event.code].push_back(event.packet);
    return alerts;
}

/// Runs sessions one after the other, as `turns` say, or each to its end, in every half; checks that all agree.
test::NfResult run_everywhere(const std::string& text, const std::vector<Frame>& frames) {
    test::NfResult want;
    bool first = true;
    for (const test::Half& half : test::halves(test::NfRunner("nids", text).type())) {
        test::NfRunner runner("nids", text);
        EXPECT_EQ(runner.type().name, "nids:streams");
        const test::NfResult result = runner.run(frames, half);
        if (first) want = result;
        first = false;
        EXPECT_EQ(result.decisions, want.decisions) << half.text();
        EXPECT_EQ(alerts_of(result), alerts_of(want)) << half.text();
    }
    return want;
}

struct Kind {
    const char* rule;
    const char* text;
};
/// Each text has what its rule asks for, and nothing of it twice.
const Kind kKinds[] = {
    {"content:\"needle-in-the-hay\";", "....needle-in-the-hay...."},
    {"content:\"NeeDLE-in-the-HAY\"; nocase;", "....needle-in-the-hay...."},
    {"content:\"first-part\"; content:\"second\"; distance:2; within:10;", "..first-part..second.."},
    {"content:\"second\"; fast_pattern; content:\"first-part\"; distance:-20; within:14;", "..first-part..second.."},
    {"content:\"first-part\"; content:\"second-part\"; content:\"third-part\";", ".third-part.second-part.first-part."},
    {"content:\"number-\"; pcre:\"/number-[0-9]+z/\";", "..number-00112233z.."},
    {"pcre:\"/ab[cd]{3}ef/\";", "....abcdcef..."},
    {"content:\"len\"; byte_test:3,>,513,0,relative,string,dec; content:\"after\";", "...len777xx..after.."},
    {"content:\"first-part\"; depth:12; content:\"second\"; offset:14;", ".first-part...second.."},
    {"content:\"ab\"; content:\"yz\"; distance:0;", "....ab....yz..."},
    {"content:\"have-this\"; content:!\"never-that\"; isdataat:3,relative;", "...have-this....."},
    {"content:\"AbZ\"; nocase; startswith; content:\"yz\"; offset:9;", "aBz......yz..."},
    {"content:\"AbZ\"; nocase; startswith; content:\"second-part\"; offset:9;",
     "aBz............................................................second-part..."},
};
/// Whether a rule says where in the stream something stands.
bool counts_from_start(uint32_t kind) { return kind == 8 || kind >= 11; }

/// In two pieces, cut at each byte; every cut is a session of its own, and all are mixed.
TEST(NidsStreams, FindARuleThatIsCutAtEachOfItsBytes) {
    for (const Kind& kind : kKinds) {
        const std::string text = kind.text;
        std::vector<Session> sessions;
        for (uint32_t cut = 1; cut < text.size(); ++cut) {
            sessions.emplace_back(cut, 0xfffffff0u + cut);  // numbers begin anew in the midst of many
            sessions.back().send(text, {0, cut});
            sessions.back().send(text, {cut, text.size() - cut});
            sessions.back().send(text + "behind it", {text.size(), 9});
        }
        std::vector<Frame> frames;
        for (size_t i = 0; i < 6; ++i)
            for (const Session& session : sessions) frames.push_back(session.frames[i]);
        const auto alerts = alerts_of(run_everywhere(options({alert(kind.rule)}), frames));
        ASSERT_EQ(alerts.size(), 1u) << kind.rule;
        std::set<uint32_t> which;
        for (const uint32_t packet : alerts.begin()->second) {
            EXPECT_TRUE(which.insert(packet % sessions.size()).second) << kind.rule << ": twice in one session";
            EXPECT_LT(packet / sessions.size(), 5u) << kind.rule << ": behind it";
        }
        EXPECT_EQ(which.size(), sessions.size()) << kind.rule;
    }
}

/// By three pieces of any sizes, by many of few bytes, and by a thousand of one.
TEST(NidsStreams, FindRulesInAnyNumberOfPieces) {
    std::vector<std::string> rules;
    for (const Kind& kind : kKinds) rules.push_back(alert(kind.rule));
    std::mt19937 rng(3);
    std::vector<Session> sessions;
    std::vector<uint32_t> wanted;
    for (uint32_t i = 0; i < 120; ++i) {
        const uint32_t k = i % std::size(kKinds);
        const std::string noise(counts_from_start(k) ? 0 : rng() % 900, '-');
        const std::string text = noise + kKinds[k].text + std::string(1000 - noise.size(), '-');
        sessions.emplace_back(i, static_cast<uint32_t>(rng()));
        wanted.push_back(k);
        if (i % 3 == 0) {
            for (size_t at = 0; at < text.size(); ++at) sessions.back().send(text, {at, 1});
        } else {
            for (const Sent& piece : random_pieces(rng, text.size(), i % 3 == 1 ? 400 : 20, true))
                sessions.back().send(text, piece);
        }
    }
    std::vector<Frame> frames;
    std::vector<size_t> session_of;
    for (size_t i = 0, left = 1; left > 0; ++i) {
        left = 0;
        for (size_t k = 0; k < sessions.size(); ++k) {
            if (i >= sessions[k].frames.size()) continue;
            ++left;
            session_of.push_back(k);
            frames.push_back(sessions[k].frames[i]);
        }
    }
    std::map<uint32_t, std::vector<size_t>> found;
    const std::string text = options(rules);
    for (const test::Half& half : test::halves(test::NfRunner("nids", text).type())) {
        if (half.lanes == 32) continue;
        test::NfRunner runner("nids", text);
        std::map<size_t, std::multiset<uint32_t>> told;
        for (const auto& [rule, packets] : alerts_of(runner.run(frames, half)))
            for (const uint32_t packet : packets) told[session_of[packet]].insert(rule);
        for (size_t i = 0; i < sessions.size(); ++i)
            EXPECT_EQ(told[i].count(wanted[i]), 1u) << half.text() << ": " << kKinds[wanted[i]].rule;
    }
}

/// Random texts of few letters, rules of them: one long segment meets the same rules as any pieces.
TEST(NidsStreams, MeetTheSameRulesInOnePieceAndInMany) {
    std::mt19937 rng(5);
    std::vector<std::string> rules;
    const auto word = [&](size_t bytes) {
        std::string text;
        for (; bytes > 0; --bytes) text += static_cast<char>('a' + rng() % 3);
        return text;
    };
    for (int i = 0; i < 40; ++i) {
        std::string rule = fmt::format("content:\"{}\";", word(2 + rng() % 6));
        if (rng() % 2 == 0) rule += fmt::format(" content:\"{}\";", word(1 + rng() % 5));
        if (rng() % 3 == 0)
            rule += fmt::format(" content:\"{}\"; distance:{}; within:{};", word(1 + rng() % 4), rng() % 6,
                                4 + rng() % 20);
        if (rng() % 4 == 0) rule += fmt::format(" pcre:\"/{}[ab]+{}/\";", word(2), word(1));
        rules.push_back(alert(rule));
    }
    std::vector<Session> whole, cut;
    std::vector<Frame> frames;
    std::vector<size_t> session_of;
    for (uint32_t i = 0; i < 60; ++i) {
        const std::string text = word(20 + rng() % 200);
        whole.emplace_back(2 * i, static_cast<uint32_t>(rng()));
        whole.back().send(text, {0, text.size()});
        cut.emplace_back(2 * i + 1, static_cast<uint32_t>(rng()));
        for (const Sent& piece : random_pieces(rng, text.size(), 1 + rng() % 60, i % 2 == 0))
            cut.back().send(text, piece);
        for (const Session* session : {&whole.back(), &cut.back()})
            for (const Frame& frame : session->frames) {
                frames.push_back(frame);
                session_of.push_back(2 * i + (session == &cut.back()));
            }
    }
    const auto alerts = alerts_of(run_everywhere(options(rules), frames));
    std::map<size_t, std::set<uint32_t>> told;
    for (const auto& [rule, packets] : alerts)
        for (const uint32_t packet : packets) told[session_of[packet]].insert(rule);
    size_t met = 0;
    for (size_t i = 0; i < 60; ++i) {
        EXPECT_EQ(told[2 * i], told[2 * i + 1]) << "session " << i;
        met += told[2 * i].size();
    }
    EXPECT_GT(met, 300u);
    EXPECT_LT(met, 60 * 40 * 3 / 4u);
}

/// What one segment has told is not told again because its bytes are still there.
TEST(NidsStreams, TellOnceWhatASegmentHasMetAlone) {
    const std::string text = "..needle-in-the-hay.." + std::string(40, '-') + "..needle-in-the-hay..";
    Session session(1, 5);
    session.send(text, {0, 30});
    for (size_t at = 30; at < 60; at += 10) session.send(text, {at, 10});
    session.send(text, {60, 10});  // the second one begins
    session.send(text, {70, text.size() - 70});
    const auto alerts = alerts_of(run_everywhere(
        options({alert("content:\"needle-in-the-hay\";"), alert("content:\"needle\"; content:\"hay\"; distance:0;")}),
        session.frames));
    EXPECT_EQ(alerts.at(0), (std::vector<uint32_t>{3, 8}));
    EXPECT_EQ(alerts.at(1), (std::vector<uint32_t>{3, 8}));
}

/// Segments that come late, twice, and with other bytes.
TEST(NidsStreams, PutSegmentsInOrderAndReportEvasion) {
    const std::string text = "..needle-in-the-hay..";
    Session late(1, 5), twice(2, 5), other(3, 5), back(4, 5);
    late.send(text, {10, 5});
    late.send(text, {15, 6});
    late.send(text, {0, 10});
    twice.send(text, {0, 10});
    twice.send(text, {0, 10});
    twice.send(text, {10, 11});
    twice.send(text, {10, 11});
    other.send(text, {0, 10});
    other.add(true, 6 + 5, "EVIL", tcp::kAck);
    other.send(text, {10, 11});
    back.answer(text, {0, 9});
    back.send(text, {0, 9});
    back.send(text, {9, 12});
    back.answer(text, {9, 12});
    std::vector<Frame> frames;
    for (const Session* session : {&late, &twice, &other, &back})
        frames.insert(frames.end(), session->frames.begin(), session->frames.end());
    const auto alerts = alerts_of(run_everywhere(options({alert("content:\"needle-in-the-hay\";")}), frames));
    EXPECT_EQ(alerts.at(0), (std::vector<uint32_t>{5, 6 + 5, 13 + 5, 19 + 5, 19 + 6}));
    EXPECT_EQ(alerts.at(1), (std::vector<uint32_t>{13 + 4})) << "other bytes for the same numbers";
}

/// Flow and flowbits, pass and drop hold for what several segments meet.
TEST(NidsStreams, DecideAsRulesOfOnePacketDo) {
    const std::vector<std::string> rules = {
        alert("content:\"login-name\"; flow:established,to_server; flowbits:set,seen; flowbits:noalert;"),
        alert("content:\"secret-word\"; flow:to_client; flowbits:isset,seen;"),
        "drop tcp any any -> any any (content:\"drop-this-one\"; flow:to_server;)",
        "pass tcp any any -> any any (content:\"let-this-pass\"; flow:to_server;)",
        alert("content:\"this-p\"; flow:to_server;"),
        alert("content:\"secret-word\"; flow:to_server;")};
    Session session(9, 1000);
    const std::string client = "..login-name..drop-this-one..let-this-pass..", server = "..secret-word..secret-word..";
    session.answer(server, {0, 7});
    session.answer(server, {7, 8});  // nothing is set yet
    session.send(client, {0, 8});
    session.send(client, {8, 6});  // sets it
    session.answer(server, {15, 5});
    session.answer(server, {20, 8});  // 8
    session.send(client, {14, 6});
    session.send(client, {20, 10});  // 10: dropped
    session.send(client, {30, 8});
    session.send(client, {38, 6});  // 12: passes, whatever else is met
    const test::NfResult result = run_everywhere(options(rules, "{}", "mode: ips, "), session.frames);
    const auto alerts = alerts_of(result);
    EXPECT_EQ(alerts.at(1), (std::vector<uint32_t>{8}));
    EXPECT_EQ(alerts.at(2), (std::vector<uint32_t>{10}));
    EXPECT_EQ(alerts.size(), 2u);
    EXPECT_EQ(result.decisions[8], (Decision{1, kAlert}));
    EXPECT_EQ(result.decisions[10], (Decision{2, kBlock}));
    EXPECT_EQ(result.decisions[12], (Decision{3, 0}));
}

/// What is not found, as the page says: more than the tail apart, behind a gap that was given up, of one packet only.
TEST(NidsStreams, DoNotFindWhatIsOutOfReach) {
    const std::string rule = alert("content:\"begin-here\"; content:\"end-here\";");
    for (const size_t apart : {100u, 300u}) {
        const std::string text = "begin-here" + std::string(apart, '-') + "end-here";
        Session session(1, 5);
        session.send(text, {0, 20});
        session.send(text, {20, text.size() - 20 - 4});
        session.send(text, {text.size() - 4, 4});
        const std::string small = options({rule}, "{tail: 128}"), large = options({rule}, "{tail: 512}");
        EXPECT_EQ(alerts_of(run_everywhere(small, session.frames)).size(), apart == 100 ? 1u : 0u);
        EXPECT_EQ(alerts_of(run_everywhere(large, session.frames)).size(), 1u);
    }
    Session single(2, 5);
    const std::string text = "..needle-in-the-hay..";
    single.send(text, {0, 8});
    single.send(text, {8, 13});
    const auto alerts = alerts_of(run_everywhere(
        options({alert("content:\"needle-in-the-hay\"; dsize:>1;"),
                 alert("content:\"needle-in-the-hay\"; flow:no_stream;"),
                 alert("content:\"needle-in-the-hay\"; flags:AP;"), alert("content:\"needle-in-the-hay\";")}),
        single.frames));
    EXPECT_EQ(alerts.size(), 1u);
    EXPECT_EQ(alerts.at(3), (std::vector<uint32_t>{4}));
}

class NidsStreamsOnDevices : public test::DeviceInMode {};

uint64_t statistic(const chain::Configuration& configuration, const std::string& name) {
    for (const Statistic& each : configuration.chains[0]->nodes[0].nf->statistics())
        if (each.name == name) return each.value;
    ADD_FAILURE() << name << " is not counted";
    return 0;
}

/// A thousand connections at once, each with its text in pieces out of order: all are found, each once.
TEST_P(NidsStreamsOnDevices, FindARuleInAThousandFlows) {
    std::mt19937 rng(9);
    std::vector<Session> sessions;
    std::vector<size_t> turns;
    for (uint32_t i = 0; i < 1000; ++i) {
        const std::string text = std::string(rng() % 40, '-') + "needle-in-the-hay" + std::string(rng() % 40, '-');
        sessions.emplace_back(i, static_cast<uint32_t>(rng()));
        // In at least two pieces that have some of it.
        const size_t middle = text.find("in-the");
        const bool late = rng() % 2 == 0;
        const Sent first{0, middle}, second{middle, text.size() - middle};
        sessions.back().send(text, late ? second : first);
        sessions.back().send(text, late ? first : second);
        turns.insert(turns.end(), sessions.back().frames.size(), i);
    }
    std::shuffle(turns.begin(), turns.end(), rng);
    std::vector<size_t> next(sessions.size());
    std::vector<Frame> frames;
    std::vector<bool> last;
    for (const size_t i : turns) {
        frames.push_back(sessions[i].frames[next[i]++]);
        last.push_back(next[i] == sessions[i].frames.size());
    }
    const auto chain = test::make_configuration(
        "[nids: {flows: {max-flows: 2k, streams: {tail: 64, late-segments: 16}}, rule: ['alert tcp any any -> any any "
        "(content:\"needle-in-the-hay\"; flow:established,to_server; sid:1;)']}]",
        name());
    exec::OffloadOptions offload;
    offload.mode = mode();
    const auto run = test::run_on_device(device(7), chain, frames, 130, offload);
    ASSERT_EQ(run.outcomes.size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i)
        ASSERT_EQ(run.outcomes[i].visits[0].decision.outcome, last[i] ? kAlert : 0u) << "packet " << i;
    EXPECT_EQ(statistic(chain, "alerts"), 1000u);
    EXPECT_GT(statistic(chain, "stream-late"), 300u);
    EXPECT_EQ(statistic(chain, "stream-gaps"), 0u);
}
INSTANTIATE_TEST_SUITE_P(Devices, NidsStreamsOnDevices, testing::ValuesIn(test::devices_in_every_mode()),
                         test::device_in_mode_name);

TEST(NidsStreams, CountWhatTheyGiveUpAndGoOn) {
    const auto chain = test::make_configuration(
        "[nids: {flows: {max-flows: 100, streams: {late-segments: 1}}, rule: ['alert tcp any any -> any any "
        "(content:\"needle-in-the-hay\"; sid:1;)']}]",
        "cpu");
    Session session(1, 5);
    const std::string text = std::string(100, '-') + "..needle-in-the-hay..";
    session.send(text, {0, 10});
    session.send(text, {50, 10});
    session.send(text, {100, 10});
    session.send(text, {110, 11});
    session.add(true, 6 + 110, "other bytes", tcp::kAck);
    test::run_on_cpu(chain, session.frames, 3);
    EXPECT_EQ(statistic(chain, "alerts"), 1u);
    EXPECT_EQ(statistic(chain, "stream-late"), 2u);
    EXPECT_EQ(statistic(chain, "stream-gaps"), 2u);
    EXPECT_EQ(statistic(chain, "stream-overlaps"), 1u);
}

/// A generation with other rules has the streams of the one before it; rules that were noted have other numbers there.
TEST(NidsStreams, StayWithTheNextGeneration) {
    const auto text = [](const std::string& first) {
        return "[nids: {flows: {max-flows: 100, streams: {}}, rule: [" + first +
               "'alert tcp any any -> any any (content:\"needle-in-the-hay\"; sid:1;)', 'alert tcp any any -> any any "
               "(content:\"first-part\"; content:\"second-part\"; sid:2;)']}]";
    };
    Session session(1, 5);
    const std::string sent = "..first-part..needle-in-the-hay..second-part..";
    session.send(sent, {0, 20});
    session.send(sent, {20, sent.size() - 20});
    const std::vector<Frame> first(session.frames.begin(), session.frames.end() - 1);
    const std::vector<Frame> rest(session.frames.end() - 1, session.frames.end());
    std::string others;
    for (int i = 0; i < 50; ++i)
        others += fmt::format("'alert tcp any any -> any any (content:\"other-{}\"; sid:{};)', ", i, 100 + i);
    for (const auto& [had, has] : {std::pair(std::string(), others), std::pair(others, std::string())}) {
        const auto before = test::make_configuration(text(had), "cpu");
        test::run_on_cpu(before, first, 100);
        const auto after = test::make_configuration(text(has), "cpu", 0, "(test)", &before);
        test::run_on_cpu(after, rest, 100);
        EXPECT_EQ(statistic(after, "alerts"), 2u);
    }
}

}  // namespace
}  // namespace millrace::nf::nids
