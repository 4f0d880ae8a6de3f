// What every kind of port at a network interface does, at the ends of virtual cables.
#include <map>
#include <set>

#include "io/interfaces/interface_kinds.hpp"

namespace millrace::io {
namespace {

using namespace test;

INSTANTIATE_TEST_SUITE_P(Kinds, InterfacePort, testing::ValuesIn(kInterfaceKinds),
                         [](const auto& info) { return info.param.name; });

TEST_P(InterfacePort, CarriesFramesUnchangedOverAVirtualCable) {
    IN_OWN_NETWORK([] {
        const InterfaceKind& kind = GetParam();
        const std::string mtu = std::to_string(kind.mtu), key = kind.key;
        ASSERT_EQ(run("ip link add left mtu " + mtu + " type veth peer name right mtu " + mtu +
                      " && ip link set left up && ip link set right up"),
                  "");
        const std::string longest = std::to_string(std::min(kind.mtu + 14, 9000u));
        const std::string source = "{ source: { count: 500, size: [64, 700, 1514, " + longest + "] } }";
        const auto made = ports("in: " + source + "\na: { " + key + ": left }\nb: { " + key +
                                ": right }\nout: { sink: { keep: 1000 } }\n");
        EXPECT_EQ(made[1]->mtu(), kind.mtu);
        EXPECT_NE(made[1]->info().mac, made[2]->info().mac);
        ASSERT_TRUE(becomes([&] { return made[1]->link().up; }));
        EXPECT_EQ(made[1]->link().speed_mbps, 10000u);
        send_and_fetch(*made[0], *made[1], *made[2], *made[3], 500);
        expect_same_frames(dynamic_cast<SinkPort&>(*made[3]).sample(), source, 500);
        EXPECT_EQ(made[1]->counters().sent_packets, 500u);
        EXPECT_EQ(made[1]->counters().received_packets, 0u) << "what it sends it does not hear";
        EXPECT_EQ(made[2]->counters().received_packets, 500u);
        EXPECT_EQ(made[2]->counters().received_bytes, made[1]->counters().sent_bytes);
        EXPECT_EQ(made[2]->counters().receive_drops() + made[1]->counters().send_drops(), 0u);
        made[1]->close();
        EXPECT_TRUE(made[1]->exhausted());
        EXPECT_FALSE(made[1]->link().up);
        EXPECT_EQ(made[1]->counters().sent_packets, 500u) << "counters outlive the interface";
    });
}

TEST_P(InterfacePort, LosesNothingOfBurstsOfAnySize) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left();
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        uint64_t all = 0, all_bytes = 0;
        for (const uint32_t count : {0u, 1u, 31u, 32u, 33u, 1023u, 1024u, 1025u}) {
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < count; ++i) wanted.push_back(udp_frame(i, 60 + i % 1455));
            EXPECT_TRUE(same_frames(pass(peer, port, wanted), wanted)) << count << " received";
            const std::vector<FramePieces> pieces = in_pieces(wanted);
            // The cable may hold no more than 256 frames that nobody takes.
            std::vector<Bytes> got;
            for (size_t at = 0; at < count; at += 200) {
                const size_t n = std::min<size_t>(200, count - at);
                EXPECT_EQ(port.send_frames(0, {}, std::span(pieces).subspan(at, n)), n);
                for (Bytes& frame : received(peer, n)) got.push_back(std::move(frame));
            }
            EXPECT_EQ(port.send_frames(0, {}, {}), 0u);
            EXPECT_TRUE(same_frames(got, wanted)) << count << " sent";
            all += count;
            for (const Bytes& frame : wanted) all_bytes += frame.size();
        }
        EXPECT_EQ(port.counters().received_packets, all);
        EXPECT_EQ(port.counters().sent_packets, all);
        EXPECT_EQ(port.counters().sent_bytes, all_bytes);
        EXPECT_EQ(port.counters().received_bytes, all_bytes);
        EXPECT_TRUE(port.counters().drops.empty());
        EXPECT_EQ(port.pools()[0]->available(), port.pools()[0]->packets());
    });
}

TEST_P(InterfacePort, DropsWhatTheMtuDoesNotAllowByName) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left();
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        const auto go = [&](uint32_t longest) {
            send(port, port,
                 {udp_frame(1, 60), udp_frame(2, longest + 15), udp_frame(3, longest + 14), udp_frame(4, 70)});
            std::vector<uint32_t> numbers;
            for (const Bytes& frame : received(peer, 3)) numbers.push_back(load_be32(&frame[42]));
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
        // And of those without buffers.
        std::vector<Bytes> frames{udp_frame(1, 60), udp_frame(2, 2000), udp_frame(3, 2000), udp_frame(4, 61)};
        EXPECT_EQ(port.send_frames(0, {}, in_pieces(frames)), 4u) << "taken, whatever became of it";
        frames.erase(frames.begin() + 1, frames.begin() + 3);
        EXPECT_TRUE(same_frames(received(peer, 2), frames));
        EXPECT_EQ(drops(port, PortDrop::over_mtu), 4u);
        EXPECT_EQ(port.counters().send_drops(), 4u);
        EXPECT_EQ(port.counters().sent_packets, 8u);
        EXPECT_EQ(port.counters().sent_bytes, 60u + 1514 + 70 + 60 + 1014 + 70 + 60 + 61);
    });
}

TEST_P(InterfacePort, FollowsTheInterfacesAddressAndCountsItsChanges) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        ASSERT_EQ(run("ip link set left address 02:00:00:00:00:0a"), "");
        const auto made = at_left();
        Port& port = *made[0];
        using Mac = std::array<uint8_t, 6>;
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        EXPECT_EQ(port.info().mac, (Mac{2, 0, 0, 0, 0, 10}));
        EXPECT_EQ(port.mac(), port.info().mac);
        const uint64_t before = port.counters().details["link-changes"];
        EXPECT_LE(before, 1u) << "it may have come up since";
        EXPECT_EQ(port.counters().details.count("mtu-changes"), 0u);
        ASSERT_EQ(run("ip link set left address 02:00:00:00:00:0b"), "");
        EXPECT_TRUE(becomes([&] { return port.mac() == Mac{2, 0, 0, 0, 0, 11}; }));
        for (uint64_t turn = 1; turn <= 3; ++turn) {
            ASSERT_EQ(run("ip link set right down"), "");
            ASSERT_TRUE(becomes([&] { return !port.link().up; }));
            ASSERT_EQ(run("ip link set right up"), "");
            ASSERT_TRUE(becomes([&] { return port.link().up; }));
            EXPECT_EQ(port.counters().details["link-changes"], before + 2 * turn);
            ASSERT_EQ(run("ip link set left mtu " + std::to_string(1500 - turn)), "");
            EXPECT_TRUE(becomes([&] { return port.counters().details["mtu-changes"] == turn; }));
        }
        made[0]->close();
        EXPECT_EQ(port.counters().details["link-changes"], before + 6) << "what was before it was closed";
    });
}

TEST_P(InterfacePort, SendsNothingLaterOfWhatCameWhileTheLinkWasDown) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left();
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        // Sockets for packets hear at once that a link is down, AF_XDP's not always.
        const auto expect_lost = [&](uint64_t frames) {
            EXPECT_EQ(port.counters().send_drops(), frames);
            if (GetParam().is_xdp) {
                EXPECT_GT(drops(port, PortDrop::link_down), 0u);
            } else {
                EXPECT_EQ(drops(port, PortDrop::link_down), frames);
            }
        };
        ASSERT_EQ(run("ip link set left down"), "");
        // The kernel refuses them whether the port has heard of it or not.
        for (uint32_t i = 0; i < 2000; ++i) send(port, port, {udp_frame(i, 100)});
        EXPECT_TRUE(becomes([&] { return !port.link().up; }));
        send(port, port, {udp_frame(2000, 100)});
        expect_lost(2001);
        EXPECT_EQ(port.counters().sent_packets, 0u);
        EXPECT_EQ(port.counters().sent_bytes, 0u);
        ASSERT_EQ(run("ip link set left up"), "");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        send(port, port, {udp_frame(7, 100)});
        EXPECT_TRUE(same_frames(received(peer, 1), {udp_frame(7, 100)}));
        ASSERT_TRUE(peer.send(udp_frame(8, 100)));
        EXPECT_TRUE(same_frames(fetch_frames(port, 1), {udp_frame(8, 100)})) << "it hears again";
        // Without a partner at the other end there is no link, either.
        ASSERT_EQ(run("ip link set right down"), "");
        EXPECT_TRUE(becomes([&] { return !port.link().up; }));
        send(port, port, {udp_frame(8, 100)});
        expect_lost(2002);
        EXPECT_EQ(port.counters().sent_packets, 1u);
    });
}

TEST_P(InterfacePort, TellsWhatTheKernelHadNoRoomFor) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left(", descriptors: 64");
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
        if (GetParam().is_xdp) {
            EXPECT_EQ(made[0]->counters().details.at("descriptors-empty"), 936u);
        }
        made[0]->close();
        EXPECT_EQ(drops(*made[0], PortDrop::missed), 936u);
    });
}

TEST_P(InterfacePort, KeepsEachFlowOnOneQueueInOrder) {
    IN_OWN_NETWORK([] {
        for (const uint32_t workers : {1u, 3u, 64u}) {
            ASSERT_EQ(run("ip link add left numtxqueues 64 numrxqueues 64 type veth peer name right numtxqueues 64 "
                          "numrxqueues 64 && ip link set left up && ip link set right up"),
                      "");
            constexpr uint32_t kFlows = 1000, kRounds = 3;
            const auto made = at_left(", descriptors: 128, queues: " + std::to_string(workers));
            ASSERT_EQ(made[0]->info().receive_queues, workers);
            const OtherEnd peer("right");
            std::vector<Bytes> frames;
            for (uint32_t i = 0; i < kFlows * kRounds; ++i)
                frames.push_back(udp_frame(i, 60, static_cast<uint16_t>(i % kFlows)));
            std::vector<uint16_t> queues;
            const auto got = pass(peer, *made[0], frames, &queues);
            ASSERT_EQ(got.size(), kFlows * kRounds);
            std::map<uint16_t, std::vector<uint32_t>> numbers_of;
            std::map<uint16_t, std::set<uint16_t>> queues_of;
            for (size_t i = 0; i < got.size(); ++i) {
                const uint16_t flow = load_be16(&got[i][34]);
                numbers_of[flow].push_back(load_be32(&got[i][42]));
                queues_of[flow].insert(queues[i]);
            }
            std::map<uint16_t, uint32_t> flows_on;
            for (const auto& [flow, its] : numbers_of) {
                EXPECT_EQ(its, (std::vector<uint32_t>{flow, flow + kFlows, flow + 2 * kFlows}));
                EXPECT_EQ(queues_of[flow].size(), 1u) << "flow " << flow;
                ++flows_on[*queues_of[flow].begin()];
            }
            EXPECT_EQ(flows_on.size(), workers);
            // The other way of a flow comes to the same queue, where the kernel spreads flows itself.
            if (!GetParam().is_xdp) {
                frames.clear();
                for (uint32_t i = 0; i < kFlows; ++i)
                    frames.push_back(turned(udp_frame(i, 60, static_cast<uint16_t>(i))));
                const auto back = pass(peer, *made[0], frames, &queues);
                ASSERT_EQ(back.size(), kFlows);
                for (size_t i = 0; i < back.size(); ++i) {
                    const uint16_t flow = load_be16(&back[i][36]);
                    EXPECT_EQ(queues_of[flow], (std::set<uint16_t>{queues[i]})) << "flow " << flow;
                }
            }
            for (const auto& [queue, flows] : flows_on) {
                if (workers <= 3) {
                    EXPECT_GT(flows, kFlows / workers / 2) << "queue " << queue;
                }
            }
            // And each worker sends.
            EXPECT_EQ(made[0]->info().send_queues, workers);
            ASSERT_TRUE(becomes([&] { return made[0]->link().up; }));
            for (uint16_t queue = 0; queue < made[0]->info().send_queues; ++queue) {
                const Bytes frame = udp_frame(queue, 100);
                const FramePieces pieces{frame.data(), nullptr, 100, 0, 0};
                EXPECT_EQ(made[0]->send_frames(queue, {}, {&pieces, 1}), 1u);
            }
            EXPECT_TRUE(becomes([&] { return made[0]->counters().sent_packets == workers; }));
            ASSERT_EQ(run("ip link del left"), "");
        }
    });
}

TEST_P(InterfacePort, GoesOnWhenTheInterfaceWasRemovedAndCameBack) {
    IN_OWN_NETWORK([] {
        for (const uint16_t queues : GetParam().queues) {
            ASSERT_EQ(run(kCable), "");
            const auto made = at_left(", queues: " + std::to_string(queues));
            Port& port = *made[0];
            for (uint32_t round = 0; round < 3; ++round) {
                ASSERT_TRUE(becomes([&] { return port.link().up; }));
                const OtherEnd peer("right");
                for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(peer.send(udp_frame(i, 100, static_cast<uint16_t>(i))));
                EXPECT_EQ(fetch_frames(port, 100).size(), 100u) << "round " << round;
                send(port, port, {udp_frame(round, 100)});
                EXPECT_TRUE(same_frames(received(peer, 1), {udp_frame(round, 100)}));
                ASSERT_EQ(run("ip link del left"), "");
                send(port, port, {udp_frame(round, 100)});
                ASSERT_TRUE(becomes([&] { return !port.link().up; }));
                rte_mbuf* none = nullptr;
                EXPECT_EQ(port.receive(0, &none, 1), 0);
                EXPECT_EQ(port.mtu(), 1500u + (round == 0 ? 0 : 100)) << "what it was";
                ASSERT_EQ(run(std::string(kCable) + " && ip link set left mtu 1600"), "");
                ASSERT_TRUE(becomes([&] { return port.link().up && port.mtu() == 1600; }));
                EXPECT_EQ(port.receive(0, &none, 1), 0) << "from here on the new one's frames have room";
            }
            const OtherEnd peer("right");
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < 1000; ++i) wanted.push_back(udp_frame(i, 100));
            EXPECT_TRUE(same_frames(pass(peer, port, wanted), wanted));
            const PortCounters counters = port.counters();
            EXPECT_EQ(counters.received_packets, 1300u);
            EXPECT_EQ(counters.receive_drops(), 0u);
            EXPECT_EQ(counters.sent_packets, 3u);
            EXPECT_EQ(counters.send_drops(), 3u);
            if (!GetParam().is_xdp) {
                EXPECT_EQ(drops(port, PortDrop::link_down), 3u);
            }
            EXPECT_EQ(port.trouble(), "");
            ASSERT_EQ(run("ip link del left"), "");
        }
    });
}

TEST_P(InterfacePort, RefusesWhatIsNoInterfaceOfItsOwn) {
    const std::string key = GetParam().key;
    EXPECT_NE(mistake("a: { " + key + ": no-such-if }").find("no network interface"), std::string::npos);
    for (const char* name : {"'a,b'", "'..'", "a/b", "''", "sixteen-letters-"})
        EXPECT_NE(mistake("a: { " + key + ": " + name + " }").find("is no name"), std::string::npos) << name;
    for (const InterfaceKind& other : kInterfaceKinds)
        EXPECT_NE(mistake("a: { " + key + ": lo }\nb: { " + other.key + ": lo }").find("interface of port 'a' already"),
                  std::string::npos);
    EXPECT_NE(mistake("a: { " + key + ": lo, mtu: 9000 }").find("mtu"), std::string::npos);
}

}  // namespace
}  // namespace millrace::io
