// Frames in tunnels that a network card was to cut: each piece gets all headers, as if it had been put in by itself.
#include <gtest/gtest.h>

#include <random>

#include "millrace/io/kernel/offload.hpp"
#include "millrace/packet/bytes.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

using io::OffloadHeader;
using io::Segmenter;

struct TunnelCase {
    std::string name;
    bool ipv6;            ///< outside
    uint8_t protocol;     ///< outside: 17, 47, 4 or 41
    uint16_t port;        ///< of UDP
    Frame head;           ///< between the outer IP or UDP header and what is carried
    bool carries_frames;  ///< Ethernet, or IP alone
    bool has_sum;         ///< the outer UDP header
};
std::ostream& operator<<(std::ostream& out, const TunnelCase& one) { return out << one.name; }

const Frame kVxlan = {8, 0, 0, 0, 0, 0, 100, 0}, kGeneve = {0, 0, 0x65, 0x58, 0, 0, 5, 0}, kGre4 = {0, 0, 8, 0},
            kGreKey6 = {0x20, 0, 0x86, 0xdd, 0, 0, 0, 7}, kGreFrames = {0, 0, 0x65, 0x58};
const TunnelCase kCases[] = {{"vxlan", false, 17, 4789, kVxlan, true, false},
                             {"vxlan_sum", false, 17, 4789, kVxlan, true, true},
                             {"vxlan6_sum", true, 17, 4789, kVxlan, true, true},
                             {"geneve", false, 17, 6081, kGeneve, true, false},
                             {"gre", false, 47, 0, kGre4, false, false},
                             {"gre_key_ipv6", true, 47, 0, kGreKey6, false, false},
                             {"gre_frames", false, 47, 0, kGreFrames, true, false},
                             {"ipip", false, 4, 0, {}, false, false},
                             {"six_in_four", false, 41, 0, {}, false, false}};

/// Whether IPv6 is inside, of those that carry IP alone.
bool carries_ipv6(const TunnelCase& one) { return one.protocol == 41 || one.head == kGreKey6; }

/// The outer packet around a frame.
Frame around(const TunnelCase& one, const Frame& inner, uint16_t number) {
    PacketSpec spec;
    spec.vlans = {{.id = 9}};
    if (one.ipv6) {
        spec.ipv6.emplace();
        spec.ipv6->next = one.protocol;
    } else {
        spec.ipv4.emplace();
        spec.ipv4->protocol = one.protocol;
        spec.ipv4->id = static_cast<uint16_t>(500 + number);
    }
    if (one.protocol == 17) {
        spec.udp.emplace();
        spec.udp->src = 50000;
        spec.udp->dst = one.port;
        if (!one.has_sum) spec.udp->checksum = 0;
    }
    spec.payload = one.head;
    spec.payload.insert(spec.payload.end(), inner.begin() + (one.carries_frames ? 0 : 14), inner.end());
    return build(spec);
}

/// A piece of a TCP stream or a datagram, as it is inside.
Frame inner_frame(const Frame& payload, size_t from, size_t bytes, bool ipv6, bool tcp, uint16_t number, bool is_last) {
    PacketSpec spec;
    if (ipv6) spec.ipv6.emplace();
    else spec.ipv4.emplace().id = static_cast<uint16_t>(7 + number);
    if (tcp) {
        spec.tcp.emplace();
        spec.tcp->seq = static_cast<uint32_t>(1000 + from);
        spec.tcp->flags = is_last ? 0x19 : 0x10;  // PSH and FIN belong to the last
        spec.tcp->options = {1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2};
    } else {
        spec.udp.emplace();
        spec.udp->dst = 53;
    }
    spec.payload = Frame(payload.begin() + static_cast<long>(from), payload.begin() + static_cast<long>(from + bytes));
    return build(spec);
}

class SegmentsInTunnels : public testing::TestWithParam<TunnelCase> {};
INSTANTIATE_TEST_SUITE_P(All, SegmentsInTunnels, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(SegmentsInTunnels, HaveAllHeadersOfTheirOwn) {
    const TunnelCase& one = GetParam();
    std::mt19937 rng(11);
    for (const bool tcp : {true, false}) {
        for (const bool ipv6 : {false, true}) {
            if (!one.carries_frames && ipv6 != carries_ipv6(one)) continue;
            for (const size_t total : {1001u, 2000u, 2001u, 50000u}) {
                constexpr size_t kPiece = 1000;
                Frame payload(total);
                for (uint8_t& byte : payload) byte = static_cast<uint8_t>(rng());
                const Frame whole = around(one, inner_frame(payload, 0, total, ipv6, tcp, 0, true), 0);
                OffloadHeader offload;
                offload.flags = OffloadHeader::kNeedsChecksum;
                offload.kind = !tcp ? OffloadHeader::kUdpDatagrams : ipv6 ? OffloadHeader::kTcp6 : OffloadHeader::kTcp4;
                offload.segment_bytes = kPiece;
                offload.checksum_start = static_cast<uint16_t>(whole.size() - total - (tcp ? 32 : 8));
                offload.checksum_offset = tcp ? 16 : 6;
                Segmenter segmenter;
                ASSERT_TRUE(segmenter.start(whole, offload)) << total;
                uint16_t number = 0;
                for (size_t at = 0; at < total; at += kPiece, ++number) {
                    const size_t bytes = std::min(kPiece, total - at);
                    ASSERT_TRUE(segmenter.is_active());
                    Frame out(segmenter.next_bytes());
                    segmenter.write(out.data());
                    ASSERT_EQ(
                        hex_dump(out),
                        hex_dump(around(one, inner_frame(payload, at, bytes, ipv6, tcp, number, at + bytes == total),
                                        number)))
                        << total << " at " << at;
                }
                EXPECT_FALSE(segmenter.is_active());
            }
        }
    }
}

TEST_P(SegmentsInTunnels, AreRefusedWhereHeadersContradictEachOther) {
    const TunnelCase& one = GetParam();
    std::mt19937 rng(12);
    const bool ipv6 = !one.carries_frames && carries_ipv6(one);
    const Frame payload(1500, 5);
    const Frame sound = around(one, inner_frame(payload, 0, payload.size(), ipv6, true, 0, true), 0);
    for (int i = 0; i < 20'000; ++i) {
        // A vector of just that size, so that AddressSanitizer sees what is read behind it.
        Frame frame(sound.begin(),
                    sound.begin() + static_cast<long>(rng() % 3 == 0 ? rng() % sound.size() : sound.size()));
        for (uint32_t changes = rng() % 4; changes > 0 && !frame.empty(); --changes)
            frame[rng() % std::min<size_t>(frame.size(), 130)] = static_cast<uint8_t>(rng());
        OffloadHeader offload;
        offload.flags = OffloadHeader::kNeedsChecksum;
        offload.kind = ipv6 ? OffloadHeader::kTcp6 : OffloadHeader::kTcp4;
        offload.segment_bytes = static_cast<uint16_t>(1 + rng() % 2000);
        offload.checksum_start = static_cast<uint16_t>(sound.size() - payload.size() - 32 +
                                                       (rng() % 4 == 0 ? rng() % 40 - 20 : 0));
        offload.checksum_offset = 16;
        Segmenter segmenter;
        if (!segmenter.start(frame, offload)) continue;
        while (segmenter.is_active()) {
            Frame out(segmenter.next_bytes());
            segmenter.write(out.data());
        }
    }
}

}  // namespace
}  // namespace millrace::test
