// What is too long for its tunnel, and the ICMP errors that tell its senders: of every algorithm and form, by the byte.
#include <gtest/gtest.h>

#include "nf/ipsec/gateway.hpp"

namespace millrace::test {
namespace {

const char* const kAnswering = "icmp-from: [10.1.0.1, '2001:db8:1::1']";

/// clear_frame of so many IP bytes, which routers must not fragment.
Frame of_length(size_t ip_bytes, bool over_ipv6, size_t vlans = 0) {
    Frame frame = clear_frame(ip_bytes - (over_ipv6 ? 48 : 28), over_ipv6, nullptr, vlans);
    if (over_ipv6) return frame;
    uint8_t* header = frame.data() + 14 + 4 * vlans;
    header[6] |= 0x40;
    store_be16(header + 10, 0);
    store_be16(header + 10, checksum(header, 20));
    return frame;
}

/// What an error frame says: MTU, and that everything about it is right.
struct Error {
    Error(const Frame& frame, bool ipv6, size_t vlans = 0) {
        const uint8_t* header = frame.data() + 14 + 4 * vlans;
        const size_t head = ipv6 ? 40 : 20, ip_bytes = frame.size() - (14 + 4 * vlans);
        if (frame.size() < 14 + 4 * vlans + head + 8) return;
        const uint8_t* error = header + head;
        uint32_t sum = 0;
        if (ipv6) sum = checksum_add(static_cast<uint32_t>(ip_bytes - 40) + 58, header + 8, 32);
        const bool sums = checksum_finish(checksum_add(sum, error, static_cast<uint32_t>(ip_bytes - head))) == 0 &&
                          (ipv6 || checksum(header, 20) == 0);
        const bool length = ipv6 ? load_be16(header + 4) == ip_bytes - 40 : load_be16(header + 2) == ip_bytes;
        const bool kind = ipv6 ? error[0] == 2 && error[1] == 0 : error[0] == 3 && error[1] == 4;
        right = sums && length && kind;
        mtu = load_be32(error + 4);
        quoted.assign(error + 8, header + ip_bytes);
    }
    bool right = false;
    uint32_t mtu = 0;
    Frame quoted;
};

TEST(IpsecTooBig, TellsTheLengthThatJustGoesThroughTheTunnel) {
    for (Tunnel tunnel : all_tunnels()) {
        tunnel.policy_extra = kAnswering;
        for (const Half& half : halves(*nf::find_type("ipsec")))
            for (const bool inner6 : {false, true}) {
                SCOPED_TRACE(tunnel.text() + ", " + half.text() + (inner6 ? ", IPv6 inside" : ""));
                NfRunner near("ipsec", near_end(tunnel));
                const NfResult refused = near.run({of_length(1500, inner6)}, half);
                ASSERT_EQ(outcome_name(near, refused.decisions[0]), "too-big-answered");
                const Error error(refused.frames[0], inner6);
                ASSERT_TRUE(error.right);
                const NfResult sent = near.run(
                    {of_length(error.mtu, inner6), of_length(error.mtu + 1, inner6), of_length(error.mtu - 1, inner6)},
                    half);
                EXPECT_EQ(outcome_names(near, sent),
                          (std::vector<std::string>{"protected", "too-big-answered", "protected"}));
                EXPECT_LE(sent.frames[0].size(), 1514u);
                EXPECT_EQ(Error(sent.frames[1], inner6).mtu, error.mtu);
            }
    }
}

TEST(IpsecTooBig, QuotesThePacketAndGoesToItsSender) {
    const Tunnel tunnel{.cipher = "aes-128-gcm", .policy_extra = std::string(kAnswering) + "\nmtu: 200"};
    for (const Half& half : halves(*nf::find_type("ipsec")))
        for (const size_t vlans : {0, 1, 2})
            for (const size_t more : {0, 1, 31, 32, 33, 1000}) {
                NfRunner near("ipsec", near_end(tunnel));
                const Frame frame = of_length(160 + more, false, vlans);
                const NfResult result = near.run({frame}, half);
                ASSERT_EQ(outcome_name(near, result.decisions[0]), "too-big-answered") << half.text();
                const Frame& answer = result.frames[0];
                const Error error(answer, false, vlans);
                EXPECT_TRUE(error.right);
                EXPECT_EQ(error.mtu, 146u);
                const auto begin = frame.begin() + static_cast<long>(14 + 4 * vlans);
                EXPECT_EQ(error.quoted, Frame(begin, begin + static_cast<long>(std::min<size_t>(160 + more, 548))));
                EXPECT_TRUE(std::equal(frame.begin(), begin, answer.begin())) << "for the router behind";
                EXPECT_EQ(load_be32(answer.data() + 14 + 4 * vlans + 12), ipv4("10.1.0.1"));
                EXPECT_EQ(load_be32(answer.data() + 14 + 4 * vlans + 16), ipv4("10.1.0.5"));
            }
}

TEST(IpsecTooBig, TakesNoSequenceNumberAndAnswersAsManyAsThereAre) {
    const Tunnel tunnel{.cipher = "aes-128-gcm", .policy_extra = kAnswering};
    for (const Half& half : halves(*nf::find_type("ipsec")))
        for (const size_t count : {0, 1, 31, 32, 33, 300}) {
            NfRunner near("ipsec", near_end(tunnel));
            std::vector<Frame> frames(count, of_length(1500, false));
            frames.push_back(of_length(100, false));
            const NfResult result = near.run(frames, half);
            std::vector<std::string> expected(count, "too-big-answered");
            expected.push_back("protected");
            EXPECT_EQ(outcome_names(near, result), expected) << half.text();
            EXPECT_EQ(load_be32(result.frames.back().data() + 14 + 20 + 4), 1u) << "its sequence number";
        }
}

TEST(IpsecTooBig, LeavesAloneWhatNobodyMayAnswer) {
    const auto near = [](const std::string& extra) {
        return near_end({.cipher = "aes-128-gcm", .policy_extra = extra});
    };
    Frame nobody = of_length(1500, false), loopback = nobody, group = nobody, fragment = nobody;
    for (const auto& [frame, address] :
         {std::pair(&nobody, "0.0.0.0"), {&loopback, "127.0.0.1"}, {&group, "224.0.0.1"}})
        store_be32(frame->data() + 26, ipv4(address));
    fragment[20] |= 0x20;
    for (Frame* frame : {&nobody, &loopback, &group, &fragment}) {
        store_be16(frame->data() + 24, 0);
        store_be16(frame->data() + 24, checksum(frame->data() + 14, 20));
    }
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        std::string all = near(kAnswering);
        all.replace(all.find("src: 10.1.0.0/16"), 16, "src: 0.0.0.0/0  ");
        NfRunner answering("ipsec", all);
        const NfResult result = answering.run({nobody, loopback, group, fragment}, half);
        EXPECT_EQ(outcome_names(answering, result), std::vector<std::string>(4, "mtu-exceeded")) << half.text();
        EXPECT_EQ(result.frames[0], nobody);
        NfRunner only4("ipsec", near("icmp-from: 10.1.0.1")), only6("ipsec", near("icmp-from: '2001:db8:1::1'"));
        const std::vector<Frame> both{of_length(1500, false), of_length(1500, true)};
        EXPECT_EQ(outcome_names(only4, only4.run(both, half)),
                  (std::vector<std::string>{"too-big-answered", "mtu-exceeded"}));
        EXPECT_EQ(outcome_names(only6, only6.run(both, half)),
                  (std::vector<std::string>{"mtu-exceeded", "too-big-answered"}));
        NfRunner narrow("ipsec", near(std::string(kAnswering) + "\nmtu: 90"));
        EXPECT_EQ(outcome_names(narrow, narrow.run({of_length(90, false)}, half)),
                  std::vector<std::string>{"mtu-exceeded"})
            << "no IPv4 goes through such a tunnel";
    }
}

}  // namespace
}  // namespace millrace::test
