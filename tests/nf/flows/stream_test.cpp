// Streams put in order: random sessions cut, shuffled, doubled and overlapped at will, byte by byte what was sent.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "millrace/nf/flows/stream.hpp"

namespace millrace::nf::flows {
namespace {

/// Memory for one bucket, with a guard on both sides.
class Bucket {
public:
    static constexpr uint64_t kGuard = 0x1122334455667788ull;
    static constexpr size_t kGuards = 512;

    Bucket(uint32_t tail, uint32_t early)
        : words_(StreamMemory::words_of_bucket(tail, early) + 2 * kGuards, kGuard),
          counts_(static_cast<size_t>(StreamCount::count)) {
        std::fill(words_.begin() + kGuards, words_.end() - kGuards, 0);
        memory_.words = {words_.data() + kGuards, words_.size() - 2 * kGuards};
        memory_.counts = {counts_.data(), counts_.size()};
        memory_.tail = tail;
        memory_.early = early;
    }
    ~Bucket() {
        for (size_t i = 0; i < kGuards; ++i) {
            EXPECT_EQ(words_[i], kGuard);
            EXPECT_EQ(words_[words_.size() - 1 - i], kGuard);
        }
    }

    Streams streams() const { return {memory_, 0}; }
    uint64_t count(StreamCount what) const { return counts_[static_cast<size_t>(what)]; }

    /// Takes a segment of a stream in; what is in order behind it is appended to `told`.
    uint32_t take(uint32_t number, uint32_t seq, const std::string& bytes, std::string& told, uint8_t flags = 0) {
        StreamSegment segment;
        segment.seq = seq;
        segment.bytes = static_cast<uint32_t>(bytes.size());
        segment.data = reinterpret_cast<const uint8_t*>(bytes.data());
        segment.flags = flags;
        return streams().take(
            number, segment, [&](uint32_t way) { return gone >> way & 1; },
            [&](const StreamPiece& piece) {
                const std::string tail(reinterpret_cast<const char*>(piece.tail), piece.tail_bytes);
                ASSERT_LE(tail.size(), memory_.tail);
                ASSERT_TRUE(told.ends_with(tail)) << "the tail is what came before";
                if (piece.whole) {
                    ASSERT_EQ(tail.size(), told.size());
                }
                ASSERT_GT(piece.bytes, 0u);
                told.append(reinterpret_cast<const char*>(piece.data), piece.bytes);
            });
    }
    uint32_t gone = 0;  ///< ways whose flow has ended

private:
    std::vector<uint64_t> words_, counts_;
    StreamMemory memory_;
};

std::string random_text(std::mt19937& rng, size_t bytes) {
    std::string text(bytes, ' ');
    for (char& c : text) c = static_cast<char>(rng());
    return text;
}

struct Cut {
    size_t at, bytes;
};
/// A stream in pieces, some of which overlap, come twice, or late: never more than `late` of them at once.
std::vector<Cut> cuts_of(std::mt19937& rng, size_t bytes, size_t most, size_t late) {
    std::vector<Cut> cuts;
    for (size_t at = 0; at < bytes;) {
        const size_t length = std::min(bytes - at, 1 + rng() % most);
        cuts.push_back({at, length});
        at += length;
    }
    if (late > 0) {
        for (size_t i = 0; i + 1 < cuts.size(); i += 1 + rng() % 4) {  // one goes behind up to `late` others
            const size_t to = std::min(cuts.size() - 1, i + 1 + rng() % late);
            std::rotate(cuts.begin() + static_cast<long>(i), cuts.begin() + static_cast<long>(i) + 1,
                        cuts.begin() + static_cast<long>(to) + 1);
            i = to;
        }
    }
    std::vector<Cut> all;
    size_t known = 0;
    for (const Cut& cut : cuts) {
        Cut own = cut;
        const size_t back = rng() % 3 == 0 ? rng() % (own.at + 1) % 100 : 0;
        own.at -= back;  // it begins with bytes that have come before, or come too
        own.bytes += back;
        all.push_back(own);
        if (rng() % 4 == 0 && known > 0) {
            const size_t at = rng() % known;
            all.push_back({at, std::min(known - at, 1 + rng() % most)});
        }
        known = std::max(known, cut.at);
    }
    return all;
}

TEST(Streams, AreWhatWasSentHoweverItWasCut) {
    for (unsigned seed = 0; seed < 300; ++seed) {
        std::mt19937 rng(seed);
        const uint32_t tail = 64 + 8 * (rng() % 60), late = rng() % 6;
        Bucket bucket(tail, 6 * late);  // some come twice
        const std::string sent = random_text(rng, 1 + rng() % 6000);
        // Many begin right before the numbers begin anew.
        const uint32_t first = rng() % 2 == 0 ? static_cast<uint32_t>(rng()) : 0u - static_cast<uint32_t>(rng() % 4000);
        const uint32_t number = rng() % StreamMemory::kStreams;
        std::string told;
        bucket.take(number, first - 1, "", told, tcp::kSyn);
        for (const Cut& cut : cuts_of(rng, sent.size(), 1 + rng() % 900, late))
            EXPECT_EQ(bucket.take(number, first + static_cast<uint32_t>(cut.at), sent.substr(cut.at, cut.bytes), told),
                      0u);
        ASSERT_TRUE(told == sent) << "seed " << seed;
        EXPECT_EQ(bucket.count(StreamCount::changed), 0u);
        EXPECT_EQ(bucket.count(StreamCount::gaps), 0u) << "seed " << seed;
        const Stream& stream = bucket.streams().of(number);
        EXPECT_EQ(stream.bytes, std::min<size_t>(tail, sent.size()));
        EXPECT_EQ((stream.flags & Stream::kWhole) != 0, sent.size() <= tail);
    }
}

TEST(Streams, OfABucketDoNotMix) {
    std::mt19937 rng(7);
    Bucket bucket(128, 64);
    struct One {
        std::string sent, told;
        std::vector<Cut> cuts;
        size_t next = 0;
        uint32_t first;
    };
    std::vector<One> all(StreamMemory::kStreams);
    std::vector<size_t> turns;
    for (size_t i = 0; i < all.size(); ++i) {
        all[i].sent = random_text(rng, 4000);
        all[i].cuts = cuts_of(rng, 4000, 300, 2);
        all[i].first = static_cast<uint32_t>(rng());
        bucket.take(static_cast<uint32_t>(i), all[i].first - 1, "", all[i].told, tcp::kSyn);
        turns.insert(turns.end(), all[i].cuts.size(), i);
    }
    std::shuffle(turns.begin(), turns.end(), rng);
    for (const size_t i : turns) {
        const Cut& cut = all[i].cuts[all[i].next++];
        bucket.take(static_cast<uint32_t>(i), all[i].first + static_cast<uint32_t>(cut.at),
                    all[i].sent.substr(cut.at, cut.bytes), all[i].told);
    }
    for (const One& one : all) EXPECT_TRUE(one.told == one.sent);
    EXPECT_EQ(bucket.count(StreamCount::gaps), 0u);
    EXPECT_GT(bucket.count(StreamCount::early), 100u);
}

TEST(Streams, GoOnBehindAGapWhenThereIsNoRoom) {
    for (const uint32_t rooms : {0u, 1u, 3u}) {
        Bucket bucket(64, rooms);
        std::string told;
        bucket.take(0, 99, "", told, tcp::kSyn);
        bucket.take(0, 100, "begin", told);
        told.clear();
        bucket.streams().of(0).bytes = 0;  // `told` begins here
        bucket.streams().of(0).flags = Stream::kKnown;
        for (uint32_t i = 0; i < rooms; ++i)
            EXPECT_EQ(bucket.take(0, 200 + 10 * i, std::string(10, static_cast<char>('a' + i)), told), 0u);
        EXPECT_EQ(told, "");
        EXPECT_EQ(bucket.take(0, 200 + 10 * rooms, "end", told), stream_event::kGap);
        std::string want;
        for (uint32_t i = 0; i < rooms; ++i) want += std::string(10, static_cast<char>('a' + i));
        EXPECT_EQ(told, want + "end");
        EXPECT_EQ(bucket.count(StreamCount::gaps), 1u);
        EXPECT_EQ(bucket.take(0, 203 + 10 * rooms, "!", told), 0u);
        EXPECT_EQ(told, want + "end!");
        // What was missing is old by now.
        EXPECT_EQ(bucket.take(0, 105, std::string(95, 'x'), told), 0u);
        EXPECT_EQ(told, want + "end!");
        // Each gap is counted, and told once.
        std::string behind;
        bucket.streams().of(0).bytes = 0;
        for (uint32_t i = 0; i <= rooms; ++i) EXPECT_EQ(bucket.take(0, 900 + 20 * i, "0123456789", behind), 0u);
        EXPECT_GE(bucket.count(StreamCount::gaps), 2u);
    }
}

TEST(Streams, WithSegmentsTooLargeToKeepGoOnBehindTheGap) {
    Bucket bucket(64, 4);
    std::string told;
    bucket.take(0, 0, "", told, tcp::kSyn);
    EXPECT_EQ(bucket.take(0, 501, "first", told), 0u);
    EXPECT_EQ(bucket.take(0, 1001, std::string(StreamMemory::kEarlyBytes + 1, 'x'), told), stream_event::kGap);
    EXPECT_EQ(bucket.count(StreamCount::gaps), 2u) << "before the one that was kept, and behind it";
    EXPECT_TRUE(told.starts_with("first"));
}

TEST(Streams, ReportOtherBytesForTheSameNumbers) {
    Bucket bucket(64, 4);
    std::string told;
    bucket.take(0, 0, "", told, tcp::kSyn);
    bucket.take(0, 1, "good bytes", told);
    EXPECT_EQ(bucket.take(0, 1, "good bytes", told), 0u);
    EXPECT_EQ(bucket.take(0, 6, "BYTES and more", told), stream_event::kChanged);
    EXPECT_EQ(told, "good bytes and more") << "what came first counts";
    EXPECT_EQ(bucket.take(0, 1, "evil", told), 0u) << "told once";
    EXPECT_EQ(bucket.count(StreamCount::changed), 2u) << "and counted each time";
    // Early ones among themselves, and with what fills the gap.
    told.clear();
    bucket.streams().begin(0);
    bucket.take(0, 0, "", told, tcp::kSyn);
    bucket.take(0, 11, "kkkkk", told);
    EXPECT_EQ(bucket.take(0, 13, "KKKKKKK", told), stream_event::kChanged);
    bucket.take(0, 1, "0123456789", told);
    EXPECT_EQ(told, "0123456789kkkkkKKKK");
    // An early one that the next in order has other bytes for.
    told.clear();
    bucket.streams().begin(0);
    bucket.take(0, 0, "", told, tcp::kSyn);
    bucket.take(0, 6, "early", told);
    EXPECT_EQ(bucket.take(0, 1, "01234EARLY!", told), stream_event::kChanged);
    EXPECT_EQ(told, "01234EARLY!");
}

TEST(Streams, TakeKeepAlivesAndProbesForWhatTheyAre) {
    Bucket bucket(64, 4);
    std::string told;
    bucket.take(0, 0, "", told, tcp::kSyn);
    bucket.take(0, 1, "abc", told);
    EXPECT_EQ(bucket.take(0, 3, std::string(1, '\0'), told), 0u) << "any byte asks whether the other end is there";
    EXPECT_EQ(bucket.count(StreamCount::changed), 0u);
    bucket.take(0, 3, "", told);
    // A probe of a closed window has the next byte, which comes again with others.
    bucket.take(0, 4, "d", told);
    bucket.take(0, 4, "def", told);
    EXPECT_EQ(told, "abcdef");
    EXPECT_EQ(bucket.count(StreamCount::changed), 0u);
}

TEST(Streams, BeginWithTheirSynAndEndWithFinOrReset) {
    Bucket bucket(64, 4);
    std::string told;
    bucket.take(0, 500, "", told, tcp::kSyn);
    bucket.take(0, 700, "", told, tcp::kSyn);      // another try
    bucket.take(0, 700, "fast", told, tcp::kSyn);  // data with it (RFC 7413) behind the number that the SYN takes
    bucket.take(0, 705, " open", told);
    bucket.take(0, 9000, "", told, tcp::kSyn);  // changes nothing any more
    bucket.take(0, 716, "early end", told, tcp::kFin);
    bucket.take(0, 710, " then ", told);
    EXPECT_EQ(told, "fast open then early end");
    EXPECT_TRUE(bucket.streams().of(0).flags & Stream::kEnded);
    bucket.take(0, 725, "behind it", told);
    bucket.take(0, 726, "behind it", told);
    EXPECT_EQ(told, "fast open then early end");

    std::string other;
    bucket.take(1, 10, "", other, tcp::kSyn);
    bucket.take(1, 11, "a", other);
    bucket.take(1, 13, "c", other);
    bucket.streams().end(0);
    bucket.take(1, 12, "b", other);
    EXPECT_EQ(other, "a");

    // Another connection at the same place, met in its midst.
    std::string next;
    bucket.streams().begin(0);
    bucket.take(0, 5000, "midst", next);
    bucket.take(0, 4990, "0123456789mid", next);
    bucket.take(0, 5005, "!", next);
    EXPECT_EQ(next, "midst!");
    EXPECT_FALSE(bucket.streams().of(0).flags & Stream::kWhole);
}

TEST(Streams, TakeTheRoomOfFlowsThatHaveEnded) {
    Bucket bucket(64, 2);
    std::string told, others;
    for (uint32_t number : {0u, 2u}) bucket.take(number, 0, "", told, tcp::kSyn);
    bucket.take(0, 10, "x", told);
    bucket.take(0, 20, "x", told);
    bucket.gone = 1;
    EXPECT_EQ(bucket.take(2, 6, "56789", others), 0u);
    bucket.take(2, 1, "01234", others);
    EXPECT_EQ(others, "0123456789");
    EXPECT_EQ(bucket.count(StreamCount::gaps), 0u);
}

/// Any numbers, flags and lengths, forged or not: it ends, writes nowhere else, and tells bytes of segments.
TEST(Streams, HoldOutAgainstAnyNumbers) {
    std::mt19937 rng(11);
    for (unsigned round = 0; round < 40; ++round) {
        Bucket bucket(64 + 8 * (rng() % 20), rng() % 5);
        const std::string bytes = random_text(rng, 4000);
        uint64_t pieces = 0;
        for (unsigned i = 0; i < 4000; ++i) {
            const uint32_t number = rng() % StreamMemory::kStreams;
            const uint32_t near = bucket.streams().of(number).next;
            StreamSegment segment;
            segment.seq = rng() % 4 == 0 ? static_cast<uint32_t>(rng())
                                         : near + static_cast<uint32_t>(rng() % 4000) - 2000;
            if (rng() % 16 == 0) segment.seq = near + 0x80000000u;
            segment.bytes = rng() % 8 == 0 ? static_cast<uint32_t>(rng() % bytes.size())
                                           : static_cast<uint32_t>(rng() % 300);
            segment.data = reinterpret_cast<const uint8_t*>(bytes.data());
            segment.flags = rng() % 30 == 0 ? static_cast<uint8_t>(rng() & (tcp::kSyn | tcp::kFin)) : 0;
            if (rng() % 100 == 0) bucket.streams().begin(number / 2);
            uint32_t budget = 70;
            bucket.streams().take(
                number, segment, [&](uint32_t way) { return (i + way) % 7 == 0; },
                [&](const StreamPiece& piece) {
                    ASSERT_GT(budget--, 0u) << "a segment and the early ones";
                    ASSERT_LE(piece.bytes + piece.before, bytes.size());
                    ASSERT_LE(piece.tail_bytes, 64u + 8 * 20);
                    ++pieces;
                });
        }
        EXPECT_GT(pieces, 1000u);
    }
}

}  // namespace
}  // namespace millrace::nf::flows
