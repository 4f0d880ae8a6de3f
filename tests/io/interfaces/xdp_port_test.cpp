// What ports on AF_XDP sockets alone do, at the ends of virtual cables; interface_port_test.cpp has the rest.
#include <linux/capability.h>
#include <poll.h>
#include <sys/syscall.h>

#include "io/interfaces/fetch_blocks.hpp"
#include "io/interfaces/xdp.hpp"
#include "millrace/io/wake_event.hpp"
#include "millrace/io/xdp/redirect_program.hpp"

namespace millrace::io {
namespace {

using namespace test;

TEST(XdpPort, GivesFramesOfOneLengthAtOneDistance) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left }\n");
        Port& port = *made[0];
        EXPECT_EQ(port.info().detail, "left (copied)");
        const OtherEnd peer("right");
        // They cross a bus at once.
        for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(peer.send(udp_frame(i, 300)));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        uint32_t n = 0, parts = 0;
        while (n < 100) {
            const ReceiveBlock block = port.receive_block(0, 1000);
            ASSERT_GT(block.count, 0u);
            for (uint32_t i = 0; i < block.count; ++parts) {
                const uint32_t alike = frames_alike(block.spots + i, block.count - i);
                EXPECT_TRUE(is_known(port, block.data(i), 300));
                i += alike;
            }
            EXPECT_EQ(block.first_number, 1 + n);
            n += block.count;
        }
        EXPECT_LE(parts, 3u);
        port.give_back(0, 100);
        EXPECT_EQ(port.counters().received_packets, 100u);
        EXPECT_TRUE(port.counters().drops.empty());
    });
}

TEST(XdpPort, MissesWhatFramesThatAreOutHaveNoRoomFor) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left, descriptors: 64 }\n");
        const OtherEnd peer("right");
        for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(peer.send(udp_frame(i, 100)));
        ASSERT_TRUE(becomes([&] { return drops(*made[0], PortDrop::missed) == 36; }));
        EXPECT_EQ(made[0]->receive_block(0, 1000).count, 64u);
        for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(peer.send(udp_frame(i, 100)));
        ASSERT_TRUE(becomes([&] { return drops(*made[0], PortDrop::missed) == 136; }));
        EXPECT_EQ(made[0]->receive_block(0, 1000).count, 0u);
        made[0]->give_back(0, 64);
        ASSERT_TRUE(peer.send(udp_frame(7, 99)));
        EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 1), {udp_frame(7, 99)}));
        made[0]->close();
        EXPECT_EQ(drops(*made[0], PortDrop::missed), 136u);
    });
}

TEST(XdpPort, HasNoLongerMtuThanItsFramesHaveRoomFor) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left }\n");
        ASSERT_EQ(run("ip link set left mtu 3000"), "");
        EXPECT_TRUE(becomes([&] { return made[0]->mtu() == 2026; }));
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

TEST(XdpPort, HasNoMoreQueuesThanTheInterface) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left }\n", {.queues = 4});
        EXPECT_EQ(made[0]->info().receive_queues, 1u);
        EXPECT_EQ(made[0]->info().send_queues, 1u);
    });
}

TEST(XdpPort, WakesWhoSleeps) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left }\n");
        const OtherEnd peer("right");
        WakeUps wake_ups;
        wake_ups.clear();
        made[0]->begin_sleep(0, wake_ups);
        EXPECT_FALSE(wake_ups.polls());
        std::vector<pollfd> waiting;
        for (const int fd : wake_ups.descriptors()) waiting.push_back({fd, POLLIN, 0});
        EXPECT_EQ(poll(waiting.data(), waiting.size(), 20), 0) << "nothing has come";
        ASSERT_TRUE(peer.send(udp_frame(1, 100)));
        EXPECT_EQ(poll(waiting.data(), waiting.size(), 5000), 1);
        made[0]->end_sleep(0);
        EXPECT_EQ(fetch_frames(*made[0], 1).size(), 1u);
        made[0]->begin_sleep(0, wake_ups);
        EXPECT_EQ(poll(waiting.data(), waiting.size(), 20), 0) << "it was taken";
        made[0]->end_sleep(0);
    });
}

TEST(XdpPort, RefusesWhatItCantHave) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto refused = [](const std::string& options, const char* why) {
            const std::string said = mistake("a: { " + options + " }");
            EXPECT_NE(said.find(why), std::string::npos) << options << ": " << said;
            EXPECT_NE(said.find("ports.yaml:1:"), std::string::npos) << said;
        };
        refused("af_xdp: left, queues: 2", "receives by 1; ask for fewer, or give it more by 'ethtool -L left'");
        refused("af_xdp: left, mode: zero-copy", "'mode: copy' does without");
        refused("af_xdp: left, mode: fast", "zero-copy");
        refused("af_xdp: left, descriptors: 1", "from 64 to 262144");
        refused("af_xdp: left, layout: blocks", "layout");
        refused("af_xdp: left, max-frame: 5000", "'ip link set left mtu 3818' or less");
        refused("af_xdp: lo", "too long for AF_XDP");
        ASSERT_EQ(run("ip link set lo mtu 1500"), "");
        refused("af_xdp: lo", "'ethtool -K lo gro off' ends that");
        ASSERT_EQ(run("ip link set right mtu 9000"), "");
        refused("af_xdp: left", "the MTU at the other end of 'left' is too long for XDP");
        ASSERT_EQ(run("ip link set right mtu 1500"), "");
        const RedirectProgram other(find_interface("left").index, "left", 1);
        refused("af_xdp: left", "another XDP program is at the interface 'left'");
        ASSERT_EQ(
            run("ip link add one numtxqueues 4 numrxqueues 4 type veth peer name many numtxqueues 4 numrxqueues 4 "
                "&& ethtool -L one rx 1"),
            "");
        refused("af_xdp: one", "sends by more queues than this one receives by");
    });
}

TEST(XdpPort, LeavesTheInterfaceAsItWas) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const std::string before = run("ip -details link show left");
        {
            const auto made = ports("a: { af_xdp: left }\n");
            EXPECT_NE(run("ip -details link show left").find("xdp"), std::string::npos);
            EXPECT_NE(run("ip -details link show left").find("promiscuity 1"), std::string::npos);
        }
        EXPECT_EQ(run("ip -details link show left"), before);
    });
}

/// The kernel lets a queue go a moment after its socket is closed: who starts again at once waits that long, and not
/// for a queue that somebody has.
TEST(XdpPort, HasTheQueueOfAPortThatHasJustEnded) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        for (int i = 0; i < 20; ++i) ASSERT_NO_THROW(ports("a: { af_xdp: left }\n")) << i;
        const auto made = ports("a: { af_xdp: left }\n");
        EXPECT_NE(mistake("a: { af_xdp: left }"), "");
    });
}

TEST(XdpPort, NamesTheRightsThatAreMissing) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        EXPECT_EQ(mistake("a: { af_xdp: left }"), "");
        // Of this thread, for good.
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        const __user_cap_data_struct none[2]{};
        ASSERT_EQ(syscall(SYS_capset, &header, none), 0);
        EXPECT_NE(mistake("a: { af_xdp: left }").find("it takes the rights CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW"),
                  std::string::npos);
    });
}

}  // namespace
}  // namespace millrace::io
