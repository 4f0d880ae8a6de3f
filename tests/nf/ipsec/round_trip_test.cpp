// What goes into a tunnel comes out at its other end, whoever does the work.
#include <gtest/gtest.h>

#include "nf/ipsec/gateway.hpp"

namespace millrace::test {
namespace {

TEST(IpsecRoundTrip, GivesBackEveryPacketThroughEveryTunnelWithEveryEngine) {
    Rng rng(1);
    std::vector<Frame> frames;
    for (size_t payload = 0; payload < 70; ++payload) frames.push_back(clear_frame(payload, payload % 3 == 0, &rng, payload % 5));
    for (const size_t payload : {500u, 1023u, 1024u, 1025u, 1400u, 8000u}) frames.push_back(clear_frame(payload, false, &rng));
    for (Tunnel tunnel : all_tunnels()) {
        tunnel.policy_extra = "mtu: 0";
        std::vector<Frame> wanted;
        for (const Engine out : engines(*nf::find_type("ipsec"))) {
            SCOPED_TRACE(tunnel.text() + ", " + out.text());
            NfRunner near("ipsec", near_end(tunnel)), far("ipsec", far_end(tunnel));
            const NfResult sent = near.run(frames, out);
            ASSERT_EQ(outcome_names(near, sent), std::vector<std::string>(frames.size(), "protected"));
            for (size_t i = 0; i < frames.size(); ++i) EXPECT_GT(sent.frames[i].size(), frames[i].size() + 28);
            if (wanted.empty()) wanted = sent.frames;
            EXPECT_EQ(sent.frames, wanted);
            const NfResult received = far.run(sent.frames, out);
            ASSERT_EQ(outcome_names(far, received), std::vector<std::string>(frames.size(), "unprotected"));
            EXPECT_EQ(received.frames, frames);
        }
    }
}

}  // namespace
}  // namespace millrace::test
