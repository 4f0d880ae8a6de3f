// What is cut for an MTU becomes the same packet again; what must not be cut is not.
#include "millrace/exec/fragments/splitter.hpp"

#include <gtest/gtest.h>

#include "exec/fragments/fragment_maker.hpp"
#include "millrace/packet/checksum.hpp"

namespace millrace::test {
namespace {

using exec::Split;
using exec::WholeMark;

std::vector<Frame> split(const Frame& frame, uint32_t mtu, const WholeMark* mark = nullptr) {
    const auto plan = Split::plan(frame, mtu, mark);
    std::vector<Frame> all;
    for (uint32_t i = 0; plan && i < plan->count(); ++i) {
        Frame& piece = all.emplace_back(plan->most_bytes());
        piece.resize(plan->write(i, piece.data()));
    }
    return all;
}

TEST(Split, GivesTheSamePacketAgainForEveryMtu) {
    ReassemblyRun run;
    Rng rng(1);
    for (uint32_t k = 0; k < 2000; ++k) {
        const bool ipv6 = k % 2 == 1;
        Frame packet = udp_packet(ipv6, 100 + rng() % 4000, k % 200);
        if (!ipv6) {
            store_be16(&packet[18], static_cast<uint16_t>(k));
            store_be16(&packet[24], 0);
            store_be16(&packet[24], checksum(&packet[14], 20));
        }
        const auto mtu = static_cast<uint32_t>((ipv6 ? 1280 : 68) + rng() % 1500);
        const WholeMark mark{k, static_cast<uint16_t>(400 + rng() % 1200), 6, 17};
        const uint32_t limit = ipv6 ? std::min<uint32_t>(mtu, mark.largest) : mtu;
        const auto pieces = split(packet, mtu, ipv6 ? &mark : nullptr);
        if (packet.size() - 14 <= limit) {
            EXPECT_TRUE(pieces.empty());
            continue;
        }
        const size_t room = (limit - (ipv6 ? 48 : 20)) / 8 * 8;
        ASSERT_EQ(pieces.size(), (fragmentable_bytes(packet) + room - 1) / room) << "as few as can be";
        for (const Frame& piece : pieces) {
            ASSERT_LE(piece.size() - 14, limit);
            const Layers layers = parse(piece.data(), static_cast<uint32_t>(piece.size()),
                                        static_cast<uint32_t>(piece.size()));
            ASSERT_EQ(layers.malformed, Malformed::no);
            if (!ipv6) {
                ASSERT_EQ(checksum(&piece[14], 20), 0);
            }
        }
        if (pieces.size() > exec::Partial::kMaxPieces) continue;
        const auto whole = run.add_all(pieces);
        ASSERT_EQ(whole.size(), 1u);
        ASSERT_EQ(hex_dump(whole[0]), hex_dump(packet));
    }
    EXPECT_GT(run.whole, 1000u);
}

TEST(Split, LeavesAloneWhatMustNotBeCut) {
    Frame packet = udp_packet(false, 3000, 1);
    EXPECT_EQ(split(packet, 1500).size(), 3u);
    EXPECT_TRUE(split(packet, 3028).empty()) << "it fits";
    EXPECT_EQ(split(packet, 3027).size(), 2u);
    packet[20] |= 0x40;
    EXPECT_TRUE(split(packet, 1500).empty()) << "don't fragment";
    const Frame ipv6 = udp_packet(true, 3000, 1);
    const WholeMark of_ipv4{1, 1500, 4, 17}, of_udp{1, 1500, 6, 17}, of_tcp{1, 1500, 6, 6};
    EXPECT_TRUE(split(ipv6, 1500).empty()) << "its sender cuts it";
    EXPECT_EQ(split(ipv6, 1500, &of_ipv4).size(), 3u) << "IPv4's fragments have become an IPv6 packet (NAT64)";
    const WholeMark short_ones{1, 1000, 4, 17}, of_ping{1, 1500, 4, 1}, of_ping6{1, 1500, 6, 1};
    EXPECT_EQ(split(ipv6, 1500, &short_ones).size(), 4u) << "no longer than they came, but for the longer header";
    Frame ping = ipv6;
    ping[20] = 58;
    EXPECT_EQ(split(ping, 1500, &of_ping).size(), 3u) << "ICMP has another number in IPv6";
    EXPECT_TRUE(split(ping, 1500, &of_ping6).empty());
    EXPECT_TRUE(split(ipv6, 1500, &of_tcp).empty()) << "another packet, such as a tunnel's";
    EXPECT_EQ(split(ipv6, 1500, &of_udp).size(), 3u);
    EXPECT_EQ(split(ipv6, 9000, &of_udp).size(), 3u) << "as long as they came";
    PacketSpec arp;
    arp.ether_type = 0x0806;
    arp.payload.resize(3000);
    EXPECT_TRUE(split(build(arp), 1500).empty());
    EXPECT_TRUE(split({}, 1500).empty());
    EXPECT_TRUE(split(Frame(3000, 0xff), 1500, &of_udp).empty());
}

TEST(Split, CutsAFragmentIntoFragmentsOfItsPacket) {
    const Frame packet = udp_packet(false, 4000, 1);
    std::vector<Frame> fragments;
    for (const Frame& fragment : fragments_of(packet, {1600, 3200}, 7)) {
        const auto pieces = split(fragment, 700);
        EXPECT_GT(pieces.size(), 1u);
        fragments.insert(fragments.end(), pieces.begin(), pieces.end());
    }
    ReassemblyRun run;
    const auto whole = run.add_all(fragments);
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_TRUE(std::equal(packet.begin() + 34, packet.end(), whole[0].begin() + 34));
}

TEST(Split, TakesOptionsAlongThatAreToBeCopied) {
    PacketSpec spec;
    // Record route is of the first only; router alert is of all (RFC 2113).
    spec.ipv4.emplace().options = {7, 7, 4, 0, 0, 0, 0, 1, 0x94, 4, 0, 0};
    spec.udp.emplace();
    spec.payload.resize(1000);
    const Frame packet = build(spec);
    const auto pieces = split(packet, 500);
    ASSERT_GE(pieces.size(), 3u);
    EXPECT_EQ(pieces[0][14], 0x48);
    EXPECT_TRUE(std::equal(&packet[34], &packet[46], &pieces[0][34]));
    for (size_t i = 1; i < pieces.size(); ++i) {
        EXPECT_EQ(pieces[i][14], 0x46);
        EXPECT_EQ(Frame(&pieces[i][34], &pieces[i][38]), (Frame{0x94, 4, 0, 0}));
        EXPECT_EQ(checksum(&pieces[i][14], 24), 0);
    }
    ReassemblyRun run;
    EXPECT_EQ(run.add_all(pieces), std::vector<Frame>{packet});
}

TEST(Split, LeavesOutWhatFillsUpAFrame) {
    Frame packet = udp_packet(false, 1000, 1);
    const Frame whole = packet;
    packet.resize(packet.size() + 30);
    const auto pieces = split(packet, 600);
    ReassemblyRun run;
    EXPECT_EQ(run.add_all(pieces), std::vector<Frame>{whole});
}

}  // namespace
}  // namespace millrace::test
