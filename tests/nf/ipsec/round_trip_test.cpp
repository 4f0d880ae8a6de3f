// What goes into a tunnel comes out at its other end, whoever does the work.
#include <gtest/gtest.h>

#include <set>

#include "nf/ipsec/esp_oracle.hpp"

namespace millrace::test {
namespace {

TEST(IpsecRoundTrip, GivesBackEveryPacketThroughEveryTunnelInEveryHalf) {
    Rng rng(1);
    std::vector<Frame> frames;
    for (size_t payload = 0; payload < 70; ++payload)
        frames.push_back(clear_frame(payload, payload % 3 == 0, &rng, payload % 5));
    for (const size_t payload : {500u, 1023u, 1024u, 1025u, 1400u, 8000u})
        frames.push_back(clear_frame(payload, false, &rng));
    for (Tunnel tunnel : all_tunnels()) {
        tunnel.policy_extra = "mtu: 0";
        std::vector<Frame> wanted;
        for (const Half& out : halves(*nf::find_type("ipsec"))) {
            SCOPED_TRACE(tunnel.text() + ", " + out.text());
            NfRunner near("ipsec", near_end(tunnel)), far("ipsec", far_end(tunnel));
            const NfResult sent = near.run(frames, out);
            ASSERT_EQ(outcome_names(near, sent), std::vector<std::string>(frames.size(), "protected"));
            for (size_t i = 0; i < frames.size(); ++i) EXPECT_GT(sent.frames[i].size(), frames[i].size() + 27);
            if (wanted.empty()) wanted = sent.frames;
            EXPECT_EQ(sent.frames, wanted);
            const NfResult received = far.run(sent.frames, out);
            ASSERT_EQ(outcome_names(far, received), std::vector<std::string>(frames.size(), "unprotected"));
            EXPECT_EQ(received.frames, frames);
        }
    }
}

TEST(IpsecRoundTrip, IsWhatOpensslMakesOfItInBothDirections) {
    Rng rng(2);
    for (const Tunnel& tunnel : all_tunnels()) {
        SCOPED_TRACE(tunnel.text());
        const EspOracle oracle(tunnel);
        NfRunner near("ipsec", near_end(tunnel)), far("ipsec", far_end(tunnel));
        for (uint32_t n = 1; n <= 100; ++n) {
            const Frame frame = clear_frame(n, n % 2 == 0, &rng);
            const NfResult sent = near.run({frame}, {8});
            const auto opened = oracle.open(sent.frames[0]);
            ASSERT_TRUE(opened.has_value());
            EXPECT_EQ(opened->spi, 0x1001u);
            EXPECT_EQ(opened->sequence, n);
            EXPECT_EQ(opened->next_header, n % 2 == 0 ? 41 : 4);
            EXPECT_EQ(opened->inner, inner_of(frame));
            for (size_t i = 0; i < opened->padding.size(); ++i) EXPECT_EQ(opened->padding[i], i + 1);
            EXPECT_LT(opened->padding.size(), tunnel.alignment());

            const NfResult received = far.run({oracle.seal(inner_of(frame), n)}, {8});
            EXPECT_EQ(outcome_name(far, received.decisions[0]), "unprotected");
            EXPECT_EQ(received.frames[0], frame);
        }
    }
}

TEST(IpsecRoundTrip, NeverUsesAnIvTwiceNorOneThatCanBeForetold) {
    for (const char* cipher : {"aes-128-ctr", "aes-128-cbc"}) {
        NfRunner near("ipsec", near_end({.cipher = cipher}));
        const NfResult sent = near.run(std::vector<Frame>(1025, clear_frame(64)), {32});
        const bool counting = cipher == std::string("aes-128-ctr");
        std::set<Frame> ivs, halves;
        for (const Frame& frame : sent.frames) {
            ivs.emplace(frame.begin() + 42, frame.begin() + (counting ? 50 : 58));
            halves.emplace(frame.begin() + 42, frame.begin() + 50);
        }
        EXPECT_EQ(ivs.size(), 1025u);
        // A counter would leave the first half of a block of CBC as it was.
        EXPECT_EQ(halves.size(), 1025u);
    }
}

}  // namespace
}  // namespace millrace::test
