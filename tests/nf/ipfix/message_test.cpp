// Messages byte by byte, and what the exporter makes of a collector that is away.
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>

#include "millrace/nf/ipfix/record_log.hpp"
#include "nf/ipfix/reader.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

using namespace nf::ipfix;

constexpr uint64_t kOneSecond = 1'000'000'000, kNow = 1'700'000'000 * kOneSecond;

Note ipv4_note() {
    Note note{};
    const uint8_t source[] = {10, 0, 0, 1}, destination[] = {192, 0, 2, 7};
    std::memcpy(note.key.source, source, 4);
    std::memcpy(note.key.destination, destination, 4);
    note.key.source_port = 1000;
    note.key.destination_port = 443;
    note.key.protocol = 6;
    note.key.vlan = 100;
    note.key.in_port = 0;
    note.count = {.packets = 3,
                  .octets = 0x1234,
                  .first_ns = 1'600'000'000'123'999'999,
                  .last_ns = 1'600'000'001'000'000'000,
                  .out_port = 2,
                  .tos = 0xb8,
                  .tcp_flags = 0x1b,
                  .ended = 1,
                  .reserved = {}};
    note.reason = EndReason::end_of_flow;
    return note;
}

Note ipv6_note() {
    Note note{};
    for (uint8_t i = 0; i < 16; ++i) {
        reinterpret_cast<uint8_t*>(note.key.source)[i] = static_cast<uint8_t>(0xa0 + i);
        reinterpret_cast<uint8_t*>(note.key.destination)[i] = static_cast<uint8_t>(0xb0 + i);
    }
    note.key.icmp = 0x8001;
    note.key.protocol = 58;
    note.key.is_ipv6 = 1;
    note.key.in_port = kNoPort;
    note.count = {.packets = 1,
                  .octets = 64,
                  .first_ns = 1'000'000,
                  .last_ns = 2'000'000,
                  .out_port = kNoPort,
                  .tos = 0,
                  .tcp_flags = 0,
                  .ended = 0,
                  .reserved = {}};
    note.reason = EndReason::idle;
    return note;
}

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

/// Takes messages, or refuses them with the next of `errors`.
struct Post {
    std::vector<std::vector<uint8_t>> messages;
    std::vector<int> errors;  ///< of the next messages, the first one last
    int refused = 0;
};
class TestSender : public Sender {
public:
    TestSender(Post& post, size_t most) : post_(post), most_(most) {}
    int send(std::span<const uint8_t> message) override {
        if (!post_.errors.empty()) {
            const int error = post_.errors.back();
            post_.errors.pop_back();
            if (error != 0) return error;
        }
        post_.messages.emplace_back(message.begin(), message.end());
        return 0;
    }
    int refused() override { return std::exchange(post_.refused, 0); }
    size_t most_bytes() const override { return most_; }

private:
    Post& post_;
    const size_t most_;
};

struct Clock {
    std::shared_ptr<uint64_t> now = std::make_shared<uint64_t>(kNow);
    std::function<uint64_t()> function() const {
        return [now = now] { return *now; };
    }
};

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
    "0101 0059 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf b0b1b2b3b4b5b6b7b8b9babbbcbdbebf 0000 0000 3a 00 0000 8001 0000 00000000 "
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
    send_one({});                    // 1, and templates
    send_one({EAGAIN});              // 2: no room
    send_one({ENETUNREACH});         // 3: no way
    send_one({EMSGSIZE});            // 4
    send_one({});                    // 5
    send_one({0, ECONNREFUSED});     // 5 was refused, 6 is sent
    post.refused = ECONNREFUSED;     // 6 was, too
    exporter.settle_last();
    send_one({});                    // 7
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

/// A table of flows as the log looks at it.
struct Table {
    struct Entry {
        FlowKey key;
        FlowCount count;
        uint64_t deadline_ns;
    };
    std::vector<Entry> entries;
    std::function<void()> meanwhile;
    bool gone = false;
    RecordLog::Each each() {
        return [this](uint64_t until, const RecordLog::Visit& visit) {
            if (meanwhile) meanwhile();
            for (const Entry& entry : entries)
                if (entry.deadline_ns <= until) visit(entry.key, entry.count, entry.deadline_ns);
            return !gone;
        };
    }
};

class IpfixLog : public testing::Test {
protected:
    IpfixLog() : log_({}, std::make_unique<TestSender>(post_, 1472), {}, clock_.function()) {}
    static Table::Entry flow(uint16_t port, uint64_t first_ns, uint64_t packets) {
        const Note note = note_of(port, first_ns, packets);
        return {note.key, note.count, first_ns + 15 * kOneSecond};
    }
    static Note note_of(uint16_t port, uint64_t first_ns, uint64_t packets) {
        Note note = ipv4_note();
        note.key.source_port = port;
        note.count.first_ns = note.count.last_ns = first_ns;
        note.count.packets = packets;
        note.count.octets = 100 * packets;
        note.count.ended = 0;
        note.reason = EndReason::idle;
        return note;
    }
    void look(uint64_t later_ns) {
        *clock_.now += later_ns;
        *clock_.now += 2 * kOneSecond;  // looks are a second apart
        log_.end_idle(table_.entries.size(), table_.each());
    }
    /// Port, packets and reason of the flows that were told of since the last time.
    std::vector<std::array<uint64_t, 3>> told() {
        log_.send_rest();
        std::vector<std::array<uint64_t, 3>> all;
        for (; read_ < post_.messages.size(); ++read_) reader_.read(post_.messages[read_]);
        const auto flows = reader_.flows();
        for (; told_ < flows.size(); ++told_)
            all.push_back({flows[told_].number(7), flows[told_].number(2), flows[told_].number(136)});
        return all;
    }
    using Told = std::vector<std::array<uint64_t, 3>>;

    Clock clock_;
    Post post_;
    RecordLog log_;
    Table table_;
    IpfixReader reader_;
    size_t read_ = 0, told_ = 0;
};

TEST_F(IpfixLog, TellsOnceOfFlowsThatTheClockHasEnded) {
    table_.entries = {flow(1, kNow, 10), flow(2, kNow - 3600 * kOneSecond, 20)};
    look(13 * kOneSecond);
    EXPECT_EQ(told(), Told{}) << "packets may be late";
    log_.end_idle(2, table_.each());
    look(0);
    EXPECT_EQ(told(), (Told{{1, 10, 1}})) << "a packet from before the run has no clock";
    look(kOneSecond);
    EXPECT_EQ(told(), Told{});
    // A packet comes at last: the device tells of the flow as it was.
    log_.add(note_of(1, kNow, 10));
    EXPECT_EQ(told(), Told{});
    log_.add(note_of(1, kNow + 40 * kOneSecond, 5));
    EXPECT_EQ(told(), (Told{{1, 5, 1}}));
}

TEST_F(IpfixLog, TellsTheRestOfAFlowThatWentOnAfterAll) {
    table_.entries = {flow(1, kNow, 10)};
    look(16 * kOneSecond);
    EXPECT_EQ(told(), (Told{{1, 10, 1}}));
    log_.add(note_of(1, kNow, 12));
    EXPECT_EQ(told(), (Told{{1, 2, 1}}));
}

TEST_F(IpfixLog, KnowsFlowsThatEndWhileItLooks) {
    table_.entries = {flow(1, kNow, 10), flow(2, kNow, 20)};
    table_.meanwhile = [this] { log_.add(note_of(2, kNow, 20)); };
    look(16 * kOneSecond);
    EXPECT_EQ(told(), (Told{{2, 20, 1}, {1, 10, 1}}));
    table_.meanwhile = {};
    table_.entries.pop_back();
    table_.entries.push_back(flow(2, kNow + kOneSecond, 7));
    look(20 * kOneSecond);
    EXPECT_EQ(told(), (Told{{2, 7, 1}})) << "another flow with the same key";
}

TEST_F(IpfixLog, ForgetsWhatWentWithADevice) {
    table_.entries = {flow(1, kNow, 10)};
    look(16 * kOneSecond);
    EXPECT_EQ(told(), (Told{{1, 10, 1}}));
    log_.forget();
    table_.entries = {flow(9, kNow, 1)};
    look(0);
    EXPECT_EQ(told(), (Told{{9, 1, 1}})) << "nobody looks where all is known";
    log_.add(note_of(1, kNow, 10));
    EXPECT_EQ(told(), (Told{{1, 10, 1}}));
    // A device that goes in the midst of a look leaves nothing that is known.
    table_.entries = {flow(9, kNow, 1), flow(10, kNow, 1)};
    table_.gone = true;
    look(0);
    EXPECT_EQ(told(), (Told{{10, 1, 1}}));
    log_.add(note_of(10, kNow, 1));
    EXPECT_EQ(told(), (Told{{10, 1, 1}}));
}

TEST_F(IpfixLog, EndsAllFlowsWithTheRun) {
    Table::Entry ended = flow(3, kNow, 30);
    ended.count.ended = 1;
    table_.entries = {flow(1, kNow - 100 * kOneSecond, 10), flow(2, kNow, 20), ended};
    log_.end_all(table_.each());
    EXPECT_EQ(told(), (Told{{1, 10, 1}, {2, 20, 4}, {3, 30, 3}})) << "idle, forced, ended by TCP";
    EXPECT_EQ(log_.sent().packets, 60u);
}

}  // namespace
}  // namespace millrace::test
