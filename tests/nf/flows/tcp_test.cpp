// What segments do to a connection together against what they do one after the other.
#include "millrace/nf/flows/tcp.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace millrace::nf::flows {
namespace {

/// A connection in any state, with numbers anywhere in their circle, and segments near its windows' edges.
class Traffic {
public:
    explicit Traffic(unsigned seed) : rng_(seed) {
        for (TcpPeer& peer : connection.peers) {
            peer.end = rng_() % 2 == 0 ? rng_() : 0u - rng_() % 3000;
            peer.window = rng_() % 30 == 0 ? 0 : 1 + rng_() % 70000;
            peer.max_end = peer.end + rng_() % 4000;
            peer.scale = rng_() % 3 == 0 ? 7 : 0;
        }
        connection.state = rng_() % 4 == 0 ? static_cast<Tcp>(rng_() % kTcpStates) : Tcp::established;
    }
    TcpConnection connection{};

    TcpSegment next(bool from_originator) {
        const TcpPeer &from = connection.peers[from_originator ? 0 : 1],
                      &to = connection.peers[from_originator ? 1 : 0];
        TcpSegment segment{};
        segment.flags = tcp::kAck;
        if (rng_() % 60 == 0) segment.flags = static_cast<uint8_t>(rng_() & 0x17);
        segment.seq = from.end + near(3000);
        segment.end = segment.seq + (rng_() % 3 == 0 ? 0 : rng_() % 1460);
        segment.ack = segment.sack = to.end + near(1500);
        if (rng_() % 8 == 0) segment.sack += rng_() % 2000;
        if (rng_() % 50 == 0) segment.ack = segment.sack = rng_();
        if (rng_() % 50 == 0) segment.seq += rng_();
        segment.window = rng_() % 10 == 0 ? 0 : rng_() % 65536;
        return segment;
    }

private:
    uint32_t near(uint32_t most) { return rng_() % 4 == 0 ? rng_() % most - most / 2 : 0; }
    std::mt19937 rng_;
};

bool are_equal(const TcpConnection& a, const TcpConnection& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

TEST(TcpRaised, IsWhatSegmentsDoOneAfterTheOther) {
    std::mt19937 rng(7);
    unsigned together = 0, raised_more_than_once = 0, refused = 0;
    for (unsigned seed = 0; seed < 20'000; ++seed) {
        Traffic traffic(seed);
        const TcpConnection found = traffic.connection;
        TcpConnection& sequential = traffic.connection;
        TcpRaised before{};
        unsigned run = 0;
        for (unsigned k = 0; k < 12; ++k) {
            bool from_originator = rng() % 2 == 0;
            const TcpSegment segment = traffic.next(from_originator);
            TcpRaised own{};
            const bool goes_on = TcpRaised::by(segment, found, from_originator, own) &&
                                 before.lets(segment, found, from_originator);
            const bool side = from_originator;
            const TcpConnection state_before = sequential;
            const Taken taken = sequential.take(segment, from_originator, false, true);
            if (!goes_on) {
                refused += taken == Taken::invalid ? 1 : 0;
                break;
            }
            ASSERT_EQ(taken, Taken::valid) << "seed " << seed << " segment " << k;
            ASSERT_EQ(from_originator, side);
            before.append(own);
            TcpConnection all = found;
            before.apply(all);
            ASSERT_TRUE(are_equal(all, sequential)) << "seed " << seed << " segment " << k;
            ++together;
            raised_more_than_once += run > 0 && !are_equal(state_before, sequential) ? 1 : 0;
            ++run;
        }
    }
    // Runs are long, and end where something is wrong.
    EXPECT_GT(together, 30'000u);
    EXPECT_GT(raised_more_than_once, 15'000u);
    EXPECT_GT(refused, 1'000u);
}

TEST(TcpRaised, IsTheSameInAnyGrouping) {
    std::mt19937 rng(9);
    for (unsigned round = 0; round < 1000; ++round) {
        Traffic traffic(round);
        TcpRaised each[3]{};
        for (TcpRaised& one : each) {
            const bool from_originator = rng() % 2 == 0;
            TcpRaised::by(traffic.next(from_originator), traffic.connection, from_originator, one);
        }
        TcpRaised left = each[0], right = each[1];
        left.append(each[1]);
        left.append(each[2]);
        right.append(each[2]);
        TcpRaised all = each[0];
        all.append(right);
        EXPECT_EQ(std::memcmp(&left, &all, sizeof left), 0);
    }
}

}  // namespace
}  // namespace millrace::nf::flows
