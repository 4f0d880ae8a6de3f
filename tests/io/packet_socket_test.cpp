// Ports on the kernel's interfaces, between the ends of virtual cables.
#include <map>
#include <set>

#include "io/cable.hpp"
#include "millrace/io/kernel/slot_ring.hpp"

namespace millrace::io {
namespace {

using namespace test;

TEST(PacketSocketPort, CarriesFramesUnchangedOverAVirtualCable) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run("ip link add left mtu 9000 type veth peer name right mtu 9000 && ip link set left up && ip link "
                      "set right up"),
                  "");
        const std::string source = "{ source: { count: 500, size: [64, 1514, 9000] } }";
        const auto made = ports("in: " + source +
                                "\na: { af_packet: left }\nb: { af_packet: right }\nout: { sink: { keep: 1000 } }\n");
        EXPECT_EQ(made[1]->mtu(), 9000u);
        EXPECT_NE(made[1]->info().mac, made[2]->info().mac);
        EXPECT_TRUE(made[1]->link().up);
        EXPECT_EQ(made[1]->link().speed_mbps, 10000u);
        send_and_fetch(*made[0], *made[1], *made[2], *made[3], 500);
        expect_same_frames(dynamic_cast<SinkPort&>(*made[3]).sample(), source, 500);
        EXPECT_EQ(made[1]->counters().sent_packets, 500u);
        EXPECT_EQ(made[1]->counters().received_packets, 0u) << "what it sends it does not hear";
        EXPECT_EQ(made[2]->counters().received_packets, 500u);
        made[1]->close();
        EXPECT_TRUE(made[1]->exhausted());
        EXPECT_FALSE(made[1]->link().up);
        EXPECT_EQ(made[1]->counters().sent_packets, 500u) << "counters outlive the interface";
    });
}

TEST(PacketSocketPort, KeepsVlanTagsInTheFrame) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left }\nb: { af_packet: right }\n");
        std::vector<Bytes> wanted;
        for (const std::vector<uint8_t>& tags : std::vector<std::vector<uint8_t>>{
                 {0x81, 0x00, 0x20, 0x2a}, {0x88, 0xa8, 0, 5, 0x81, 0, 0, 7}, {0x81, 0x00, 0, 0}}) {
            wanted.push_back(udp_frame(1, 100));
            wanted.back().insert(wanted.back().begin() + 12, tags.begin(), tags.end());
        }
        send(*made[0], *made[0], wanted);
        EXPECT_TRUE(same_frames(fetch_frames(*made[1], wanted.size()), wanted));
        // A full frame is longer by its tag, and within the MTU.
        Bytes full = udp_frame(2, 1514);
        full.insert(full.begin() + 12, {0x81, 0x00, 0x00, 0x2a});
        send(*made[0], *made[0], {full});
        EXPECT_TRUE(same_frames(fetch_frames(*made[1], 1), std::vector<Bytes>{full}));
    });
}

TEST(PacketSocketPort, PassesFragmentsAsTheyAre) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        for (const char* queues : {"1", "4"}) {
            const auto made = ports("a: { af_packet: left, queues: " + std::string(queues) + " }\n");
            const OtherEnd peer("right");
            // Both of a datagram, a first one alone, a last one alone, and again a thousand of one host, in order.
            std::vector<Bytes> wanted{udp_frame(1, 530, 5, 0x2000), udp_frame(2, 500, 0, 62),
                                      udp_frame(3, 530, 5, 0x2000), udp_frame(4, 500, 0, 62)};
            for (uint32_t i = 0; i < 1000; ++i)
                wanted.push_back(udp_frame(i, 100, 0, static_cast<uint16_t>(0x2000 | i)));
            EXPECT_TRUE(same_frames(pass(peer, *made[0], wanted), wanted)) << queues << " queues";
        }
    });
}

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

TEST(PacketSocketPort, DropsWhatTheMtuDoesNotAllowByName) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left }\n");
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        const auto go = [&](uint32_t longest) {
            send(port, port,
                 {udp_frame(1, 60), udp_frame(2, longest + 15), udp_frame(3, longest + 14), udp_frame(4, 70)});
            std::vector<uint32_t> numbers;
            for (const Bytes& frame : peer.received()) numbers.push_back(load_be32(&frame[42]));
            return numbers;
        };
        const std::vector<uint32_t> wanted{1, 3, 4};
        EXPECT_EQ(go(1500), wanted);
        EXPECT_EQ(drops(port, PortDrop::over_mtu), 1u);
        EXPECT_EQ(port.counters().sent_packets, 3u);
        EXPECT_EQ(port.counters().sent_bytes, 60u + 1514 + 70);
        ASSERT_EQ(run("ip link set left mtu 1000"), "");
        EXPECT_EQ(go(1000), wanted) << "the kernel knows of the new MTU, whether the port does yet or not";
        EXPECT_EQ(drops(port, PortDrop::over_mtu), 2u);
        EXPECT_TRUE(becomes([&] { return port.mtu() == 1000; }));
        EXPECT_EQ(go(1000), wanted);
        EXPECT_EQ(drops(port, PortDrop::over_mtu), 3u);
        EXPECT_EQ(port.counters().send_drops(), 3u);
    });
}

TEST(PacketSocketPort, SendsNothingLaterOfWhatCameWhileTheLinkWasDown) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left }\n");
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        ASSERT_EQ(run("ip link set left down"), "");
        // The kernel refuses them whether the port has heard of it or not.
        for (uint32_t i = 0; i < 1000; ++i) send(port, port, {udp_frame(i, 100)});
        EXPECT_TRUE(becomes([&] { return !port.link().up; }));
        send(port, port, {udp_frame(1000, 100)});
        EXPECT_EQ(drops(port, PortDrop::link_down), 1001u);
        EXPECT_EQ(port.counters().sent_packets, 0u);
        EXPECT_EQ(port.counters().sent_bytes, 0u);
        ASSERT_EQ(run("ip link set left up"), "");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        send(port, port, {udp_frame(7, 100)});
        EXPECT_TRUE(same_frames(peer.received(), std::vector<Bytes>{udp_frame(7, 100)}));
        // Without a partner at the other end there is no link, either.
        ASSERT_EQ(run("ip link set right down"), "");
        EXPECT_TRUE(becomes([&] { return !port.link().up; }));
        send(port, port, {udp_frame(8, 100)});
        EXPECT_EQ(drops(port, PortDrop::link_down), 1002u);
    });
}

TEST(PacketSocketPort, TellsWhatTheKernelHadNoRoomFor) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_packet: left, descriptors: 64 }\n");
        const OtherEnd peer("right");
        for (uint32_t i = 0; i < 1000; ++i) {
            ASSERT_TRUE(peer.send(udp_frame(i, 100)));
            if (i >= 64 && i % 100 == 0) {
                ASSERT_TRUE(becomes([&] { return drops(*made[0], PortDrop::missed) == i + 1 - 64; }));
            }
        }
        ASSERT_TRUE(becomes([&] { return drops(*made[0], PortDrop::missed) == 936; }));
        const auto got = fetch_frames(*made[0], 64);
        ASSERT_EQ(got.size(), 64u);
        EXPECT_TRUE(got[63] == udp_frame(63, 100));
        EXPECT_EQ(drops(*made[0], PortDrop::missed), 936u);
        EXPECT_EQ(drops(*made[0], PortDrop::missed), 936u) << "asking changes nothing";
        made[0]->close();
        EXPECT_EQ(drops(*made[0], PortDrop::missed), 936u);
    });
}

TEST(PacketSocketPort, KeepsEachFlowOnOneQueueInOrder) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        constexpr uint32_t kFlows = 1000, kRounds = 3;
        const auto made = ports("a: { af_packet: left, queues: 3 }\n");
        const OtherEnd peer("right");
        std::vector<Bytes> frames;
        for (uint32_t i = 0; i < kFlows * kRounds; ++i)
            frames.push_back(udp_frame(i, 60, static_cast<uint16_t>(i % kFlows)));
        std::vector<uint16_t> queues;
        const auto got = pass(peer, *made[0], frames, &queues);
        ASSERT_EQ(got.size(), kFlows * kRounds);
        std::map<uint16_t, std::set<uint16_t>> queues_of;
        std::map<uint16_t, std::vector<uint32_t>> numbers_of;
        for (size_t i = 0; i < got.size(); ++i) {
            const uint16_t flow = load_be16(&got[i][34]);
            queues_of[flow].insert(queues[i]);
            numbers_of[flow].push_back(load_be32(&got[i][42]));
        }
        std::map<uint16_t, uint32_t> flows_on;
        for (const auto& [flow, its] : queues_of) {
            EXPECT_EQ(its.size(), 1u);
            ++flows_on[*its.begin()];
            EXPECT_EQ(numbers_of[flow], (std::vector<uint32_t>{flow, flow + kFlows, flow + 2 * kFlows}));
        }
        EXPECT_EQ(flows_on.size(), 3u);
        for (const auto& [queue, flows] : flows_on) EXPECT_GT(flows, kFlows / 6) << "queue " << queue;
    });
}

TEST(PacketSocketPort, GoesOnWhenTheInterfaceWasRemovedAndCameBack) {
    IN_OWN_NETWORK([] {
        for (const char* queues : {"1", "3"}) {
            ASSERT_EQ(run(kCable), "");
            const auto made = ports("a: { af_packet: left, queues: " + std::string(queues) + " }\n");
            Port& port = *made[0];
            for (uint32_t round = 0; round < 3; ++round) {
                ASSERT_TRUE(becomes([&] { return port.link().up; }));
                const OtherEnd peer("right");
                for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(peer.send(udp_frame(i, 100, static_cast<uint16_t>(i))));
                EXPECT_EQ(fetch_frames(port, 100).size(), 100u) << "round " << round;
                send(port, port, {udp_frame(round, 100)});
                EXPECT_TRUE(same_frames(peer.received(), std::vector<Bytes>{udp_frame(round, 100)}));
                ASSERT_EQ(run("ip link del left"), "");
                send(port, port, {udp_frame(round, 100)});
                ASSERT_TRUE(becomes([&] { return !port.link().up; }));
                rte_mbuf* none = nullptr;
                EXPECT_EQ(port.receive(0, &none, 1), 0);
                EXPECT_EQ(port.mtu(), 1500u + (round == 0 ? 0 : 100)) << "what it was";
                ASSERT_EQ(run(std::string(kCable) + " && ip link set left mtu 1600"), "");
                ASSERT_TRUE(becomes([&] { return port.mtu() == 1600; }));
            }
            const PortCounters counters = port.counters();
            EXPECT_EQ(counters.received_packets, 300u);
            EXPECT_EQ(counters.sent_packets, 3u);
            EXPECT_EQ(drops(port, PortDrop::link_down), 3u);
            EXPECT_EQ(port.trouble(), "");
            ASSERT_EQ(run("ip link del left"), "");
        }
    });
}

TEST(PacketSocketPort, RefusesWhatIsNoInterfaceOfItsOwn) {
    EXPECT_NE(mistake("a: { af_packet: no-such-if }").find("no network interface"), std::string::npos);
    for (const char* name : {"'a,b'", "'..'", "a/b", "''", "sixteen-letters-"})
        EXPECT_NE(mistake("a: { af_packet: " + std::string(name) + " }").find("is no name"), std::string::npos) << name;
    EXPECT_NE(mistake("a: { af_packet: lo }\nb: { af_packet: lo }").find("interface of port 'a' already"),
              std::string::npos);
    EXPECT_NE(mistake("a: { af_packet: lo, mtu: 9000 }").find("mtu"), std::string::npos);
}

}  // namespace
}  // namespace millrace::io
