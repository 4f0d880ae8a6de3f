// Rules of HTTP messages: whatever the segments and the coding are, the same alerts, each once, on every device.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/nf/variant.hpp"

#include "nf/nids/http/compress.hpp"
#include "nf/nids/http/conversation.hpp"
#include "nf/nids/streams/sessions.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

using test::Frame;
constexpr uint32_t kAlert = 1;

const std::vector<std::string> kRules = {
    "alert http any any -> any any (file_data; content:\"evil-body\"; sid:1;)",
    "alert http any any -> any any (http.stat_code; content:\"200\"; http.response_body; content:\"evil-body\"; "
    "sid:2;)",
    "alert tcp any any -> any any (flow:established,to_client; file_data; content:\"first-part\"; depth:10; sid:3;)",
    "alert http any any -> any any (file_data; content:\"begin-here\"; content:\"end-here\"; distance:1; within:40; "
    "sid:4;)",
    "alert http any any -> any any (http.uri; content:\"/upload\"; http.request_body; content:\"secret=\"; sid:5;)",
    "alert http any any -> any any (http.host; content:\"evil.example\"; http.uri; content:\"/second\"; sid:6;)",
    "alert http any any -> any any (http.response_body; pcre:\"/^num[0-9]{4}$/\"; sid:7;)",
    "alert http any any -> any any (file_data; content:!\"evil-body\"; content:\"first-part\"; offset:0; sid:8;)"};

std::string options(const std::string& http = "{}", const std::string& more = "") {
    std::string text = "{" + more + "flows: {max-flows: 4k, streams: {http: " + http + "}}, rule: [";
    for (const std::string& rule : kRules) {
        std::string doubled;
        for (const char c : rule) doubled += c == '\'' ? "''" : std::string(1, c);
        text += "'" + doubled + "', ";
    }
    return text + "]}";
}

/// What the rules with these numbers have alerted about, by packet.
std::map<uint32_t, std::vector<uint32_t>> alerts_of(const test::NfResult& result) {
    std::map<uint32_t, std::vector<uint32_t>> alerts;
    for (const Event& event : result.events)
        if (event.code < kRules.size()) alerts[event.code + 1].push_back(event.packet);
    return alerts;
}

test::NfResult run_everywhere(const std::string& text, const std::vector<Frame>& frames,
                              const std::string& type = "nids:messages") {
    test::NfResult want;
    bool first = true;
    for (const test::Half& half : test::halves(test::NfRunner("nids", text).type())) {
        test::NfRunner runner("nids", text);
        EXPECT_EQ(runner.type().name, type);
        const test::NfResult result = runner.run(frames, half);
        if (first) want = result;
        first = false;
        EXPECT_EQ(result.decisions, want.decisions) << half.text();
        EXPECT_EQ(alerts_of(result), alerts_of(want)) << half.text();
    }
    return want;
}

struct Talk {
    std::string client, server;
    std::vector<uint32_t> alerts;  ///< rules, each once
};
std::vector<Talk> talks() {
    std::mt19937 rng(3);
    const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", ok = "HTTP/1.1 200 OK\r\n";
    const std::string evil = "some text, an evil-body, and more text";
    const std::string parts = "a body, begin-here and the end-here of it all";
    const auto sized = [](const std::string& head, const std::string& body) {
        return fmt::format("{}Content-Length: {}\r\n\r\n{}", head, body.size(), body);
    };
    return {
        {get, sized(ok, evil), {1, 2}},
        {get, ok + "Transfer-Encoding: chunked\r\n\r\n" + chunked(evil, rng), {1, 2}},
        {get, "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(evil, rng), {1}},
        {get, sized(ok + "Content-Encoding: gzip\r\n", compress(evil, Wrap::gzip)), {1, 2}},
        {get,
         ok + "Content-Encoding: deflate\r\nTransfer-Encoding: chunked\r\n\r\n" +
             chunked(compress(parts + evil, Wrap::bare), rng),
         {1, 2, 4}},
        {get, ok + "\r\n" + parts, {4}},
        {get, ok + "Transfer-Encoding: chunked\r\n\r\n" + chunked("first-part of it", rng), {3, 8}},
        {get, sized(ok, "first-part of it"), {3, 8}},
        {get, sized(ok, "num0123"), {7}},
        {get, sized(ok, "no num0123"), {}},
        {get, ok + "Transfer-Encoding: chunked\r\n\r\n" + chunked("no first-part of it", rng), {8}},
        {"POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked("a=b&secret=word", rng),
         sized(ok, "thanks"),
         {5}},
        {sized("POST /upload HTTP/1.1\r\n", "a=b&secret=word"), sized(ok, "thanks"), {5}},
        {sized("POST /elsewhere HTTP/1.1\r\n", "a=b&secret=word"), sized(ok, "an evil-body"), {1, 2}},
        {get + "GET /second HTTP/1.1\r\nHost: evil.example\r\n\r\n", sized(ok, "a") + sized(ok, evil), {6, 1, 2}},
        {"HEAD /second HTTP/1.1\r\nHost: evil.example\r\n\r\n" + get,
         ok + "Content-Length: 500\r\n\r\n" + sized(ok, evil),
         {6, 1, 2}},
        {get, "HTTP/1.1 100 Continue\r\n\r\n" + sized(ok, evil), {1, 2}},
        {get, sized(ok + "Content-Encoding: gzip\r\n", compress("nothing of note", Wrap::gzip)), {}},
        {get + get, sized(ok, "the evil-") + sized(ok, "body is in two"), {}},
        {get, sized(ok, "begin-here" + std::string(60, '.') + "end-here"), {}},
    };
}

/// In two segments, cut at each byte, and a byte at a time. Every one is a session of its own, and all are mixed.
TEST(NidsHttp, MeetsTheSameRulesHoweverAMessageIsCut) {
    for (const Talk& talk : talks()) {
        std::vector<Session> sessions;
        uint32_t number = 1;
        const auto cut_in_two = [](Session& session, const std::string& text, size_t cut, bool client) {
            for (const Sent piece : {Sent{0, cut}, Sent{cut, text.size() - cut}}) {
                if (piece.bytes == 0) continue;
                if (client) session.send(text, piece);
                else session.answer(text, piece);
            }
        };
        for (size_t cut = 0; cut < std::max(talk.client.size(), talk.server.size()); ++cut) {
            ++number;
            sessions.emplace_back(number, 0xfffffff0u + number);
            cut_in_two(sessions.back(), talk.client, cut % talk.client.size(), true);
            cut_in_two(sessions.back(), talk.server, cut % talk.server.size(), false);
        }
        sessions.emplace_back(++number, 5);
        for (size_t at = 0; at < talk.client.size(); ++at) sessions.back().send(talk.client, {at, 1});
        for (size_t at = 0; at < talk.server.size(); ++at) sessions.back().answer(talk.server, {at, 1});
        std::vector<Frame> frames;
        std::vector<size_t> session_of;
        for (size_t i = 0, left = 1; left > 0; ++i) {
            left = 0;
            for (size_t k = 0; k < sessions.size(); ++k) {
                if (i >= sessions[k].frames.size()) continue;
                ++left;
                frames.push_back(sessions[k].frames[i]);
                session_of.push_back(k);
            }
        }
        std::vector<std::multiset<uint32_t>> told(sessions.size());
        for (const auto& [rule, packets] : alerts_of(run_everywhere(options(), frames)))
            for (const uint32_t packet : packets) told[session_of[packet]].insert(rule);
        const std::multiset<uint32_t> want(talk.alerts.begin(), talk.alerts.end());
        for (size_t k = 0; k < sessions.size(); ++k)
            ASSERT_EQ(told[k], want) << "session " << k << " of " << sessions.size() << ": " << talk.client
                                     << talk.server;
    }
}

/// Random conversations with what a rule asks for in some bodies: in pieces of any size, out of order, doubled.
TEST(NidsHttp, MeetsRulesOfRandomConversationsOutOfOrder) {
    std::mt19937 rng(11);
    std::vector<Frame> frames;
    std::vector<size_t> session_of;
    std::vector<std::multiset<uint32_t>> want;
    for (uint32_t i = 0; i < 150; ++i) {
        Conversation made = random_conversation(rng, 600);
        want.emplace_back();
        for (Said& said : made.answers) {
            if (said.body.empty() || rng() % 2 != 0) continue;
            // Another body, sent in chunks and compressed.
            said.body.insert(rng() % said.body.size(), "evil-body");
            const bool zip = rng() % 2 == 0;
            said.head = said.head.substr(0, said.head.find("\r\n") + 2) + "Transfer-Encoding: chunked\r\n" +
                        (zip ? "Content-Encoding: gzip\r\n\r\n" : "\r\n");
            said.sent = chunked(zip ? compress(said.body, Wrap::gzip) : said.body, rng);
            want.back().insert(1);
            if (said.head.find(" 200 ") != std::string::npos) want.back().insert(2);
        }
        Session session(i, static_cast<uint32_t>(rng()), static_cast<uint32_t>(rng()));
        const std::string client = made.from_client(), server = made.from_server();
        for (const Sent& piece : random_pieces(rng, client.size(), 1 + rng() % 300, i % 2 == 0))
            session.send(client, piece);
        for (const Sent& piece : random_pieces(rng, server.size(), 1 + rng() % 300, i % 2 == 0))
            session.answer(server, piece);
        for (const Frame& frame : session.frames) {
            frames.push_back(frame);
            session_of.push_back(i);
        }
    }
    std::vector<std::multiset<uint32_t>> told(want.size());
    for (const auto& [rule, packets] : alerts_of(run_everywhere(options("{head: 512, body: 64, messages: 4}"), frames)))
        for (const uint32_t packet : packets)
            if (rule <= 2) told[session_of[packet]].insert(rule);
    size_t met = 0;
    for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(told[i], want[i]) << "conversation " << i;
        met += want[i].size();
    }
    EXPECT_GT(met, 60u);
}

/// Bytes that were changed, in segments that overlap and are not all there: every half makes the same of them.
TEST(NidsHttp, IsTheSameInEveryHalfWhateverComes) {
    std::mt19937 rng(17);
    std::vector<Frame> frames;
    for (uint32_t i = 0; i < 250; ++i) {
        const Conversation made = random_conversation(rng, 500);
        std::string texts[2] = {made.from_client(), made.from_server() + "HTTP/1.1 200 OK\r\n\r\nan evil-body"};
        Session session(i, static_cast<uint32_t>(rng()), static_cast<uint32_t>(rng()));
        for (std::string& text : texts) {
            for (size_t k = rng() % 6; k-- > 0;) text[rng() % text.size()] = "\r\n :0fH"[rng() % 7];
            for (const Sent& piece : random_pieces(rng, text.size(), 1 + rng() % 400, rng() % 2 == 0)) {
                if (rng() % 30 == 0) continue;
                if (&text == texts) session.send(text, piece);
                else session.answer(text, piece);
            }
        }
        frames.insert(frames.end(), session.frames.begin(), session.frames.end());
    }
    const test::NfResult result = run_everywhere(
        options("{head: 128, body: 64, messages: 1, decoders: 2048, inflate: 400}"), frames);
    EXPECT_GT(alerts_of(result)[1].size(), 40u);
}

class NidsHttpOnDevices : public test::DeviceInMode {};

uint64_t statistic(const chain::Configuration& configuration, const std::string& name) {
    for (const Statistic& each : configuration.chains[0]->nodes[0].nf->statistics())
        if (each.name == name) return each.value;
    ADD_FAILURE() << name << " is not counted";
    return 0;
}

/// A thousand connections at once, each with a compressed answer in chunks and pieces: all are met, each once.
TEST_P(NidsHttpOnDevices, MeetsARuleInAThousandFlows) {
    std::mt19937 rng(9);
    std::vector<Session> sessions;
    std::vector<size_t> turns;
    const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for (uint32_t i = 0; i < 1000; ++i) {
        std::string body(rng() % 400, '-');
        for (char& c : body) c = static_cast<char>('a' + rng() % 16);
        body += "evil-body" + std::string(rng() % 40, '-');
        const std::string server = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
                                   chunked(compress(body, Wrap::gzip), rng);
        sessions.emplace_back(i, static_cast<uint32_t>(rng()));
        sessions.back().send(get, {0, get.size()});
        const size_t middle = 1 + rng() % (server.size() - 1);
        sessions.back().answer(server, {0, middle});
        sessions.back().answer(server, {middle, server.size() - middle});
        turns.insert(turns.end(), sessions.back().frames.size(), i);
    }
    std::shuffle(turns.begin(), turns.end(), rng);
    std::vector<size_t> next(sessions.size());
    std::vector<Frame> frames;
    for (const size_t i : turns) frames.push_back(sessions[i].frames[next[i]++]);
    const auto chain = test::make_configuration(
        "[nids: {flows: {max-flows: 2k, streams: {tail: 64, http: {messages: 16, decoders: 2048}}}, rule: ['" +
            kRules[0] + "']}]",
        name());
    exec::OffloadOptions offload;
    offload.mode = mode();
    const auto run = test::run_on_device(device(7), chain, frames, 130, offload);
    ASSERT_EQ(run.outcomes.size(), frames.size());
    std::map<size_t, size_t> alerts;
    for (size_t i = 0; i < frames.size(); ++i) alerts[turns[i]] += run.outcomes[i].visits[0].decision.outcome == kAlert;
    for (size_t i = 0; i < sessions.size(); ++i) ASSERT_EQ(alerts[i], 1u) << "session " << i;
    EXPECT_EQ(statistic(chain, "alerts"), 1000u);
    EXPECT_EQ(statistic(chain, "http-messages"), 2000u);
    EXPECT_EQ(statistic(chain, "http-decompressed"), 1000u);
    for (const char* none :
         {"http-unfollowed", "http-lost", "http-not-decompressed", "http-inflate-limited", "http-heads-cut"})
        EXPECT_EQ(statistic(chain, none), 0u) << none;
}
INSTANTIATE_TEST_SUITE_P(Devices, NidsHttpOnDevices, testing::ValuesIn(test::devices_in_every_mode()),
                         test::device_in_mode_name);

TEST(NidsHttp, CountsBombsAndGoesOn) {
    const auto chain = test::make_configuration(
        "[nids: {flows: {max-flows: 100, streams: {http: {inflate: 4Ki}}}, rule: ['" + kRules[0] + "']}]", "cpu");
    const std::string bomb = compress(std::string(1'000'000, 'a') + "evil-body", Wrap::gzip);
    const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                      ok = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ";
    const std::string server = ok + std::to_string(bomb.size()) + "\r\n\r\n" + bomb +
                               "HTTP/1.1 200 OK\r\n\r\nan evil-body";
    Session session(1, 5);
    session.send(get + get, {0, 2 * get.size()});
    for (size_t at = 0; at < server.size(); at += 1000)
        session.answer(server, {at, std::min<size_t>(1000, server.size() - at)});
    test::run_on_cpu(chain, session.frames, 3);
    EXPECT_EQ(statistic(chain, "alerts"), 1u);
    EXPECT_EQ(statistic(chain, "http-inflate-limited"), 1u);
    EXPECT_EQ(statistic(chain, "http-messages"), 4u);
}

/// Answers that end with their connection give their rooms back with it.
TEST(NidsHttp, GivesRoomsBackWhenAStreamEnds) {
    const auto chain = test::make_configuration(
        "[nids: {flows: {max-flows: 400, streams: {http: {messages: 1}}}, rule: ['" + kRules[0] + "']}]", "cpu");
    const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", server = "HTTP/1.1 200 OK\r\n\r\nan evil-body";
    std::vector<Frame> frames;
    for (uint32_t i = 0; i < 200; ++i) {
        Session session(i, 5);
        session.send(get, {0, get.size()});
        session.answer(server, {0, 20});
        session.answer(server, {20, server.size() - 20});
        session.add(false, 78 + static_cast<uint32_t>(server.size()), "", tcp::kFin | tcp::kAck);
        frames.insert(frames.end(), session.frames.begin(), session.frames.end());
    }
    test::run_on_cpu(chain, frames, 7);
    EXPECT_EQ(statistic(chain, "alerts"), 200u);
    EXPECT_EQ(statistic(chain, "http-unfollowed"), 0u);
}

/// With `http: none` nothing is followed, as before there were messages.
TEST(NidsHttp, IsNotFollowedWhereItIsNotAskedFor) {
    const Talk talk = talks()[1];
    Session session(1, 5);
    session.send(talk.client, {0, talk.client.size()});
    session.answer(talk.server, {0, talk.server.size()});
    EXPECT_EQ(alerts_of(run_everywhere(options(), session.frames)).size(), 2u);
    EXPECT_EQ(alerts_of(run_everywhere(options("none"), session.frames, "nids:streams")).size(), 0u);
}

TEST(NidsHttp, RefusesOptionsThatMakeNoSense) {
    for (const char* http : {"{head: 64}", "{body: 32Ki}", "{messages: 0}", "{messages: 33}", "{decoders: 65537}",
                             "{inflate: 2Gi}", "some", "{gzip: true}"})
        EXPECT_THROW(test::NfRunner("nids", options(http)), ConfigError) << http;
}

}  // namespace
}  // namespace millrace::nf::nids
