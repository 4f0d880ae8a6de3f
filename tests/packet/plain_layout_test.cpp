// Whether headers lie where most have them, as the host says by a look at a frame, and as the parser finds.
#include "millrace/packet/plain_layout.hpp"

#include <gtest/gtest.h>

#include "support/packet_builder.hpp"

namespace millrace {
namespace {

using test::Frame;

/// Of this frame, in memory that ends with it; what the parser says of `present` bytes.
Packet parsed(Frame& frame, uint32_t present) {
    Packet packet;
    packet.attach(frame.data(), static_cast<uint32_t>(frame.size()), present, 0, 0);
    packet.parse();
    return packet;
}

/// A device leaves no such frame to the host if it has 80 bytes of it, and each is plain.
void expect_true_of(Frame frame) {
    const auto length = static_cast<uint32_t>(frame.size());
    if (!looks_plain(frame.data(), length)) return;
    const Packet packet = parsed(frame, std::min(length, 80u));
    EXPECT_NE(packet.layers().malformed, Malformed::beyond_present);
    EXPECT_TRUE(packet.layers().malformed != Malformed::no || has_plain_layout(packet));
}

TEST(PlainLayout, IsNotSaidOfAFrameThatHasNone) {
    test::Rng random(7);
    size_t plain = 0, all = 0;
    for (int round = 0; round < 40; ++round)
        for (const Frame& frame : test::random_packets(random, 100)) {
            plain += looks_plain(frame.data(), static_cast<uint32_t>(frame.size()));
            ++all;
            expect_true_of(frame);
            Frame changed = frame;
            for (size_t at = 12; at < std::min<size_t>(frame.size(), 64); ++at) {
                changed[at] = static_cast<uint8_t>(random());
                expect_true_of(changed);
                if (at % 3 != 0) changed[at] = frame[at];
            }
            for (size_t length = 0; length < std::min<size_t>(frame.size(), 90); ++length)
                expect_true_of(Frame(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(length)));
        }
    EXPECT_GT(plain, all / 4);
    EXPECT_LT(plain, all);
}

TEST(PlainLayout, IsSaidOfUsualFrames) {
    const auto of = [](const std::string& text) {
        const Frame frame = test::build_packet(text);
        return looks_plain(frame.data(), static_cast<uint32_t>(frame.size()));
    };
    EXPECT_TRUE(of("{ipv4: {}, udp: {src: 1, dst: 2}}"));
    EXPECT_TRUE(of("{vlan: [{id: 7}], ipv4: {}, tcp: {src: 1, dst: 2}}"));
    EXPECT_TRUE(of("{ipv6: {}, tcp: {src: 1, dst: 2}}"));
    EXPECT_FALSE(of("{vlan: [{id: 7}, {id: 8}], ipv4: {}, udp: {src: 1, dst: 2}}"));
}

}  // namespace
}  // namespace millrace
