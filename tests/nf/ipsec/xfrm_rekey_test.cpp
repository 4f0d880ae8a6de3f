// New SAs for old ones, in the order in which Linux tells of what an IKE daemon does: at no time a packet is lost, here
// or at the other end.
#include <gtest/gtest.h>

#include <algorithm>

#include "nf/ipsec/told_gateway.hpp"

namespace millrace::test {
namespace {

const SaSpec kOut, kOutNext{.spi = 0x1002, .added = 200};
const SaSpec kIn{.src = "198.51.100.1", .dst = "192.0.2.1", .spi = 0x2001},
    kInNext{.src = "198.51.100.1", .dst = "192.0.2.1", .spi = 0x2002, .added = 200};
const Tunnel kRekeyed{.cipher = "aes-128-gcm"};

/// As strongSwan has it: with the SPI of the SA that is to be used.
PolicySpec out_policy(uint32_t spi) { return {.spi = spi}; }
PolicySpec in_policy(uint8_t direction) {
    return {.src = "10.2.0.0",
            .dst = "10.1.0.0",
            .direction = direction,
            .tunnel_src = "198.51.100.1",
            .tunnel_dst = "192.0.2.1"};
}

/// Both ends of a tunnel. The other one sends and takes what the test says.
class XfrmRekey : public testing::Test {
protected:
    void SetUp() override {
        near_.tell(sa_message(kIn, kRekeyed, 1));
        near_.tell(sa_message(kOut, kRekeyed, 2));
        for (const uint8_t direction : {XFRM_POLICY_IN, XFRM_POLICY_FWD})
            near_.tell(policy_message(in_policy(direction)));
        near_.tell(policy_message(out_policy(kOut.spi)));
        near_.apply();
    }
    void tell(const XfrmMessage& message) {
        near_.tell(message);
        near_.apply();
    }
    /// The SPI by which a packet leaves; 0: it does not.
    uint32_t sent_by() {
        Frame frame = clear_frame(20);
        return near_.run_one(frame) == "protected" ? load_be32(frame.data() + 34) : 0;
    }
    /// Whether what the other end sends by an SA is taken out of it.
    bool takes(const SaSpec& sa, uint8_t key_change) {
        Told other;
        other.tell(sa_message(sa, kRekeyed, key_change));
        other.tell(policy_message(in_policy(XFRM_POLICY_OUT)));
        other.apply();
        Frame clear = clear_frame(20);
        std::swap_ranges(clear.begin() + 26, clear.begin() + 30, clear.begin() + 30);  // addresses
        std::vector<Frame> frames(++packets_, clear);  // the last has a number that was not yet
        other.run(frames, 8);
        return near_.run_one(frames.back()) == "unprotected" && frames.back() == clear;
    }
    bool takes_old() { return takes(kIn, 1); }
    bool takes_new() { return takes(kInNext, 3); }

    Told near_;
    size_t packets_ = 0;
};

XfrmMessage update(XfrmMessage message) {
    message.set_type(XFRM_MSG_UPDSA);
    return message;
}

TEST_F(XfrmRekey, SendsByTheSaThatThePolicyNamesWhicheverIsNewer) {
    EXPECT_EQ(sent_by(), kOut.spi);
    // The other end asks for new SAs. The answer is still to be sent: it does not know the new one yet.
    tell(update(sa_message(kInNext, kRekeyed, 3)));
    EXPECT_TRUE(takes_new());
    EXPECT_EQ(sent_by(), kOut.spi);
    tell(sa_message(kOutNext, kRekeyed, 4));
    EXPECT_EQ(sent_by(), kOut.spi) << "the other end would have no SA for the new one";
    for (const uint8_t direction : {XFRM_POLICY_IN, XFRM_POLICY_FWD}) tell(policy_message(in_policy(direction)));
    EXPECT_EQ(sent_by(), kOut.spi);
    EXPECT_TRUE(takes_old());
    // It has deleted the old one for sending, so it has the new ones.
    tell(policy_message(out_policy(kOutNext.spi)));
    EXPECT_EQ(sent_by(), kOutNext.spi);
    tell(sa_gone(kOut));
    EXPECT_EQ(sent_by(), kOutNext.spi);
    EXPECT_TRUE(takes_old()) << "until the daemon deletes it, seconds later";
    tell(sa_gone(kIn));
    EXPECT_FALSE(takes_old());
    EXPECT_TRUE(takes_new());
    EXPECT_EQ(sent_by(), kOutNext.spi);
    EXPECT_EQ(near_.malformed, 0u);
    EXPECT_TRUE(near_.warnings.empty());
}

TEST_F(XfrmRekey, SendsByTheNewestWhereThePolicyNamesNone) {
    tell(policy_message(out_policy(0)));
    EXPECT_EQ(sent_by(), kOut.spi);
    tell(sa_message(kOutNext, kRekeyed, 4));
    EXPECT_EQ(sent_by(), kOutNext.spi);
}

TEST_F(XfrmRekey, DropsNothingWhereTheNamedSaIsGoneFirst) {
    tell(sa_message(kOutNext, kRekeyed, 4));
    tell(sa_gone(kOut));
    EXPECT_EQ(sent_by(), kOutNext.spi);
    tell(policy_message(out_policy(kOutNext.spi)));
    EXPECT_EQ(sent_by(), kOutNext.spi);
}

TEST_F(XfrmRekey, TakesNamesOfNoSaForNoReasonToSendInClear) {
    tell(policy_message(out_policy(0x7777)));
    EXPECT_EQ(sent_by(), kOut.spi);
    tell(sa_gone(kOut));
    Frame frame = clear_frame(20);
    EXPECT_EQ(near_.run_one(frame), "discarded-by-policy");
}

TEST_F(XfrmRekey, GoesOverAThousandTimes) {
    for (uint32_t i = 1; i <= 1000; ++i) {
        const SaSpec next{.spi = 0x10000 + i, .added = 100 + i};
        near_.tell(sa_message(next, kRekeyed, static_cast<uint8_t>(10 + i % 200)));
        near_.tell(policy_message(out_policy(next.spi)));
        near_.tell(sa_gone({.spi = i == 1 ? kOut.spi : 0x10000 + i - 1}));
        if (i % 100 != 0) continue;
        const nf::ipsec::Options options = near_.options();
        ASSERT_EQ(options.sas.size(), 2u);
        EXPECT_EQ(options.policies.back().sas.size(), 1u);
        EXPECT_EQ(options.sas.at(options.policies.back().sas.at(0)).sa.spi, next.spi);
    }
}

TEST_F(XfrmRekey, FindsTheSaThatThePolicyNamesAmongAThousand) {
    for (uint32_t i = 0; i < 1000; ++i)
        near_.tell(sa_message({.spi = 0x3000 + i, .added = 300 + i}, kRekeyed, static_cast<uint8_t>(i % 250 + 5)));
    tell(policy_message(out_policy(kOut.spi)));
    EXPECT_EQ(sent_by(), kOut.spi);
}

}  // namespace
}  // namespace millrace::test
