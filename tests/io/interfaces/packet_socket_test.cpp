// What ports on packet sockets alone do, between the ends of virtual cables; interface_port_test.cpp has the rest.
#include "io/interfaces/cable.hpp"
#include "millrace/io/packet_socket/slot_ring.hpp"

namespace millrace::io {
namespace {

using namespace test;

/// The first group of a machine has the number 0. Taken for "none yet", it left the other queues a group of their own,
/// and each frame came twice.
TEST(PacketSocketPort, SharesTheGroupWithTheNumberZero) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const ReceiveRingOptions options{.interface = static_cast<int>(if_nametoindex("left")), .slots = 256};
        std::vector<std::unique_ptr<SlotRing>> rings;
        for (int i = 0; i < 3; ++i) {
            rings.push_back(std::make_unique<SlotRing>(options));
            EXPECT_EQ(rings.back()->join(0), 0);
        }
        for (const auto& ring : rings) ring->listen();
        const OtherEnd peer("right");
        for (uint32_t i = 0; i < 100; ++i) EXPECT_TRUE(peer.send(udp_frame(i, 100)));
        const auto waiting = [&] {
            uint32_t frames = 0;
            for (const auto& ring : rings) frames += ring->ready(256);
            return frames;
        };
        EXPECT_TRUE(becomes([&] { return waiting() >= 100; }));
        EXPECT_EQ(waiting(), 100u) << "each frame comes once";
        EXPECT_GE(SlotRing(options).join(SlotRing::kNewGroup), 1);
    });
}

TEST(PacketSocketPort, SendsNothingBeyondAnMtuThatItHasNotHeardOf) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left }\n");
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        ASSERT_EQ(run("ip link set left mtu 1000"), "");
        send(port, port, {udp_frame(1, 1015), udp_frame(2, 1014)});
        EXPECT_TRUE(same_frames(peer.received(), {udp_frame(2, 1014)})) << "the kernel knows of it";
        EXPECT_EQ(drops(port, PortDrop::over_mtu), 1u);
        EXPECT_EQ(port.counters().sent_packets, 1u);
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

}  // namespace
}  // namespace millrace::io
