// Each packet is in one record, whoever has found its flow at its end.
#include <gtest/gtest.h>

#include "nf/ipfix/post.hpp"

namespace millrace::test {
namespace {

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
