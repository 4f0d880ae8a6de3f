// Frames that are yet to be cut into those of the wire: received, handed on and sent as they are.
#include "io/interfaces/tcp_frames.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::io {
namespace {

using namespace test;

constexpr const char* kTwoCables =
    "ip link add left type veth peer name right && ip link add near type veth peer name far && for i in left right "
    "near "
    "far; do ip link set $i up; done";

/// Fetches `count` frames with their mbufs, which the caller owns.
std::vector<rte_mbuf*> fetch_mbufs(Port& port, size_t count) {
    std::vector<rte_mbuf*> all(count + 32);
    size_t n = 0;
    becomes([&] { return (n += port.receive(0, all.data() + n, 32)) >= count; });
    all.resize(n);
    return all;
}

Bytes bytes_of(const rte_mbuf* mbuf) {
    const auto* data = rte_pktmbuf_mtod(mbuf, const uint8_t*);
    return {data, data + mbuf->data_len};
}

Bytes tagged(Bytes frame) {
    frame.insert(frame.begin() + 12, {0x81, 0x00, 0x20, 0x2a});
    return frame;
}

TEST(UncutFrames, ComeAndLeaveWholeAndAreCutByWhoCutsThem) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto made = ports("a: { af_packet: left }\nb: { af_packet: near }\nc: { af_packet: far }\n");
        ASSERT_TRUE(becomes([&] { return made[1]->link().up; }));
        made[0]->give_uncut(0, true);
        ASSERT_TRUE(made[1]->sends_uncut());
        const OtherEnd peer("right", true);
        uint64_t count = 0, segments = 0;
        for (const bool is_ipv6 : {false, true})
            for (const auto& [payload, segment] : std::vector<std::pair<size_t, uint16_t>>{
                     {301, 300}, {1000, 300}, {3000, 1426}, {60000, 1426}, {65000, 536}}) {
                const Bytes frame = tcp_frame(payload, is_ipv6);
                ASSERT_TRUE(peer.send(tcp_offload(segment, is_ipv6), frame));
                std::vector<rte_mbuf*> got = fetch_mbufs(*made[0], 1);
                ASSERT_EQ(got.size(), 1u);
                EXPECT_TRUE(bytes_of(got[0]) == frame) << "whole, its checksum that of the pseudo header";
                EXPECT_EQ(segment_bytes(got[0]), segment);
                ASSERT_EQ(made[1]->send(0, got.data(), 1), 1);
                const size_t wanted = (payload + segment - 1) / segment;
                expect_segments(fetch_frames(*made[2], wanted), frame, segment, is_ipv6);
                ++count;
                segments += wanted;
            }
        for (const auto& [port, what] : {std::pair{0, "uncut-received"}, {1, "uncut-sent"}}) {
            const PortCounters counters = made[port]->counters();
            EXPECT_EQ(counters.details.at(what), count);
            EXPECT_EQ(counters.details.at(std::string(what) + "-segments"), segments);
            EXPECT_EQ(counters.receive_drops() + counters.send_drops(), 0u);
        }
        EXPECT_EQ(made[0]->counters().received_packets, count);
        EXPECT_EQ(made[1]->counters().sent_packets, count);
        EXPECT_EQ(made[0]->uncut_pool()->available(), made[0]->uncut_pool()->packets());
        EXPECT_EQ(made[0]->pools()[0]->available(), made[0]->pools()[0]->packets());
    });
}

TEST(UncutFrames, KeepTheirPlaceAmongOthersAThousandTimes) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto made = ports("a: { af_packet: left }\n");
        made[0]->give_uncut(0, true);
        const OtherEnd peer("right", true);
        for (uint32_t round = 0; round < 100; ++round) {
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < 20; ++i) {
                const bool is_long = (i + round) % 2 == 0;
                wanted.push_back(is_long ? tcp_frame(2000 + 61 * i * (round % 40), false) : udp_frame(i, 60 + i));
                ASSERT_TRUE(is_long ? peer.send(tcp_offload(1400, false), wanted.back())
                                    : peer.send(OffloadHeader{}, wanted.back()));
            }
            ASSERT_TRUE(same_frames(fetch_frames(*made[0], 20), wanted)) << "round " << round;
        }
        EXPECT_EQ(made[0]->counters().details.at("uncut-received"), 1000u);
        EXPECT_EQ(made[0]->uncut_pool()->available(), made[0]->uncut_pool()->packets());
    });
}

TEST(UncutFrames, KeepTheirVlanTag) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto made = ports("a: { af_packet: left }\nb: { af_packet: near }\nc: { af_packet: far }\n");
        ASSERT_TRUE(becomes([&] { return made[1]->link().up; }));
        made[0]->give_uncut(0, true);
        made[2]->give_uncut(0, true);
        const OtherEnd peer("right", true);
        OffloadHeader offload = tcp_offload(1448, false);
        offload.checksum_start += 4;
        offload.header_bytes += 4;
        for (const size_t payload : {size_t{1500}, size_t{30000}}) {
            const Bytes frame = tagged(tcp_frame(payload, false));
            ASSERT_TRUE(peer.send(offload, frame));
            std::vector<rte_mbuf*> got = fetch_mbufs(*made[0], 1);
            ASSERT_EQ(got.size(), 1u);
            EXPECT_TRUE(bytes_of(got[0]) == frame);
            ASSERT_EQ(made[1]->send(0, got.data(), 1), 1);
            got = fetch_mbufs(*made[2], 1);
            ASSERT_EQ(got.size(), 1u);
            EXPECT_TRUE(bytes_of(got[0]) == frame);
            EXPECT_EQ(segment_bytes(got[0]), 1448);
            rte_pktmbuf_free(got[0]);
        }
    });
}

TEST(UncutFrames, AreMeasuredByTheirSegmentsAgainstTheMtu) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kTwoCables), "");
        ASSERT_EQ(run("ip link set near mtu 1000"), "");
        const auto made = ports("a: { af_packet: left }\nb: { af_packet: near }\nc: { af_packet: far }\n");
        ASSERT_TRUE(becomes([&] { return made[1]->link().up; }));
        made[0]->give_uncut(0, true);
        const OtherEnd peer("right", true);
        for (const uint16_t segment : {uint16_t{961}, uint16_t{960}}) {  // 40 bytes of headers
            ASSERT_TRUE(peer.send(tcp_offload(segment, false), tcp_frame(20000, false)));
            std::vector<rte_mbuf*> got = fetch_mbufs(*made[0], 1);
            ASSERT_EQ(got.size(), 1u);
            ASSERT_EQ(made[1]->send(0, got.data(), 1), 1);
        }
        EXPECT_EQ(drops(*made[1], PortDrop::over_mtu), 1u);
        expect_segments(fetch_frames(*made[2], 21), tcp_frame(20000, false), 960, false);
    });
}

TEST(UncutFrames, AreCutWhereNobodyCouldDoItLater) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto made = ports("a: { af_packet: left }\nb: { af_packet: near, uncut: false }\n");
        made[0]->give_uncut(0, true);
        made[1]->give_uncut(0, true);
        EXPECT_EQ(made[1]->uncut_pool(), nullptr);
        const OtherEnd peer("right", true), far("far", true);
        Bytes opening = tcp_frame(3000, false), tiny = tcp_frame(3000, false);
        opening[34 + 13] |= 0x02;
        ASSERT_TRUE(peer.send(tcp_offload(1000, false), opening));
        EXPECT_EQ(fetch_frames(*made[0], 3).size(), 3u) << "what opens a connection carries no segments";
        ASSERT_TRUE(peer.send(tcp_offload(2, false), tiny));
        EXPECT_EQ(fetch_frames(*made[0], 1500).size(), 1500u) << "more segments than anybody sends in earnest";
        ASSERT_TRUE(far.send(tcp_offload(1000, false), tcp_frame(3000, false)));
        expect_segments(fetch_frames(*made[1], 3), tcp_frame(3000, false), 1000, false);
        EXPECT_EQ(made[0]->counters().details.count("uncut-received"), 0u);
        EXPECT_EQ(made[1]->counters().details.count("uncut-received"), 0u);
    });
}

void pass_blocks(const char* layout) {
    IN_OWN_NETWORK([&] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto made = ports("a: { af_packet: left, layout: " + std::string(layout) +
                                " }\nb: { af_packet: near }\nc: { af_packet: far }\n");
        ASSERT_TRUE(becomes([&] { return made[1]->link().up; }));
        made[0]->give_uncut(0, true);
        const OtherEnd peer("right", true);
        for (uint32_t round = 0; round < 100; ++round) {
            const Bytes frame = tcp_frame(60000 - 100 * round, false), small = udp_frame(round, 100);
            ASSERT_TRUE(peer.send(OffloadHeader{}, small));
            ASSERT_TRUE(peer.send(tcp_offload(1448, false), frame));
            uint32_t n = 0;
            std::vector<ReceiveBlock> blocks;
            ASSERT_TRUE(becomes([&] {
                const ReceiveBlock block = made[0]->receive_block(0, 100);
                if (block.count != 0) blocks.push_back(block);
                return (n += block.count) == 2;
            }));
            EXPECT_TRUE(blocks.back().has_uncut);
            for (const ReceiveBlock& block : blocks) {
                std::vector<FramePieces> pieces;
                for (uint32_t i = 0; i < block.count; ++i)
                    pieces.push_back(
                        {block.data(i), block.data(i) + 50, 50, static_cast<uint16_t>(block.spots[i].length - 50), i});
                ASSERT_EQ(made[1]->send_frames(0, block, pieces), block.count);
                made[0]->give_back(0, block.count);
            }
            const size_t segments = (60000 - 100 * round + 1447) / 1448;
            auto got = fetch_frames(*made[2], segments + 1);
            ASSERT_EQ(got.size(), segments + 1);
            EXPECT_TRUE(got[0] == small);
            got.erase(got.begin());
            expect_segments(got, frame, 1448, false);
        }
    });
}
TEST(UncutFrames, TravelInReceiveBlocks) { pass_blocks("contiguous"); }
TEST(UncutFrames, TravelInBlocksOfTheKernel) { pass_blocks("blocks"); }

/// A packet socket tells of an interface that goes down by an error of whatever call comes next. Where that call was to
/// fetch a frame, the frame counted as gone and was fetched in place of the next one.
TEST(UncutFrames, AreNotMistakenForOthersWhereTheInterfaceGoesDown) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        for (const bool uncut : {false, true}) {
            const auto made = ports("a: { af_packet: left }\n");
            made[0]->give_uncut(0, uncut);
            const OtherEnd peer("right", true);
            const std::vector<Bytes> frames{tcp_frame(3000, false), tcp_frame(4000, false), tcp_frame(5000, false)};
            for (const Bytes& frame : frames) ASSERT_TRUE(peer.send(tcp_offload(1400, false), frame));
            ASSERT_EQ(run("ip link set left down && ip link set left up"), "");
            std::vector<Bytes> got = fetch_frames(*made[0], uncut ? 3 : 3 + 3 + 4);
            if (uncut) {
                EXPECT_TRUE(same_frames(got, frames));
            } else {
                ASSERT_EQ(got.size(), 10u);
                expect_segments({got.begin(), got.begin() + 3}, frames[0], 1400, false);
                expect_segments({got.begin() + 3, got.begin() + 6}, frames[1], 1400, false);
                expect_segments({got.begin() + 6, got.end()}, frames[2], 1400, false);
            }
            EXPECT_EQ(drops(*made[0], PortDrop::missed), 0u);
        }
    });
}

}  // namespace
}  // namespace millrace::io
