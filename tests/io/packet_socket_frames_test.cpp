// Frames that ports on the kernel's interfaces have to cut or finish, and those that go without buffers.
#include "io/fetch_blocks.hpp"
#include "io/tcp_frames.hpp"

namespace millrace::io {
namespace {

using namespace test;

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

class ReceiveBlocks : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Layouts, ReceiveBlocks, testing::Values("contiguous", "blocks"),
                         [](const auto& info) { return info.param; });

TEST_P(ReceiveBlocks, ComeWithoutBuffers) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left, layout: " + GetParam() + " }\n");
        Port& port = *made[0];
        const OtherEnd peer("right", true);
        ASSERT_TRUE(port.receives_blocks());
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
                    ASSERT_TRUE(is_known(port, run.data(i), run.spots[i].length));
                    ASSERT_EQ(reinterpret_cast<uintptr_t>(run.data(i)) % 8, 0u);
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

TEST_P(ReceiveBlocks, HaveTagsAndChecksumsInTheirFrames) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left, layout: " + GetParam() + " }\n");
        const OtherEnd peer("right", true);
        std::vector<Bytes> wanted;
        for (uint32_t i = 0; i < 50; ++i) {
            Bytes frame = udp_frame(i, 60 + 13 * i);
            if (i % 2 == 0) frame.insert(frame.begin() + 12, {0x81, 0x00, 0x20, static_cast<uint8_t>(i)});
            ASSERT_TRUE(peer.send(OffloadHeader{}, frame));
            wanted.push_back(std::move(frame));
        }
        EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 50), wanted));
        const Bytes unfinished = tcp_frame(1000, false);
        ASSERT_TRUE(peer.send(tcp_offload(0, false), unfinished));
        expect_segments(fetch_blocks(*made[0], 1), unfinished, 1000, false);
    });
}

/// More than twice as many as all memory holds.
TEST_P(ReceiveBlocks, GoRoundWhateverIsOut) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left, layout: " + GetParam() + " }\n");
        const OtherEnd peer("right", true);
        uint32_t number = 0;
        for (uint32_t round = 0; round < 500; ++round) {
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < 100; ++i, ++number) {
                wanted.push_back(udp_frame(number, 1400 + number % 100));
                ASSERT_TRUE(peer.send(OffloadHeader{}, wanted.back()));
            }
            ASSERT_TRUE(same_frames(fetch_blocks(*made[0], 100, round % 3 == 0), wanted)) << "round " << round;
        }
        EXPECT_EQ(made[0]->counters().received_packets, 50'000u);
        EXPECT_EQ(drops(*made[0], PortDrop::missed), 0u);
    });
}

TEST_P(ReceiveBlocks, WaitWhereNothingIsGivenBack) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left, layout: " + GetParam() + ", buffers: 512 }\n");
        const OtherEnd peer("right", true);
        uint64_t sent = 0, out = 0;
        for (int idle = 0; idle < 50;) {
            for (uint32_t i = 0; i < 100; ++i) sent += peer.send(OffloadHeader{}, udp_frame(i, 1500));
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            const uint32_t came = made[0]->receive_block(0, 1000).count;
            out += came;
            idle = came == 0 ? idle + 1 : 0;
        }
        EXPECT_GE(out, 512u);
        EXPECT_GT(drops(*made[0], PortDrop::missed), 0u) << "there is no memory without end";
        made[0]->give_back(0, static_cast<uint32_t>(out));
        const uint64_t left = fetch_blocks(*made[0], sent - out - drops(*made[0], PortDrop::missed)).size();
        EXPECT_EQ(out + left + drops(*made[0], PortDrop::missed), sent);
        ASSERT_TRUE(peer.send(OffloadHeader{}, udp_frame(7, 99)));
        EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 1), {udp_frame(7, 99)}));
    });
}

TEST_P(ReceiveBlocks, OutliveTheirInterface) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left, layout: " + GetParam() + " }\n");
        std::vector<Bytes> first;
        ReceiveBlock out;
        {
            const OtherEnd peer("right", true);
            for (uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(peer.send(OffloadHeader{}, udp_frame(i, 100)));
            ASSERT_TRUE(becomes([&] { return (out = made[0]->receive_block(0, 20)).count != 0; }));
        }
        ASSERT_EQ(run("ip link del left"), "");
        ASSERT_TRUE(becomes([&] { return !made[0]->link().up; }));
        ASSERT_EQ(run(kCable), "");
        ASSERT_TRUE(becomes([&] { return made[0]->link().up; }));
        const auto rest = fetch_blocks(*made[0], 20 - out.count);
        const OtherEnd peer("right", true);
        std::vector<Bytes> wanted;
        for (uint32_t i = 0; i < 100; ++i) {
            wanted.push_back(udp_frame(1000 + i, 100));
            ASSERT_TRUE(peer.send(OffloadHeader{}, wanted.back()));
        }
        EXPECT_EQ(rest.size(), 20 - out.count) << "what had come before is not lost";
        EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 100), wanted));
        for (uint32_t i = 0; i < out.count; ++i)
            EXPECT_TRUE(std::equal(out.data(i), out.data(i) + 100, udp_frame(i, 100).begin()));
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
