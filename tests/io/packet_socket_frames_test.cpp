// Frames that ports on the kernel's interfaces have to cut or finish, and those that go without buffers.
#include "io/cable.hpp"

namespace millrace::io {
namespace {

using namespace test;

/// A TCP segment as its sender leaves it to a card: the sum of the pseudo header stands where the checksum belongs.
Bytes tcp_frame(size_t payload, bool is_ipv6) {
    const size_t l4 = is_ipv6 ? 54 : 34;
    Bytes frame(l4 + 20 + payload);
    const uint8_t ethernet[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};
    std::copy(std::begin(ethernet), std::end(ethernet), frame.begin());
    store_be16(&frame[12], is_ipv6 ? 0x86dd : 0x0800);
    frame[14] = is_ipv6 ? 0x60 : 0x45;
    if (is_ipv6) {
        store_be16(&frame[18], static_cast<uint16_t>(20 + payload));
        frame[20] = 6;
        frame[21] = 64;
        frame[37] = 1;
        frame[53] = 2;
    } else {
        store_be16(&frame[16], static_cast<uint16_t>(40 + payload));
        store_be16(&frame[18], 0xfff0);
        frame[22] = 64;
        frame[23] = 6;
        store_be32(&frame[26], 0x0a000001);
        store_be32(&frame[30], 0x0a000002);
        store_be16(&frame[24], checksum(&frame[14], 20));
    }
    store_be16(&frame[l4], 1000);
    store_be16(&frame[l4 + 2], 80);
    store_be32(&frame[l4 + 4], 0xfffffff0);
    frame[l4 + 12] = 0x50;
    frame[l4 + 13] = 0x99;  // FIN, PSH, ACK, CWR
    for (size_t i = 0; i < payload; ++i) frame[l4 + 20 + i] = static_cast<uint8_t>(i * 7 >> 3);
    const uint32_t addresses = is_ipv6 ? 22 : 26, address_bytes = is_ipv6 ? 32 : 8;
    const uint32_t pseudo = checksum_add(static_cast<uint32_t>(20 + payload) + 6, &frame[addresses], address_bytes);
    store_be16(&frame[l4 + 16], static_cast<uint16_t>(~checksum_finish(pseudo)));
    return frame;
}

OffloadHeader tcp_offload(uint16_t segment_bytes, bool is_ipv6) {
    OffloadHeader offload;
    offload.flags = OffloadHeader::kNeedsChecksum;
    offload.kind = segment_bytes == 0 ? OffloadHeader::kNone : is_ipv6 ? OffloadHeader::kTcp6 : OffloadHeader::kTcp4;
    offload.segment_bytes = segment_bytes;
    offload.checksum_start = is_ipv6 ? 54 : 34;
    offload.checksum_offset = 16;
    offload.header_bytes = static_cast<uint16_t>(offload.checksum_start + 20);
    return offload;
}

/// What the card would have sent: every segment is right by itself, and together they hold the payload.
void expect_segments(const std::vector<Bytes>& segments, const Bytes& whole, size_t segment_bytes, bool is_ipv6) {
    const uint32_t l4 = is_ipv6 ? 54 : 34;
    const size_t payload = whole.size() - l4 - 20;
    ASSERT_EQ(segments.size(), (payload + segment_bytes - 1) / segment_bytes);
    Bytes joined(whole.begin(), whole.begin() + l4 + 20);
    for (size_t i = 0; i < segments.size(); ++i) {
        const Bytes& segment = segments[i];
        ASSERT_EQ(segment.size(), l4 + 20 + std::min(segment_bytes, payload - i * segment_bytes));
        const auto size = static_cast<uint32_t>(segment.size());
        if (is_ipv6) {
            EXPECT_EQ(load_be16(&segment[18]), size - 54);
        } else {
            EXPECT_EQ(load_be16(&segment[16]), size - 14);
            EXPECT_EQ(load_be16(&segment[18]), static_cast<uint16_t>(0xfff0 + i));
            EXPECT_EQ(checksum(&segment[14], 20), 0);
        }
        const uint32_t pseudo = checksum_add(size - l4 + 6, &segment[is_ipv6 ? 22 : 26], is_ipv6 ? 32 : 8);
        EXPECT_EQ(checksum_finish(checksum_add(pseudo, &segment[l4], size - l4)), 0) << "segment " << i;
        EXPECT_EQ(load_be32(&segment[l4 + 4]), static_cast<uint32_t>(0xfffffff0 + i * segment_bytes));
        const bool is_last = i + 1 == segments.size();
        EXPECT_EQ(segment[l4 + 13], 0x10 | (i == 0 ? 0x80 : 0) | (is_last ? 0x09 : 0));
        joined.insert(joined.end(), segment.begin() + l4 + 20, segment.end());
    }
    EXPECT_TRUE(std::equal(joined.begin() + l4 + 20, joined.end(), whole.begin() + l4 + 20));
}

TEST(PacketSocketPort, CutsFramesAndFinishesChecksumsThatTheirSenderLeftToACard) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left }\n");
        const OtherEnd peer("right", true);
        uint64_t cut = 0;
        for (const bool is_ipv6 : {false, true})
            for (const auto& [payload, segment] : std::vector<std::pair<size_t, uint16_t>>{
                     {1000, 0}, {1001, 0}, {1000, 300}, {3000, 1448}, {60000, 1448}, {65000, 536}}) {
                const Bytes frame = tcp_frame(payload, is_ipv6);
                ASSERT_TRUE(peer.send(tcp_offload(segment, is_ipv6), frame)) << payload << " " << segment;
                const size_t count = segment == 0 ? 1 : (payload + segment - 1) / segment;
                expect_segments(fetch_frames(*made[0], count), frame, segment == 0 ? payload : segment, is_ipv6);
                cut += segment != 0;
            }
        const PortCounters counters = made[0]->counters();
        EXPECT_EQ(counters.details.at("cut-into-segments"), cut);
        EXPECT_EQ(counters.details.at("checksum-finished"), 4u);
        EXPECT_EQ(counters.receive_drops(), 0u);
        EXPECT_EQ(made[0]->pools()[0]->available(), made[0]->pools()[0]->packets());
    });
}

TEST(PacketSocketPort, CountsLongFramesThatNobodyCanCut) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(
            run("ip link add left type veth peer name right mtu 9000 && ip link set left up && ip link set right up"),
            "");
        const auto made = ports("a: { af_packet: left }\n");
        const OtherEnd peer("right");
        for (const size_t bytes : {size_t{60}, size_t{1600}, size_t{3000}, size_t{9014}, size_t{61}})
            peer.send(udp_frame(1, bytes));
        EXPECT_TRUE(same_frames(fetch_frames(*made[0], 2), (std::vector<Bytes>{udp_frame(1, 60), udp_frame(1, 61)})));
        EXPECT_LE(drops(*made[0], PortDrop::too_long), 3u) << "the kernel may drop frames beyond a cable's MTU itself";
    });
}

TEST(PacketSocketPort, GivesOutRunsWithoutBuffers) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left, layout: contiguous }\n");
        Port& port = *made[0];
        const OtherEnd peer("right", true);
        ASSERT_TRUE(port.receives_blocks());
        ASSERT_EQ(port.memory().size(), 2u);
        const std::span<const uint8_t> memory = port.memory()[1];
        uint32_t number = 0;
        for (uint32_t round = 0; round < 100; ++round) {
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < 200; ++i, ++number) {
                wanted.push_back(udp_frame(number, 60 + number % 1400));
                ASSERT_TRUE(peer.send(OffloadHeader{}, wanted.back()));
            }
            const Bytes long_one = tcp_frame(3000, false);
            ASSERT_TRUE(peer.send(tcp_offload(1000, false), long_one));
            uint64_t next = 1 + round * 203;
            std::vector<Bytes> got;
            std::vector<uint32_t> out;
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
            while (got.size() < 203 && std::chrono::steady_clock::now() < deadline) {
                const ReceiveBlock run = port.receive_block(0, 60);
                for (uint32_t i = 0; i < run.count; ++i) {
                    ASSERT_GE(run.data(i), memory.data());
                    ASSERT_LE(run.data(i) + run.spots[i].length, memory.data() + memory.size());
                    got.emplace_back(run.data(i), run.data(i) + run.spots[i].length);
                    EXPECT_EQ(run.number(i), next++);
                }
                if (run.count > 0) out.push_back(run.count);
            }
            ASSERT_EQ(got.size(), 203u);
            expect_segments({got.end() - 3, got.end()}, long_one, 1000, false);
            got.resize(200);
            EXPECT_TRUE(same_frames(got, wanted));
            for (const uint32_t count : out) port.give_back(0, count);
        }
        EXPECT_EQ(port.counters().received_packets, 100u * 203);
        EXPECT_EQ(port.pools()[0]->available(), port.pools()[0]->packets());
    });
}

TEST(PacketSocketPort, SendsFramesWithoutBuffersInOneOrTwoPieces) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left }\n");
        ASSERT_TRUE(becomes([&] { return made[0]->link().up; })) << "a cable's carrier comes a little later";
        const OtherEnd peer("right");
        std::vector<Bytes> wanted;
        std::vector<FramePieces> pieces;
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < 200; ++i) wanted.push_back(udp_frame(i, 60 + i * 7));
        wanted[100].resize(2000);
        for (uint32_t i = 0; i < 200; ++i) {
            const auto head = static_cast<uint16_t>(i % 2 == 0 ? wanted[i].size() : 40);
            pieces.push_back(
                {wanted[i].data(), wanted[i].data() + head, head, static_cast<uint16_t>(wanted[i].size() - head), i});
            bytes += wanted[i].size();
        }
        EXPECT_EQ(made[0]->send_frames(0, {}, pieces), 200u) << "taken, whatever became of it";
        wanted.erase(wanted.begin() + 100);
        EXPECT_TRUE(same_frames(peer.received(), wanted));
        EXPECT_EQ(made[0]->counters().sent_bytes, bytes - 2000);
        EXPECT_EQ(drops(*made[0], PortDrop::over_mtu), 1u);
    });
}

}  // namespace
}  // namespace millrace::io
