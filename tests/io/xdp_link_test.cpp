// What AF_XDP ports send, and what becomes of it where a link is slow, down or gone.
#include "io/fetch_blocks.hpp"
#include "io/xdp.hpp"

namespace millrace::io {
namespace {

using namespace test;

TEST(XdpPort, DropsWhatTheMtuDoesNotAllowByName) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left }\n");
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        const auto go = [&](uint32_t longest) {
            send(port, port,
                 {udp_frame(1, 60), udp_frame(2, longest + 15), udp_frame(3, longest + 14), udp_frame(4, 70)});
            std::vector<uint32_t> numbers;
            becomes([&] {
                for (const Bytes& frame : peer.received()) numbers.push_back(load_be32(&frame[42]));
                return numbers.size() >= 3;
            });
            return numbers;
        };
        const std::vector<uint32_t> wanted{1, 3, 4};
        EXPECT_EQ(go(1500), wanted);
        EXPECT_EQ(drops(port, PortDrop::over_mtu), 1u);
        EXPECT_EQ(port.counters().sent_packets, 3u);
        EXPECT_EQ(port.counters().sent_bytes, 60u + 1514 + 70);
        ASSERT_EQ(run("ip link set left mtu 1000"), "");
        EXPECT_TRUE(becomes([&] { return port.mtu() == 1000; }));
        EXPECT_EQ(go(1000), wanted);
        EXPECT_EQ(drops(port, PortDrop::over_mtu), 2u);
        ASSERT_EQ(run("ip link set left mtu 3000"), "");
        EXPECT_TRUE(becomes([&] { return port.mtu() == 2026; })) << "as long as a frame has room";
    });
}

TEST(XdpPort, SendsNothingLaterOfWhatCameWhileTheLinkWasDown) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left }\n");
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        ASSERT_EQ(run("ip link set left down"), "");
        // The kernel refuses them whether the port has heard of it or not.
        for (uint32_t i = 0; i < 2000; ++i) send(port, port, {udp_frame(i, 100)});
        EXPECT_TRUE(becomes([&] { return !port.link().up; }));
        send(port, port, {udp_frame(2000, 100)});
        EXPECT_EQ(port.counters().send_drops(), 2001u);
        EXPECT_GT(drops(port, PortDrop::link_down), 0u);
        EXPECT_EQ(port.counters().sent_packets, 0u);
        EXPECT_EQ(port.counters().sent_bytes, 0u);
        ASSERT_EQ(run("ip link set left up"), "");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        send(port, port, {udp_frame(7, 100)});
        std::vector<Bytes> got;
        EXPECT_TRUE(becomes([&] { return !(got = peer.received()).empty(); }));
        EXPECT_TRUE(same_frames(got, {udp_frame(7, 100)}));
        ASSERT_TRUE(peer.send(udp_frame(8, 100)));
        EXPECT_TRUE(same_frames(fetch_frames(port, 1), {udp_frame(8, 100)})) << "it hears again";
        // Without a partner at the other end there is no link, either.
        ASSERT_EQ(run("ip link set right down"), "");
        EXPECT_TRUE(becomes([&] { return !port.link().up; }));
        send(port, port, {udp_frame(8, 100)});
        EXPECT_EQ(port.counters().send_drops(), 2002u);
        EXPECT_EQ(port.counters().sent_packets, 1u);
    });
}

TEST(XdpPort, CountsNothingSentThatTheOtherEndHadNoRoomFor) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        // An end that takes frames by XDP keeps 256 that nobody takes; nobody does while this thread has the only core.
        const auto made = ports("a: { af_xdp: left }\nb: { af_xdp: right }\n");
        ASSERT_TRUE(becomes([&] { return made[0]->link().up; }));
        std::vector<Bytes> frames;
        std::vector<FramePieces> pieces;
        for (uint32_t i = 0; i < 1000; ++i) frames.push_back(udp_frame(i, 60 + i));
        for (const Bytes& frame : frames)
            pieces.push_back({frame.data(), nullptr, static_cast<uint16_t>(frame.size()), 0, 0});
        uint64_t taken = 0, received = 0, received_bytes = 0;
        for (uint32_t round = 0; round < 20; ++round) {
            for (size_t at = 0; at < pieces.size();) {
                const size_t n = made[0]->send_frames(0, {}, std::span(pieces).subspan(at));
                at += n;
                taken += n;
            }
            for (const Bytes& frame : fetch_frames(*made[1], made[0]->counters().sent_packets - received)) {
                ++received;
                received_bytes += frame.size();
            }
        }
        const PortCounters sent = made[0]->counters();
        EXPECT_EQ(sent.sent_packets + sent.send_drops(), taken);
        EXPECT_EQ(received + made[1]->counters().receive_drops(), sent.sent_packets);
        if (made[1]->counters().receive_drops() == 0) {
            EXPECT_EQ(received_bytes, sent.sent_bytes);
        }
    });
}

TEST(XdpPort, GoesOnWhenTheInterfaceWasRemovedAndCameBack) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left }\n");
        Port& port = *made[0];
        ReceiveBlock out;
        std::vector<Bytes> kept;
        for (uint32_t round = 0; round < 3; ++round) {
            ASSERT_TRUE(becomes([&] { return port.link().up; }));
            const OtherEnd peer("right");
            for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(peer.send(udp_frame(i, 100)));
            if (round == 0) {
                ASSERT_TRUE(becomes([&] { return (out = port.receive_block(0, 10)).count != 0; }));
                for (uint32_t i = 0; i < out.count; ++i) kept.push_back(udp_frame(i, 100));
            }
            EXPECT_EQ(fetch_frames(port, round == 0 ? 100 - out.count : 100).size(), round == 0 ? 100 - out.count : 100)
                << "round " << round;
            send(port, port, {udp_frame(round, 100)});
            std::vector<Bytes> got;
            EXPECT_TRUE(becomes([&] { return !(got = peer.received()).empty(); }));
            EXPECT_TRUE(same_frames(got, {udp_frame(round, 100)}));
            ASSERT_EQ(run("ip link del left"), "");
            send(port, port, {udp_frame(round, 100)});
            ASSERT_TRUE(becomes([&] { return !port.link().up; }));
            rte_mbuf* none = nullptr;
            EXPECT_EQ(port.receive(0, &none, 1), 0);
            ASSERT_EQ(run(std::string(kCable) + " && ip link set left mtu 1600"), "");
            ASSERT_TRUE(becomes([&] { return port.link().up && port.mtu() == 1600; }));
            EXPECT_EQ(port.receive(0, &none, 1), 0) << "from here on the new one's frames have room";
        }
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        for (uint32_t i = 0; i < out.count; ++i)
            EXPECT_TRUE(std::equal(out.data(i), out.data(i) + 100, kept[i].begin())) << "frames outlive the interface";
        port.give_back(0, out.count);
        const OtherEnd peer("right");
        std::vector<Bytes> wanted;
        for (uint32_t i = 0; i < 1000; ++i) wanted.push_back(udp_frame(i, 100));
        EXPECT_TRUE(same_frames(pass(peer, port, wanted), wanted));
        const PortCounters counters = port.counters();
        EXPECT_EQ(counters.received_packets, 1300u);
        EXPECT_EQ(counters.sent_packets, 3u);
        EXPECT_EQ(counters.send_drops(), 3u);
        EXPECT_EQ(counters.receive_drops(), 0u);
        EXPECT_EQ(port.trouble(), "");
    });
}

}  // namespace
}  // namespace millrace::io
