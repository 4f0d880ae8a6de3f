// Ports on AF_XDP sockets, at the ends of virtual cables.
#include <linux/capability.h>
#include <poll.h>
#include <sys/syscall.h>

#include <map>
#include <set>

#include "io/fetch_blocks.hpp"
#include "io/xdp.hpp"
#include "millrace/io/wake_event.hpp"
#include "millrace/io/xdp/redirect_program.hpp"

namespace millrace::io {
namespace {

using namespace test;

TEST(XdpPort, CarriesFramesUnchangedOverAVirtualCable) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const std::string source = "{ source: { count: 500, size: [64, 700, 1514] } }";
        const auto made = ports("in: " + source +
                                "\na: { af_xdp: left }\nb: { af_xdp: right }\nout: { sink: { keep: 1000 } }\n");
        EXPECT_NE(made[1]->info().mac, made[2]->info().mac);
        EXPECT_EQ(made[1]->info().detail, "left (copied)");
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

TEST(XdpPort, LosesNothingOfBurstsOfAnySize) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left }\n");
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(becomes([&] { return port.link().up; }));
        uint64_t all = 0, all_bytes = 0;
        for (const uint32_t count : {0u, 1u, 31u, 32u, 33u, 1023u, 1024u, 1025u}) {
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < count; ++i) wanted.push_back(udp_frame(i, 60 + i % 1455));
            EXPECT_TRUE(same_frames(pass(peer, port, wanted), wanted)) << count << " received";
            std::vector<FramePieces> pieces;
            for (uint32_t i = 0; i < count; ++i) {
                const auto head = static_cast<uint16_t>(i % 2 == 0 ? wanted[i].size() : 40);
                pieces.push_back({wanted[i].data(), wanted[i].data() + head, head,
                                  static_cast<uint16_t>(wanted[i].size() - head), i});
                all_bytes += wanted[i].size();
            }
            // The cable holds 256 frames that nobody takes.
            std::vector<Bytes> got;
            for (size_t at = 0; at < count; at += 200) {
                const size_t n = std::min<size_t>(200, count - at);
                EXPECT_EQ(port.send_frames(0, {}, std::span(pieces).subspan(at, n)), n);
                becomes([&] {
                    for (Bytes& frame : peer.received()) got.push_back(std::move(frame));
                    return got.size() >= at + n;
                });
            }
            EXPECT_EQ(port.send_frames(0, {}, {}), 0u);
            EXPECT_TRUE(same_frames(got, wanted)) << count << " sent";
            all += count;
        }
        EXPECT_EQ(port.counters().received_packets, all);
        EXPECT_EQ(port.counters().sent_packets, all);
        EXPECT_EQ(port.counters().sent_bytes, all_bytes);
        EXPECT_EQ(port.counters().received_bytes, all_bytes);
        EXPECT_TRUE(port.counters().drops.empty());
        EXPECT_EQ(port.pools()[0]->available(), port.pools()[0]->packets());
    });
}

TEST(XdpPort, GivesFramesWhereTheyLieUntilTheyAreGivenBack) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left, descriptors: 512 }\n");
        Port& port = *made[0];
        const OtherEnd peer("right");
        ASSERT_TRUE(port.receives_blocks());
        uint32_t number = 0;
        for (uint32_t round = 0; round < 50; ++round) {
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < 100; ++i, ++number) {
                wanted.push_back(udp_frame(number, round % 2 == 0 ? 200 : 60 + number % 1400));
                ASSERT_TRUE(peer.send(wanted.back()));
            }
            ASSERT_TRUE(same_frames(fetch_blocks(port, 100, round % 3 == 0), wanted)) << "round " << round;
        }
        // Equal ones that have come one after the other lie alike, and cross a bus at once.
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
            EXPECT_EQ(block.first_number, 1 + number + n);
            n += block.count;
        }
        EXPECT_LE(parts, 3u);
        port.give_back(0, 100);
        EXPECT_EQ(port.counters().received_packets, 5100u);
        EXPECT_TRUE(port.counters().drops.empty());
    });
}

TEST(XdpPort, TellsWhatTheKernelHadNoRoomFor) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = ports("a: { af_xdp: left, descriptors: 64 }\n");
        const OtherEnd peer("right");
        for (uint32_t i = 0; i < 1000; ++i) {
            ASSERT_TRUE(peer.send(udp_frame(i, 100)));
            if (i >= 64 && i % 100 == 0) {
                ASSERT_TRUE(becomes([&] { return drops(*made[0], PortDrop::missed) == i + 1 - 64; }));
            }
        }
        ASSERT_TRUE(becomes([&] { return drops(*made[0], PortDrop::missed) == 936; }));
        EXPECT_EQ(made[0]->counters().details.at("descriptors-empty"), 936u);
        const auto got = fetch_frames(*made[0], 64);
        ASSERT_EQ(got.size(), 64u);
        EXPECT_TRUE(got[63] == udp_frame(63, 100));
        // What is out for good is missing, too.
        for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(peer.send(udp_frame(i, 100)));
        ASSERT_TRUE(becomes([&] { return drops(*made[0], PortDrop::missed) == 972; }));
        EXPECT_EQ(made[0]->receive_block(0, 1000).count, 64u);
        for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(peer.send(udp_frame(i, 100)));
        ASSERT_TRUE(becomes([&] { return drops(*made[0], PortDrop::missed) == 1072; }));
        EXPECT_EQ(made[0]->receive_block(0, 1000).count, 0u);
        made[0]->give_back(0, 64);
        ASSERT_TRUE(peer.send(udp_frame(7, 99)));
        EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 1), {udp_frame(7, 99)}));
        made[0]->close();
        EXPECT_EQ(drops(*made[0], PortDrop::missed), 1072u);
    });
}

TEST(XdpPort, TakesFromAllQueuesOfAnInterface) {
    IN_XDP_NETWORK([] {
        for (const uint32_t workers : {1u, 3u, 64u}) {
            ASSERT_EQ(run("ip link add left numtxqueues 64 numrxqueues 64 type veth peer name right numtxqueues 64 "
                          "numrxqueues 64 && ip link set left up && ip link set right up"),
                      "");
            constexpr uint32_t kFlows = 1000, kRounds = 3;
            const auto made = ports("a: { af_xdp: left, descriptors: 128, queues: " + std::to_string(workers) + " }\n");
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
            for (const auto& [flow, its] : numbers_of) {
                EXPECT_EQ(its, (std::vector<uint32_t>{flow, flow + kFlows, flow + 2 * kFlows}));
                EXPECT_EQ(queues_of[flow].size(), 1u) << "flow " << flow;
            }
            EXPECT_EQ(std::set<uint16_t>(queues.begin(), queues.end()).size(), workers);
            // And each worker sends.
            for (uint16_t queue = 0; queue < made[0]->info().send_queues; ++queue) {
                const Bytes frame = udp_frame(queue, 100);
                const FramePieces pieces{frame.data(), nullptr, 100, 0, 0};
                EXPECT_EQ(made[0]->send_frames(queue, {}, {&pieces, 1}), 1u);
            }
            EXPECT_EQ(made[0]->info().send_queues, workers);
            EXPECT_TRUE(becomes([&] { return made[0]->counters().sent_packets == workers; }));
            ASSERT_EQ(run("ip link del left"), "");
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
        EXPECT_FALSE(wake_ups.looks());
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
        refused("af_xdp: no-such-if", "there is no network interface 'no-such-if'");
        refused("af_xdp: 'a,b'", "is no name of a network interface");
        refused("af_xdp: left, queues: 2", "receives by 1; ask for fewer, or give it more by 'ethtool -L left'");
        refused("af_xdp: left, mode: zero-copy", "'mode: copy' does without");
        refused("af_xdp: left, mode: fast", "zero-copy");
        refused("af_xdp: left, descriptors: 1", "from 64 to 262144");
        refused("af_xdp: left, layout: blocks", "layout");
        refused("af_xdp: left, max-frame: 5000", "'ip link set left mtu 3818' or less");
        refused("af_xdp: lo", "too long for AF_XDP");
        EXPECT_NE(mistake("a: { af_xdp: left }\nb: { af_packet: left }").find("interface of port 'a' already"),
                  std::string::npos);
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
