// HTTP messages of streams in pieces of any size: what is heard is what was said.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "nf/nids/http/compress.hpp"
#include "nf/nids/http/conversation.hpp"
#include "nf/nids/http/follower.hpp"

namespace millrace::nf::nids {
namespace {

using http::BucketMemory;
using http::Heard;
using http::Listener;
using http::MessageBucket;
using http::MessageCount;

constexpr uint32_t kClient = 6, kServer = 7;  // streams of flow 3

/// What is heard of a text in pieces, of which the lengths are `next()`.
template <class Next>
std::vector<Heard> hear(const MessageBucket& bucket, uint32_t number, const std::string& text, Next&& next,
                        bool judges = false) {
    Listener listener;
    listener.judges = judges;
    for (size_t at = 0; at < text.size();) {
        const size_t bytes = std::min<size_t>(text.size() - at, next());
        http::follow(bucket, number, text.substr(at, bytes), 1000 + static_cast<uint32_t>(at), listener);
        at += bytes;
    }
    EXPECT_TRUE(listener.ok);
    return listener.heard;
}

void expect_heard(const std::vector<Heard>& heard, const std::vector<Said>& said, const std::string& what) {
    ASSERT_EQ(heard.size(), said.size()) << what;
    for (size_t i = 0; i < said.size(); ++i) {
        ASSERT_EQ(heard[i].head, said[i].head) << what << ", message " << i;
        ASSERT_EQ(heard[i].body, said[i].body) << what << ", message " << i << " " << said[i].head;
    }
}

TEST(NidsMessages, AreHeardAsTheyWereSaidHoweverTheyAreCut) {
    std::mt19937 rng(1);
    size_t messages = 0, decoded = 0;
    for (int i = 0; i < 400; ++i) {
        const Conversation made = random_conversation(rng, i % 10 == 0 ? 60000 : 900);
        for (const size_t most : {size_t{1400}, size_t{60}, size_t{3}, size_t{1}}) {
            if (most < 60 && i % 10 == 0) continue;
            BucketMemory memory(4, 512, 64, 8, 1u << 20);
            const MessageBucket bucket(memory.memory, 0);
            const auto next = [&] { return 1 + rng() % most; };
            const std::string what = "conversation " + std::to_string(i) + " in pieces of " + std::to_string(most);
            expect_heard(hear(bucket, kClient, made.from_client(), next), made.requests, what);
            expect_heard(hear(bucket, kServer, made.from_server(), next), made.answers, what);
            EXPECT_EQ(memory.count(MessageCount::messages), made.requests.size() + made.answers.size());
            for (const MessageCount none : {MessageCount::unfollowed, MessageCount::lost, MessageCount::cut,
                                            MessageCount::undecoded, MessageCount::limited})
                ASSERT_EQ(memory.count(none), 0u) << what;
            bucket.begin(kClient / 2);
            ASSERT_EQ(memory.decoders_in_use(), 0u) << what;
            messages += memory.count(MessageCount::messages);
            decoded += memory.count(MessageCount::decoded);
        }
    }
    EXPECT_GT(messages, 5000u);
    EXPECT_GT(decoded, 1000u);
}

TEST(NidsMessages, AreHeardWhenTheyAreCutAtAnyByte) {
    std::mt19937 rng(2);
    for (int i = 0; i < 12; ++i) {
        const Conversation made = random_conversation(rng, 200);
        const std::string text = made.from_server();
        for (size_t cut = 1; cut < text.size(); ++cut) {
            BucketMemory memory(2, 512, 256, 3, 1u << 20);
            const MessageBucket bucket(memory.memory, 0);
            hear(bucket, kClient, made.from_client(), [] { return 100000; });
            bool first = true;
            expect_heard(hear(bucket, kServer, text, [&] { return std::exchange(first, false) ? cut : text.size(); }),
                         made.answers, "cut at " + std::to_string(cut));
        }
    }
}

struct Odd {
    const char* what;
    std::string answer, body;
};
/// What senders do to get past a reader, in part from http-evader's cases (noxxi.de) that suricata-verify has.
std::vector<Odd> odd_answers() {
    const std::string ok = "HTTP/1.1 200 ok\r\n", te = "Transfer-Encoding: chunked\r\n", end = "\r\n";
    const std::string two = "4\r\nover\r\n5\r\n here\r\n0\r\n\r\n", body = "over here";
    const std::string gzip = compress(body, Wrap::gzip), bare = compress(body, Wrap::bare);
    return {
        {"zeros before a size", ok + te + end + "0004\r\nover\r\n00000000000000000005\r\n here\r\n000\r\n\r\n", body},
        {"a size beyond all numbers", ok + te + end + "4\r\nover\r\nfffffffffffffffffffffff5\r\n here", body},
        {"an extension", ok + te + end + "4; a=\"5\"\r\nover\r\n5;x\r\n here\r\n0;y\r\n\r\n", body},
        {"blanks and letters behind a size", ok + te + end + "4 \t\r\nover\r\n5x\r\n here\r\n0\r\n\r\n", body},
        {"lines of LF only", "HTTP/1.1 200 ok\nTransfer-Encoding: chunked\n\n4\nover\n5\n here\n0\n\n", body},
        {"CR in front of a size", ok + te + end + "\r\n4\r\nover\r\n\r5\r\n here\r\n0\r\n\r\n", body},
        {"a folded field", ok + "Transfer-Encoding:\r\n \r\n chunked\r\n" + end + two, body},
        {"a field that looks folded", ok + "X: y\r\n " + te + end + two, body},
        {"a name folded before its colon", ok + "Transfer-Encoding\r\n :\r\n chunked\r\n" + end + two, body},
        {"a blank before the colon", ok + "Transfer-Encoding : chunked\r\n" + end + two, body},
        {"a zero in a name and a value", ok + std::string("Transfer\0-encoding:chun\0ked\r\n", 29) + end + two, body},
        {"a field behind a CR", ok + "X: y\r" + te + end + two, body},
        {"another coding before it", ok + "Transfer-Encoding: x, chunked\r\n" + end + two, body},
        {"a length beside it", ok + "Content-Length: 2\r\n" + te + end + two, body},
        {"a length behind it", ok + te + "Content-Length: 2000\r\n" + end + two, body},
        {"no chunks though it says so", ok + te + end + "=over here", "=over here"},
        {"no chunks, and a length", ok + te + "Content-Length: 4\r\n" + end + "over", "over"},
        {"what is no size behind a chunk", ok + te + end + "4\r\nover\r\n= here", "over= here"},
        {"the end in a chunk", ok + te + end + "4\r\nover\r\n500\r\n here", body},
        {"an empty line before it all", "\r\n \t\r\n" + ok + te + end + two, body},
        {"another line before it all", "foobar\r\n" + ok + te + end + two, body},
        {"another protocol's line before it", "SIP/2.0 200 ok\r\n" + ok + te + end + two, body},
        {"a zero before it all", std::string(1, '\0') + ok + te + end + two, body},
        {"lower case", "http/1.1 200 ok\r\n" + te + end + two, body},
        {"a version that there is not", "HTTP/1.1foobar\r\n" + te + end + two, body},
        {"a blank line at the head's end", ok + "X: y\r\nTransfer-Encoding: chunked\n\t\n" + two, body},
        {"CR CR LF in a head", ok + "\r\r\n" + te + end + two, body},
        {"an empty line too many", ok + te + " \r\n" + end + two, body},
        {"HTTP/0.9", "=over here, and no more of it, but a few words that make it long enough to tell", ""},
        {"a length of 0", ok + "Content-Length: 0\r\n" + end, ""},
        {"a body of 204", "HTTP/1.1 204 ok\r\nContent-Length: 9\r\n\r\nover here", body},
        {"chunks of 304", "HTTP/1.1 304 ok\r\n" + te + end + two, body},
        {"a body of 100", "HTTP/1.1 100 ok\r\nContent-Length: 9\r\n\r\nHTTPover.", "HTTPover."},
        {"two lengths", ok + "Content-Length: 9\r\nContent-Length: 4\r\n" + end + body, body},
        {"a length in brackets", ok + "Content-Length: (9) 4\r\n" + end + body, body},
        {"gzip", ok + "Content-Encoding: x gzip;\r\n" + end + gzip, body},
        {"gzip twice", ok + "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n" + end + compress(gzip, Wrap::gzip),
         body},
        {"gzip once though twice is said", ok + "Content-Encoding: gzip, gzip\r\n" + end + gzip, body},
        {"deflate that is said to be gzip", ok + "Content-Encoding: gzip\r\n" + end + bare, body},
        {"gzip behind an empty line", ok + "Content-Encoding: gzip\r\n \r\n\r\n" + gzip, body},
        {"no gzip though it says so", ok + "Content-Encoding: gzip, deflate\r\n" + end + body, body},
        {"identity", ok + "Content-Encoding: identity\r\n" + end + body, body},
        {"another coding", ok + "Content-Encoding: br\r\n" + end + body, body},
        {"gzip in chunks",
         ok + te + "Content-Encoding: gzip\r\n" + end + "1\r\n" + gzip.substr(0, 1) + "\r\n" +
             fmt::format("{:x}\r\n", gzip.size() - 1) + gzip.substr(1) + "\r\n0\r\n\r\n",
         body},
    };
}

TEST(NidsMessages, AreReadAsGenerouslyAsTheirReadersDo) {
    for (const Odd& odd : odd_answers())
        for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, size_t{10000}}) {
            BucketMemory memory(2, 512, 256, 4, 1u << 20);
            const MessageBucket bucket(memory.memory, 0);
            hear(bucket, kClient, "GET / HTTP/1.1\r\n\r\n", [] { return 1000; });
            const auto heard = hear(bucket, kServer, odd.answer, [&] { return piece; });
            ASSERT_EQ(heard.size(), 1u) << odd.what;
            EXPECT_TRUE(heard[0].is_response);
            const bool bare = heard[0].head.empty();
            EXPECT_EQ(heard[0].body, bare ? odd.answer : odd.body) << odd.what << ", in pieces of " << piece;
            EXPECT_EQ(bare, std::string(odd.what) == "HTTP/0.9");
        }
}

/// What is no HTTP, or no more, takes no room.
TEST(NidsMessages, AreNotTakenForSuchWhereTheyAreNone) {
    const std::string get = "GET / HTTP/1.1\r\n\r\n", connect = "CONNECT a:1 HTTP/1.1\r\n\r\n";
    const struct {
        std::string client, server;
        size_t requests, answers;
        int rooms = 0;
    } kCases[] = {{"\x16\x03\x01 a handshake", "\x16\x03\x01 another", 0, 0},
                  {"EHLO mail.example.org\r\n", "220 mail.example.org\r\n", 0, 0},
                  {"GET /without/a/version\r\n\r\n", "no HTTP", 0, 0},
                  {"a-method-that-is-longer-than-any-that-there-is / HTTP/1.1\r\n\r\n", "", 0, 0},
                  {connect + "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 ok\r\n\r\nHTTP/1.1 200 ok\r\n\r\n", 2, 1},
                  {get, "HTTP/1.1 101 ok\r\n\r\nHTTP/1.1 200 ok\r\n\r\n", 1, 1},
                  {get + "\x16 no more" + get, "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n", 1, 1, 1}};  // an answer
                                                                                                           // may begin
    for (const auto& each : kCases)
        for (const size_t piece : {1, 5, 1000}) {
            BucketMemory memory(2, 256, 64, 1, 1u << 20);
            const MessageBucket bucket(memory.memory, 0);
            EXPECT_EQ(hear(bucket, kClient, each.client, [&] { return piece; }).size(), each.requests) << each.client;
            EXPECT_EQ(hear(bucket, kServer, each.server, [&] { return piece; }).size(), each.answers) << each.client;
            Listener listener;
            http::follow(bucket, kClient, "more", 5000, listener);
            http::follow(bucket, kServer, "more", 5000, listener);
            EXPECT_EQ(bucket.room(0).used + bucket.room(1).used, each.rooms) << each.client;
        }
}

/// One that a segment begins with was judged with it: only what that can't tell is looked at.
TEST(NidsMessages, AreNotLookedAtAgainWithoutNeed) {
    BucketMemory memory(2, 256, 64, 1, 1u << 20);
    const MessageBucket bucket(memory.memory, 0);
    const auto all = [] { return 100000; };
    EXPECT_EQ(hear(bucket, kClient, "GET / HTTP/1.1\r\n\r\n", all, true).size(), 0u);
    EXPECT_EQ(hear(bucket, kClient + 2, "GET / HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n", all, true).size(), 1u);
    EXPECT_EQ(hear(bucket, kClient + 4, "GET / HTTP/1.1\r\n\r\n", [] { return 9; }, true).size(), 1u);
    EXPECT_EQ(memory.count(MessageCount::messages), 4u);
}

TEST(NidsMessages, GoOnBehindAGapInABodyOfAKnownLength) {
    for (const bool known : {true, false}) {
        BucketMemory memory(2, 256, 64, 1, 1u << 20);
        const MessageBucket bucket(memory.memory, 0);
        Listener listener;
        const std::string head = std::string("POST / HTTP/1.1\r\n") +
                                 (known ? "Content-Length: 30\r\n\r\n"
                                        : "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n1e\r\n");
        const auto begin = static_cast<uint32_t>(head.size());
        http::follow(bucket, kClient, head + "0123456789", 0, listener);
        http::follow(bucket, kClient, "klmnopqrst" + std::string(known ? "" : "\r\n0\r\n\r\n"), begin + 20, listener);
        const std::string next = "GET / HTTP/1.1\r\n\r\n";
        http::follow(bucket, kClient, next, begin + 30 + (known ? 0 : 7), listener);
        ASSERT_EQ(listener.heard.size(), 2u);
        EXPECT_EQ(listener.heard[0].body, std::string(known ? "" : "abcde") + "0123456789klmnopqrst");
        EXPECT_EQ(listener.heard[1].head, next);
        // Behind one that is longer than the body nobody knows where the next message is.
        http::follow(bucket, kClient, "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 1000, listener);
        http::follow(bucket, kClient, next, 2000, listener);
        EXPECT_EQ(listener.heard.size(), 3u);
        EXPECT_EQ(memory.count(MessageCount::lost), 1u);
    }
}

TEST(NidsMessages, AreCountedWhereThereIsNoRoomForThem) {
    BucketMemory memory(2, 128, 64, 1, 1000);
    const MessageBucket bucket(memory.memory, 0);
    Listener listener;
    const std::string post = "POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 1000000\r\n\r\n";
    const std::string bomb = compress(std::string(100000, 'a'), Wrap::gzip);
    std::string noise;
    std::mt19937 rng(5);
    for (int i = 0; i < 900; ++i) noise += static_cast<char>(rng());
    const std::string slow = compress(noise, Wrap::gzip);
    for (uint32_t way = 0; way < 3; ++way) http::follow(bucket, 2 * way, post + slow.substr(0, 300), 0, listener);
    EXPECT_EQ(memory.count(MessageCount::unfollowed), 1u);
    EXPECT_EQ(memory.count(MessageCount::decoded), 1u);
    EXPECT_EQ(memory.count(MessageCount::undecoded), 1u);
    EXPECT_EQ(memory.decoders_in_use(), 1u);
    ASSERT_EQ(listener.heard.size(), 2u);
    bucket.begin(0);
    http::follow(bucket, 0, post + bomb, 0, listener);
    EXPECT_EQ(memory.decoders_in_use(), 0u);  // it has come to its limit
    EXPECT_EQ(memory.count(MessageCount::limited), 1u);
    EXPECT_EQ(listener.heard[2].body, std::string(1000, 'a'));
    // A head that is too long is kept as far as there is room, and its fields are read.
    bucket.begin(0);
    http::follow(
        bucket, 0,
        "POST / HTTP/1.1\r\nX: " + std::string(5000, 'x') + "\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n", 0,
        listener);
    EXPECT_EQ(memory.count(MessageCount::cut), 1u);
    EXPECT_EQ(listener.heard[3].head.size(), 128u);
    EXPECT_EQ(listener.heard[3].body, "body");
    // A decoder that nobody has used for long is another's.
    bucket.begin(0);
    bucket.begin(1);
    const std::string part = slow.substr(0, 20);
    http::follow(bucket, 0, post + part, 0, listener, 1);
    http::follow(bucket, 2, post + part, 0, listener, http::DecoderPool::kIdleNs);
    EXPECT_EQ(memory.count(MessageCount::undecoded), 2u);
    bucket.begin(1);
    http::follow(bucket, 2, post + part, 0, listener, http::DecoderPool::kIdleNs + 1);
    EXPECT_EQ(memory.count(MessageCount::undecoded), 2u);
    http::follow(bucket, 0, slow.substr(20, 5), static_cast<uint32_t>(post.size()) + 20, listener,
                 http::DecoderPool::kIdleNs + 2);
    EXPECT_EQ(memory.count(MessageCount::undecoded), 3u);
    bucket.begin(0);
    bucket.begin(1);
    EXPECT_EQ(memory.decoders_in_use(), 0u);
}

}  // namespace
}  // namespace millrace::nf::nids
