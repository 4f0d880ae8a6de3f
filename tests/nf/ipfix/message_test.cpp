// Messages byte by byte, and what the exporter makes of a collector that is away.
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>

#include "nf/ipfix/post.hpp"

namespace millrace::test {
namespace {

std::string hex(std::span<const uint8_t> bytes) {
    std::string text;
    for (const uint8_t byte : bytes) {
        constexpr const char* kDigits = "0123456789abcdef";
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}
/// Without the blanks that make it readable.
std::string joined(std::string text) {
    std::erase(text, ' ');
    return text;
}

constexpr const char* kTemplates =
    // header: version 10, 298 bytes, time, sequence 0, domain 7
    "000a 012a 6553f100 00000000 00000007"
    // templates of flows
    "0002 008c"
    "0100 0010 0008 0004 000c 0004 0007 0002 000b 0002 0004 0001 0005 0001 0006 0002 0020 0002 003a 0002 000a 0004 "
    "000e 0004 0098 0008 0099 0008 0001 0008 0002 0008 0088 0001"
    "0101 0010 001b 0010 001c 0010 0007 0002 000b 0002 0004 0001 0005 0001 0006 0002 008b 0002 003a 0002 000a 0004 "
    "000e 0004 0098 0008 0099 0008 0001 0008 0002 0008 0088 0001"
    // templates of options: a scope of one field each
    "0003 0038"
    "0102 0008 0001 0095 0004 0029 0008 002a 0008 0028 0008 00a4 0008 00a6 0008 00a7 0008 00a8 0008"
    "0103 0002 0001 000a 0004 0052 ffff"
    // statistics of the exporter
    "0102 0040 00000007 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 "
    "0000000000000000 0000000000000000"
    // names of interfaces: lan and wan-2
    "0103 0016 00000001 03 6c616e 00000002 05 77616e2d32";

constexpr const char* kFlows =
    "000a 00aa 6553f101 00000003 00000007"
    "0100 0041 0a000001 c0000207 03e8 01bb 06 b8 001b 0000 0064 00000001 00000003 00000174876e807b 00000174876e83e8 "
    "0000000000001234 0000000000000003 03"
    "0101 0059 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf b0b1b2b3b4b5b6b7b8b9babbbcbdbebf 0000 0000 3a 00 0000 8001 0000 "
    "00000000 "
    "00000000 0000000000000001 0000000000000002 0000000000000040 0000000000000001 01";

TEST(IpfixMessages, AreTheseBytes) {
    Post post;
    Clock clock;
    ExportOptions options;
    options.domain = 7;
    Exporter exporter(options, std::make_unique<TestSender>(post, 1472), {"lan", "wan-2"}, clock.function());
    exporter.add(ipv4_note());
    *clock.now += kOneSecond;
    exporter.add(ipv6_note());
    ASSERT_EQ(post.messages.size(), 1u) << "no more than templates, before a message is full";
    exporter.send_rest();
    ASSERT_EQ(post.messages.size(), 2u);
    EXPECT_EQ(hex(post.messages[0]), joined(kTemplates));
    EXPECT_EQ(hex(post.messages[1]), joined(kFlows));
    exporter.send_rest();
    EXPECT_EQ(post.messages.size(), 2u) << "an empty message";
}

TEST(IpfixMessages, AreNoLongerThanTheMtuLetsThem) {
    for (const size_t most : {528u, 1472u, 65507u}) {
        Post post;
        Clock clock;
        Exporter exporter({}, std::make_unique<TestSender>(post, most), {std::string(300, 'x')}, clock.function());
        uint64_t packets = 0;
        for (unsigned i = 0; i < 5000; ++i) {
            Note note = i % 3 == 0 ? ipv6_note() : ipv4_note();
            note.count.packets = i;
            packets += i;
            exporter.add(note);
        }
        exporter.finish();
        IpfixReader reader;
        size_t longest = 0;
        for (const auto& message : post.messages) {
            longest = std::max(longest, message.size());
            ASSERT_NO_FATAL_FAILURE(reader.read(message));
        }
        EXPECT_LE(longest, most);
        EXPECT_GT(longest, most - 100);
        ASSERT_EQ(reader.flows().size(), 5000u);
        uint64_t seen = 0;
        for (const IpfixRecord& record : reader.flows()) seen += record.number(2);
        EXPECT_EQ(seen, packets);
        EXPECT_EQ(exporter.sent().records, 5000u);
        EXPECT_EQ(exporter.messages(), post.messages.size());
        EXPECT_EQ(exporter.message_bytes(),
                  std::accumulate(post.messages.begin(), post.messages.end(), size_t{0},
                                  [](size_t sum, const auto& message) { return sum + message.size(); }));
    }
}

TEST(IpfixMessages, RepeatTemplatesByTimeAndByMessages) {
    Post post;
    Clock clock;
    ExportOptions options;
    options.template_refresh_ns = 10 * kOneSecond;
    options.template_messages = 3;
    Exporter exporter(options, std::make_unique<TestSender>(post, 1472), {}, clock.function());
    IpfixReader reader;
    const auto templates_after = [&](uint64_t seconds) {
        *clock.now += seconds * kOneSecond;
        post.messages.clear();
        exporter.add(ipv4_note());
        exporter.send_rest();
        const size_t before = reader.templates;
        for (const auto& message : post.messages) reader.read(message);
        return reader.templates - before;
    };
    EXPECT_EQ(templates_after(0), 4u);
    EXPECT_EQ(templates_after(9), 0u);
    EXPECT_EQ(templates_after(1), 4u) << "by time";
    EXPECT_EQ(templates_after(1), 0u);
    EXPECT_EQ(templates_after(1), 0u);
    EXPECT_EQ(templates_after(1), 4u) << "after three messages";
    // Without a pause between messages, too.
    post.messages.clear();
    const size_t before = reader.templates;
    for (int i = 0; i < 1000; ++i) exporter.add(ipv4_note());
    exporter.send_rest();
    for (const auto& message : post.messages) reader.read(message);
    EXPECT_GE(reader.templates - before, 4 * (1000 / 24 / 3));
}

TEST(IpfixMessages, SayWhatWasLostAndWhy) {
    Post post;
    Clock clock;
    Exporter exporter({}, std::make_unique<TestSender>(post, 1472), {}, clock.function());
    uint64_t told = 0;
    const auto send_one = [&](std::vector<int> errors) {
        post.errors = std::move(errors);
        Note note = ipv4_note();
        note.count.packets = ++told;
        exporter.add(note);
        exporter.send_rest();
        EXPECT_TRUE(post.errors.empty());
    };
    send_one({});                 // 1, and templates
    send_one({EAGAIN});           // 2: no room
    send_one({ENETUNREACH});      // 3: no way
    send_one({EMSGSIZE});         // 4
    send_one({});                 // 5
    send_one({0, ECONNREFUSED});  // 5 was refused, 6 is sent
    post.refused = ECONNREFUSED;  // 6 was, too
    exporter.settle_last();
    send_one({});  // 7
    const auto unsent = [&](Unsent why) {
        return std::pair(exporter.unsent(why).records, exporter.unsent(why).packets);
    };
    EXPECT_EQ(unsent(Unsent::queue_full), std::pair(uint64_t{1}, uint64_t{2}));
    EXPECT_EQ(unsent(Unsent::unreachable), std::pair(uint64_t{1}, uint64_t{3}));
    EXPECT_EQ(unsent(Unsent::failed), std::pair(uint64_t{1}, uint64_t{4}));
    EXPECT_EQ(unsent(Unsent::refused), std::pair(uint64_t{2}, uint64_t{5 + 6}));
    exporter.set_ignored(99, {1, 1000, 1});
    exporter.finish();
    EXPECT_EQ(exporter.sent().packets, 1u + 7u);
    // A collector sees by the sequence numbers that 2, 3 and 4 are missing, and is told of all at the end.
    IpfixReader reader;
    for (const auto& message : post.messages) {
        if (reader.flows().size() == 1 && reader.missing == 0) reader.missing = 3;
        reader.read(message);
    }
    ASSERT_EQ(reader.flows().size(), 4u);
    const IpfixRecord& statistics = reader.records.back();
    EXPECT_TRUE(statistics.is_option);
    EXPECT_EQ(statistics.number(149), 0u);
    EXPECT_EQ(statistics.number(41), exporter.messages() - 1);
    EXPECT_EQ(statistics.number(42), 2u);
    EXPECT_EQ(statistics.number(164), 99u);
    EXPECT_EQ(statistics.number(166), 5u + 1u);
    EXPECT_EQ(statistics.number(167), 2u + 3 + 4 + 5 + 6 + 1000);
}

TEST(IpfixMessages, WaitForRoomWhereTheyAreAskedTo) {
    Post post;
    Clock clock;
    Exporter exporter({}, std::make_unique<TestSender>(post, 1472), {}, clock.function());
    const auto send_one = [&](std::vector<int> errors) {
        post.errors = std::move(errors);
        exporter.add(ipv4_note());
        exporter.send_rest();
    };
    send_one({});
    post.rooms = 2;
    send_one({EAGAIN});
    EXPECT_EQ(exporter.unsent(Unsent::queue_full).records, 1u) << "nobody has asked";
    exporter.wait_for_room();
    send_one({EAGAIN, ENOBUFS});
    EXPECT_EQ(exporter.unsent(Unsent::queue_full).records, 1u);
    EXPECT_EQ(post.rooms, 0);
    send_one({EAGAIN, EAGAIN});
    EXPECT_EQ(exporter.unsent(Unsent::queue_full).records, 2u);
    post.rooms = 9;
    post.errors.clear();
    send_one({EAGAIN});
    EXPECT_EQ(exporter.unsent(Unsent::queue_full).records, 3u)
        << "a collector that has taken too long is waited for no more";
    EXPECT_EQ(post.rooms, 9);
}

TEST(IpfixMessages, ComeAlsoOfARunWithoutFlows) {
    Post post;
    Clock clock;
    Exporter exporter({}, std::make_unique<TestSender>(post, 1472), {}, clock.function());
    exporter.finish();
    IpfixReader reader;
    for (const auto& message : post.messages) reader.read(message);
    EXPECT_EQ(reader.templates, 4u);
    EXPECT_TRUE(reader.flows().empty());
}

}  // namespace
}  // namespace millrace::test
