// What tunnels carry is found where it lies, whatever the tunnels; what is none is left alone, what does not hold is
// malformed by name.
#include "millrace/packet/tunnels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "support/tunnel_frames.hpp"

namespace millrace::test {
namespace {

Layers layers_of(const Frame& frame, uint32_t kinds, uint32_t present) {
    // A copy of that size lets a sanitizer watch its end.
    const auto bytes = std::make_unique<uint8_t[]>(present);
    std::copy_n(frame.begin(), present, bytes.get());
    Packet packet;
    packet.attach(bytes.get(), static_cast<uint32_t>(frame.size()), present, 0, 0);
    packet.parse();
    enter_tunnels(packet, kinds);
    return packet.layers();
}
Layers layers_of(const Frame& frame, uint32_t kinds = tunnel::kAny) {
    return layers_of(frame, kinds, static_cast<uint32_t>(frame.size()));
}

void expect_shifted(const Layers& expected, const Layers& actual, uint32_t by, const std::string& what) {
    ASSERT_EQ(actual.malformed, expected.malformed) << what;
    EXPECT_EQ(actual.ether_type, expected.ether_type) << what;
    EXPECT_EQ(actual.flags, expected.flags) << what;
    EXPECT_EQ(actual.protocol, expected.protocol) << what;
    EXPECT_EQ(actual.l3_offset, expected.l3_offset + by) << what;
    EXPECT_EQ(actual.l4_offset, expected.l4_offset == 0 ? 0 : expected.l4_offset + by) << what;
    EXPECT_EQ(actual.payload_offset, expected.payload_offset + by) << what;
    EXPECT_EQ(actual.end, expected.end + by) << what;
}

TEST(Tunnels, AreEnteredWhateverTheyCarry) {
    Rng rng(3);
    RandomOptions options;
    options.vlan = options.malformed = options.not_ip = options.padding = 0;
    options.max_payload = 200;
    for (unsigned k = 0; k < 5000; ++k) {
        const Frame carried = random_packet(rng, options);
        const Layers expected = layers_of(carried, 0);
        if (expected.malformed != Malformed::no || expected.protocol == 4 || expected.protocol == 41 ||
            expected.protocol == 47)
            continue;
        for (const uint32_t kind : kTunnelKinds) {
            const unsigned how = static_cast<unsigned>(rng());
            const Frame frame = in_tunnel(kind, carried, how);
            const auto by = static_cast<uint32_t>(frame.size() - carried.size());
            const std::string what = "kind " + std::to_string(kind) + ", how " + std::to_string(how % 32);
            const Layers layers = layers_of(frame, kind);
            expect_shifted(expected, layers, by, what);
            EXPECT_EQ(layers.tunnel_depth, 1) << what;
            if (HasFailure()) FAIL() << hex_dump(frame);
            // Nobody asks for this kind.
            const Layers outer = layers_of(frame, tunnel::kAny & ~kind), plain = layers_of(frame, 0);
            expect_shifted(plain, outer, 0, what);
            EXPECT_EQ(outer.tunnel_depth, 0) << what;
        }
    }
}

TEST(Tunnels, AreEnteredAsDeepAsSays) {
    Rng rng(4);
    size_t too_deep = 0;
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.tcp = TcpHeader{.src = 1, .dst = 2, .offset = {}, .checksum = {}, .options = {}};
    spec.payload = bytes_of("carried");
    for (unsigned k = 0; k < 3000; ++k) {
        const Frame carried = build(spec);
        Frame frame = carried;
        const unsigned depth = 1 + k % (tunnel::kMaxDepth + 1);
        for (unsigned i = 0; i < depth; ++i) {
            // What is not Ethernet within carries IP alone.
            uint32_t kind = kTunnelKinds[rng() % std::size(kTunnelKinds)];
            while (i > 0 && frame[12] == 0x88 && kind != tunnel::kVxlan)
                kind = kTunnelKinds[rng() % std::size(kTunnelKinds)];
            frame = in_tunnel(kind, frame, static_cast<unsigned>(rng()));
        }
        const Layers layers = layers_of(frame);
        if (depth > tunnel::kMaxDepth) {
            EXPECT_EQ(layers.malformed, Malformed::too_many_tunnels);
            continue;
        }
        const size_t by = frame.size() - carried.size();
        if (layers.malformed == Malformed::too_many_tunnels) {
            ASSERT_GT(by + 14, 255u - 30) << "Layers has offsets up to there";
            ++too_deep;
            continue;
        }
        ASSERT_EQ(layers.tunnel_depth, depth) << hex_dump(frame);
        expect_shifted(layers_of(carried, 0), layers, static_cast<uint32_t>(by), "");
        EXPECT_EQ(layers.payload_offset, frame.size() - 7);
    }
    EXPECT_GT(too_deep, 10u);
    EXPECT_LT(too_deep, 600u);
}

TEST(Tunnels, AreMalformedByNameWhereverTheyEnd) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.udp.emplace();
    spec.payload = bytes_of("carried");
    const Frame carried = build(spec);
    for (const uint32_t kind : kTunnelKinds)
        for (unsigned how = 0; how < 32; ++how) {
            const Frame frame = in_tunnel(kind, carried, how);
            ASSERT_EQ(layers_of(frame).malformed, Malformed::no);
            for (uint32_t present = 0; present < frame.size(); ++present) {
                // Not all of it is in this memory.
                const Layers part = layers_of(frame, tunnel::kAny, present);
                EXPECT_LE(part.payload_offset, part.end);
                if (part.malformed != Malformed::no) {
                    EXPECT_TRUE(part.malformed == Malformed::beyond_present ||
                                part.malformed == Malformed::truncated_ethernet)
                        << int(part.malformed);
                }
                // The frame ends there.
                const Layers cut = layers_of(Frame(frame.begin(), frame.begin() + present));
                EXPECT_LE(cut.payload_offset, cut.end);
                EXPECT_LE(cut.end, present);
                EXPECT_NE(cut.malformed, Malformed::beyond_present);
                if (present < frame.size() - 7) {
                    EXPECT_TRUE(cut.malformed != Malformed::no || cut.tunnel_depth == 0)
                        << "kind " << kind << " at " << present;
                }
            }
            // The outer IP packet ends within the tunnel's header, and the frame does not.
            if (frame[12] != 8) continue;
            Frame shorter = frame;
            store_be16(&shorter[16], 21);
            if (kind == tunnel::kGre) {
                EXPECT_EQ(layers_of(shorter).malformed, Malformed::truncated_tunnel);
            }
        }
}

TEST(Tunnels, WithHeadersThatCanNotBeAreBad) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.udp.emplace();
    const Frame carried = build(spec);
    const auto malformed = [](Frame frame, size_t at, uint8_t value) {
        frame[at] = value;
        return layers_of(frame).malformed;
    };
    EXPECT_EQ(malformed(in_tunnel(tunnel::kGre, carried), 34, 0x40), Malformed::bad_tunnel) << "source routes";
    EXPECT_EQ(malformed(in_tunnel(tunnel::kPppoe, carried), 14, 0x21), Malformed::bad_tunnel) << "version";
    EXPECT_EQ(malformed(in_tunnel(tunnel::kPppoe, carried), 15, 9), Malformed::bad_tunnel) << "discovery's code";
    EXPECT_EQ(malformed(in_tunnel(tunnel::kPppoe, carried), 19, 255), Malformed::truncated_tunnel);
    EXPECT_EQ(malformed(in_tunnel(tunnel::kGtpU, carried, 4), 54, 0), Malformed::bad_tunnel)
        << "an extension of no length";
    EXPECT_EQ(malformed(in_tunnel(tunnel::kGtpU, carried), 44, 1), Malformed::truncated_tunnel);
    EXPECT_EQ(malformed(in_tunnel(tunnel::kIpip, carried), 34, 0x65), Malformed::bad_ipv4_version);
    Frame labels(14 + 4 * tunnel::kMaxLabels + 20);
    labels[12] = 0x88;
    labels[13] = 0x47;
    EXPECT_EQ(layers_of(labels).malformed, Malformed::bad_tunnel) << "no bottom of the stack";
}

TEST(Tunnels, AreNoneByTheirFlagsAndTypes) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.udp.emplace();
    const Frame carried = build(spec);
    const auto depth = [](Frame frame, size_t at, uint8_t value) {
        frame[at] = value;
        const Layers layers = layers_of(frame);
        EXPECT_EQ(layers.malformed, Malformed::no);
        return layers.tunnel_depth;
    };
    EXPECT_EQ(depth(in_tunnel(tunnel::kVxlan, carried), 42, 0), 0) << "no VNI";
    EXPECT_EQ(depth(in_tunnel(tunnel::kGeneve, carried), 42, 0x40), 0) << "another version";
    EXPECT_EQ(depth(in_tunnel(tunnel::kGtpU, carried), 42, 0x50), 0);
    EXPECT_EQ(depth(in_tunnel(tunnel::kGtpU, carried), 43, 1), 0) << "an echo request";
    EXPECT_EQ(depth(in_tunnel(tunnel::kGre, carried), 35, 1), 0) << "PPTP";
    EXPECT_EQ(depth(in_tunnel(tunnel::kGre, carried), 36, 0x99), 0);
    EXPECT_EQ(depth(in_tunnel(tunnel::kMpls, carried), 18, 0x05), 0) << "a control word";
    EXPECT_EQ(depth(in_tunnel(tunnel::kPppoe, carried), 20, 0xc0), 0) << "LCP";
    Frame fragment = in_tunnel(tunnel::kVxlan, carried);
    fragment[20] = 0x20;
    EXPECT_EQ(layers_of(fragment).tunnel_depth, 0) << "put together first";
}

TEST(Tunnels, LetAuthenticationHeadersBeEnteredInIpv4) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.tcp = TcpHeader{.src = 1, .dst = 443, .offset = {}, .checksum = {}, .options = {}};
    Frame frame = build(spec);
    const Frame header = {6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    frame.insert(frame.begin() + 34, header.begin(), header.end());
    frame[23] = 51;
    store_be16(&frame[16], static_cast<uint16_t>(frame.size() - 14));
    const Layers layers = layers_of(frame);
    EXPECT_EQ(layers.l3_offset, 14);
    EXPECT_EQ(layers.l4_offset, 58);
    EXPECT_TRUE(layers.is_tcp());
    EXPECT_EQ(layers.protocol, 6);
    EXPECT_FALSE(layers_of(frame, tunnel::kVxlan).is_tcp());
}

TEST(SymmetricFlowHash, IsTheSameBothWaysAndSpreads) {
    std::set<uint32_t> seen;
    Rng rng(7);
    for (unsigned k = 0; k < 4000; ++k) {
        PacketSpec spec;
        if (k % 2 == 0)
            spec.ipv4 = Ipv4Header{.src = static_cast<uint32_t>(rng()),
                                   .dst = static_cast<uint32_t>(rng()),
                                   .protocol = {},
                                   .header_words = {},
                                   .length = {},
                                   .checksum = {},
                                   .options = {}};
        else spec.ipv6.emplace().src[9] = static_cast<uint8_t>(k >> 8), spec.ipv6->dst[3] = static_cast<uint8_t>(k);
        const bool sctp = k % 3 == 2;
        const auto a = static_cast<uint16_t>(rng()), b = static_cast<uint16_t>(rng());
        if (sctp) {
            (spec.ipv4 ? spec.ipv4->protocol.emplace() : spec.ipv6->next.emplace()) = 132;
            spec.payload = join({be16(a), be16(b), Frame(8)});
        } else {
            spec.udp = UdpHeader{.src = a, .dst = b, .length = {}, .checksum = {}};
        }
        const auto hash_of = [](const PacketSpec& one) {
            Frame frame = build(one);
            Packet packet;
            const auto length = static_cast<uint32_t>(frame.size());
            packet.attach(frame.data(), length, length, 0, 0);
            packet.parse();
            return symmetric_flow_hash(packet);
        };
        const uint32_t there = hash_of(spec);
        if (spec.ipv4) std::swap(spec.ipv4->src, spec.ipv4->dst);
        else std::swap(spec.ipv6->src, spec.ipv6->dst);
        if (sctp) spec.payload = join({be16(b), be16(a), Frame(8)});
        else std::swap(spec.udp->src, spec.udp->dst);
        EXPECT_EQ(hash_of(spec), there) << k;
        seen.insert(there);
    }
    EXPECT_GE(seen.size(), 3990u);
}

}  // namespace
}  // namespace millrace::test
