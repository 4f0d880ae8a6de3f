// Interfaces that Linux has and ports serve.
#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <sstream>

#include "io/interfaces/cable.hpp"
#include "millrace/io/kernel/ingress_drop.hpp"
#include "millrace/io/tap/readable_queues.hpp"
#include "millrace/io/tap/tap_interface.hpp"

namespace millrace::io {
namespace {

using namespace test;

#define NEED_TAPS() \
    if (access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/net/tun"

/// A packet socket at an interface, by which Linux' side sends.
class Sender {
public:
    explicit Sender(const char* interface) : socket_(open_packet_socket()) {
        sockaddr_ll address{};
        address.sll_family = AF_PACKET;
        address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
        EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    bool send(const Bytes& frame) const {
        return ::send(socket_.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size());
    }

private:
    Descriptor socket_;
};

TEST(TapPort, GivesTheKernelAnInterfaceAndTakesItAway) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const std::string source = "{ source: { count: 100, size: [64, 1000] } }";
        const auto made = ports("in: " + source +
                                "\na: { tap: mill0 }\nb: { af_packet: lo }\nout: { sink: { keep: 1000 } }\n");
        ASSERT_EQ(run("ip link set mill0 up"), "");
        auto watcher = ports("b: { af_packet: mill0 }\n");
        // What the tap port sends, the kernel receives on the interface; and the other way round.
        send_and_fetch(*made[0], *made[1], *watcher[0], *made[3], 100);
        expect_same_frames(dynamic_cast<SinkPort&>(*made[3]).sample(), source, 100);
        const auto back = ports("in: " + source + "\nout: { sink: { keep: 1000 } }\n");
        send_and_fetch(*back[0], *watcher[0], *made[1], *back[1], 100);
        EXPECT_EQ(dynamic_cast<SinkPort&>(*back[1]).sample().size(), 100u);
        watcher.clear();
        made[1]->close();
        EXPECT_NE(run("ip link show mill0").find("does not exist"), std::string::npos);
    });
}

TEST(TapPort, LetsLinuxSendRedirectsOnlyWhereItIsToldTo) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const auto settings = [] {
            return run("cd /proc/sys/net/ipv4/conf; cat all/send_redirects mill0/send_redirects lo/send_redirects");
        };
        ASSERT_EQ(run("echo 1 | tee /proc/sys/net/ipv4/conf/*/send_redirects > /dev/null"), "");
        {
            const auto made = ports("a: { tap: mill0, redirects: true }\n");
            EXPECT_EQ(settings(), "1\n1\n1\n") << "as they were";
        }
        const auto made = ports("a: { tap: mill0 }\n");
        EXPECT_EQ(settings(), "0\n0\n1\n") << "other interfaces keep their own";
        EXPECT_NE(mistake("a: { dpdk: net_null7, redirects: true }").find("redirects"), std::string::npos);
    });
}

TEST(TapPort, SetsTheSettingForAllBackWithTheLastTap) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const std::string file = "/proc/sys/net/ipv4/conf/all/send_redirects";
        const auto setting = [&] { return run("cat " + file); };
        for (const char* const before : {"1", "0"}) {
            ASSERT_EQ(run(std::string("echo ") + before + " > " + file), "");
            auto two = ports("a: { tap: mill0 }\nb: { tap: mill1 }\n");
            EXPECT_EQ(setting(), "0\n");
            two[0]->close();
            EXPECT_EQ(setting(), "0\n") << "there is another";
            two[1]->close();
            EXPECT_EQ(setting(), std::string(before) + "\n");
        }
        // What somebody does meanwhile counts.
        ASSERT_EQ(run("echo 1 > " + file), "");
        {
            const auto made = ports("a: { tap: mill0 }\n");
            ASSERT_EQ(run("echo 1 > " + file), "");
            ASSERT_EQ(run("echo 0 > " + file), "");
        }
        EXPECT_EQ(setting(), "1\n");
        // Another program's tap, which relies on it, as this one would.
        ASSERT_EQ(run("ip tuntap add other mode tap && echo 0 > /proc/sys/net/ipv4/conf/other/send_redirects"), "");
        {
            const auto made = ports("a: { tap: mill0 }\n");
        }
        EXPECT_EQ(setting(), "0\n");
    });
}

TEST(TapInterface, TellsOnceWhenItsKernelCannotTakeTheLinkAway) {
    IN_OWN_NETWORK([] {
        std::vector<std::string> told;
        const Descriptor none(open("/dev/null", O_RDWR | O_CLOEXEC));  // knows as little of carriers as old kernels
        TapInterface tap(
            {.interface = "mill0", .redirects = true}, none.get(), 1500,
            [&](const std::string& message, const std::string& hint) { told.push_back(message + "; " + hint); });
        const auto made = ports("a: { sink: {} }\n");
        for (int i = 0; i < 3; ++i) tap.stand_for(*made[0]);
        tap.leave();
        ASSERT_EQ(told.size(), 1u);
        EXPECT_NE(told[0].find("5.0"), std::string::npos) << told[0];
    });
}

TEST(TapPort, TakesAndGivesFramesAsLongAsItsMtu) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const std::string source = "{ source: { count: 100, size: [64, 1514, 1519, 9014] }, max-frame: 9014 }";
        const auto made = ports("in: " + source + "\na: { tap: mill0, mtu: 9000 }\nout: { sink: { keep: 1000 } }\n");
        EXPECT_EQ(find_interface("mill0").mtu, 9000u);
        ASSERT_EQ(run("ip link set mill0 up"), "");
        const auto watcher = ports("b: { af_packet: mill0 }\n");
        send_and_fetch(*made[0], *made[1], *watcher[0], *made[2], 100);
        expect_same_frames(dynamic_cast<SinkPort&>(*made[2]).sample(), source, 100);
        const auto back = ports("in: " + source + "\nout: { sink: { keep: 1000 } }\n");
        send_and_fetch(*back[0], *watcher[0], *made[1], *back[1], 100);
        expect_same_frames(dynamic_cast<SinkPort&>(*back[1]).sample(), source, 100);
        const auto longer = ports("in: { source: { count: 1, size: [9015] }, max-frame: 9100 }\n");
        rte_mbuf* packet = nullptr;
        while (longer[0]->receive(0, &packet, 1) == 0) {
        }
        EXPECT_EQ(made[1]->send(0, &packet, 1), 1u);
        EXPECT_EQ(made[1]->counters().drops["over-mtu"], 1u);
        EXPECT_EQ(made[1]->counters().sent_packets, 100u);
    });
}

TEST(TapPort, GivesEachQueueItsFlowsInOrder) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const auto made = ports("a: { tap: mill0, queues: 4 }\n");
        EXPECT_EQ(made[0]->info().receive_queues, 4);
        const Sender linux_side("mill0");
        constexpr uint16_t kFlows = 64;
        constexpr uint32_t kPackets = 10;
        for (uint32_t i = 0; i < kPackets; ++i)
            for (uint16_t flow = 0; flow < kFlows; ++flow)
                ASSERT_TRUE(linux_side.send(udp_frame(i, 100, static_cast<uint16_t>(1000 + flow))));
        std::vector<uint16_t> queues;
        const auto frames = fetch_frames(*made[0], kFlows * kPackets, &queues);
        ASSERT_EQ(frames.size(), kFlows * kPackets);
        EXPECT_GT(*std::ranges::max_element(queues), 0) << "flows are spread";
        std::map<uint16_t, uint32_t> next;
        for (const auto& frame : frames) EXPECT_EQ(load_be32(&frame[42]), next[load_be16(&frame[34])]++);
    });
}

TEST(TapPort, CountsWhatLinuxLosesAndWhatIsTooLongOrTooShort) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const auto made = ports("a: { tap: mill0, descriptors: 32, mtu: 1000 }\nout: { sink: {} }\n");
        Port& tap = *made[0];
        const Sender linux_side("mill0");
        uint64_t lost = 0;
        for (uint32_t i = 0; i < 100; ++i) linux_side.send(udp_frame(i, 100));
        ASSERT_TRUE(becomes([&] { return (lost = drops(tap, PortDrop::missed)) > 0; }));
        EXPECT_EQ(fetch_frames(tap, 100 - lost).size(), 100 - lost) << "received = " << 100 - lost;
        // Somebody gives it a longer MTU than it has room for.
        ASSERT_EQ(run("ip link set mill0 mtu 2000"), "");
        ASSERT_TRUE(linux_side.send(udp_frame(1, 1014 + 8)));
        ASSERT_TRUE(linux_side.send(udp_frame(2, 1014 + 9)));
        ASSERT_TRUE(linux_side.send(udp_frame(3, 100)));
        EXPECT_EQ(fetch_frames(tap, 2).size(), 2u);
        EXPECT_EQ(drops(tap, PortDrop::too_long), 1u);
        EXPECT_EQ(drops(tap, PortDrop::missed), lost) << "that was not lost by Linux";
        EXPECT_EQ(tap.counters().received_packets, 102 - lost);
        ASSERT_EQ(run("ip link del mill0"), "");
        EXPECT_EQ(drops(tap, PortDrop::missed), lost) << "though nobody can be asked any more";
    });
}

TEST(TapPort, LeavesWithLinuxWhatFindsNoBuffer) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const auto made = ports("a: { tap: mill0, buffers: 64 }\n");
        const Sender linux_side("mill0");
        for (uint32_t i = 0; i < 200; ++i) ASSERT_TRUE(linux_side.send(udp_frame(i, 100)));
        std::vector<rte_mbuf*> held(200);
        uint16_t n = 0;
        ASSERT_TRUE(becomes([&] {
            n = static_cast<uint16_t>(n + made[0]->receive(0, &held[n], static_cast<uint16_t>(200 - n)));
            return n >= 63 && made[0]->counters().details["pool-empty"] > 0;
        }));
        EXPECT_LE(n, 64);
        rte_pktmbuf_free_bulk(held.data(), n);
        const auto rest = fetch_frames(*made[0], 200u - n);
        ASSERT_EQ(rest.size(), 200u - n) << "nothing is lost, though nobody tells of it once more";
        for (size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(load_be32(&rest[i][42]), n + i);
    });
}

TEST(TapPort, DropsByNameWhatIsSentWhileItIsDownOrGone) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const auto made = ports("in: { source: { count: 3 } }\na: { tap: mill0 }\n");
        rte_mbuf* packets[3];
        uint16_t n = 0;
        while (n < 3) n = static_cast<uint16_t>(n + made[0]->receive(0, packets + n, static_cast<uint16_t>(3 - n)));
        EXPECT_EQ(made[1]->send(0, packets, 1), 1);
        ASSERT_EQ(run("ip link set mill0 down"), "");
        EXPECT_EQ(made[1]->send(0, packets + 1, 1), 1);
        EXPECT_EQ(drops(*made[1], PortDrop::link_down), 1u);
        ASSERT_EQ(run("ip link del mill0"), "");
        EXPECT_TRUE(becomes([&] { return !made[1]->link().up; }));
        EXPECT_EQ(made[1]->send(0, packets + 2, 1), 1);
        EXPECT_EQ(drops(*made[1], PortDrop::link_down), 2u);
        EXPECT_EQ(made[1]->receive(0, packets, 3), 0);
        EXPECT_EQ(made[1]->counters().sent_packets, 1u);
    });
}

TEST(TapPort, ServesAnInterfaceThatStaysAndRefusesWhatIsNone) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run("ip tuntap add mill0 mode tap && ip link add left type veth peer name right"), "");
        {
            const auto made = ports("a: { tap: mill0 }\n");
            EXPECT_NE(mistake("b: { tap: mill0 }").find("served by another program"), std::string::npos);
            EXPECT_NE(mistake("b: { tap: left }").find("no tap"), std::string::npos);
            EXPECT_NE(mistake("b: { tap: mill0, promiscuous: true }").find("promiscuous"), std::string::npos);
        }
        EXPECT_NE(find_interface("mill0").index, 0);
    });
}

TEST(TapPort, OneRunMayHaveAHundred) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        constexpr int kTaps = 100;
        std::string all;
        for (int i = 0; i < kTaps; ++i)
            all += "t" + std::to_string(i) + ": { tap: mill" + std::to_string(i) + ", buffers: 64 }\n";
        const auto made = ports(all);
        for (int i = 0; i < kTaps; ++i) {
            const Sender linux_side(("mill" + std::to_string(i)).c_str());
            ASSERT_TRUE(linux_side.send(udp_frame(static_cast<uint32_t>(i), 60)));
        }
        for (int i = 0; i < kTaps; ++i) {
            const auto frames = fetch_frames(*made[static_cast<size_t>(i)], 1);
            ASSERT_EQ(frames.size(), 1u) << i;
            EXPECT_EQ(load_be32(&frames[0][42]), static_cast<uint32_t>(i));
        }
    });
}

TEST(ReadableQueues, TellOnceAndAgainBehindEmptiness) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    const Descriptor from(ends[0]), to(ends[1]);
    ReadableQueues queues({from.get()});
    const auto is_told = [&] { return queues.take(0); };
    const auto put = [&] { return write(to.get(), "x", 1) == 1; };
    char read_byte = 0;
    EXPECT_FALSE(queues.take(0));
    ASSERT_TRUE(put());
    EXPECT_TRUE(becomes(is_told));
    ASSERT_TRUE(put());
    usleep(20'000);
    EXPECT_FALSE(queues.take(0)) << "it is still to be read until it is empty";
    for (int i = 0; i < 2; ++i) ASSERT_EQ(read(from.get(), &read_byte, 1), 1);
    // What comes between the last look and this is told, too.
    ASSERT_TRUE(put());
    queues.is_empty(0);
    EXPECT_TRUE(becomes(is_told));
    ASSERT_EQ(read(from.get(), &read_byte, 1), 1);
    queues.is_empty(0);
    usleep(20'000);
    EXPECT_FALSE(queues.take(0));
}

TEST(IngressDrop, KeepsFramesFromLinuxWhilePortsHaveThem) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(std::string(kCable) + " && ip address add 10.0.0.2/24 dev left"), "");
        const auto heard = [] {  // packets that Linux' IP has had
            std::istringstream snmp(run("grep ^Ip: /proc/net/snmp | tail -1"));
            std::string word;
            for (int i = 0; i < 4; ++i) snmp >> word;
            return std::stoull(word);
        };
        const Sender other_end("right");
        Bytes frame = udp_frame(1, 100);
        const auto own = find_interface("left").mac;
        std::copy(own.begin(), own.end(), frame.begin());
        const uint64_t before = heard();
        ASSERT_TRUE(other_end.send(frame));
        ASSERT_TRUE(becomes([&] { return heard() == before + 1; })) << "Linux hears it without";
        {
            const auto made = ports("p: { af_packet: left, linux: tap0 }\n");
            EXPECT_FALSE(made[0]->linux_hears());
            ASSERT_TRUE(other_end.send(frame));
            EXPECT_EQ(fetch_frames(*made[0], 1).size(), 1u);
            usleep(50'000);
            EXPECT_EQ(heard(), before + 1) << "nor does Linux hear it";
        }
        ASSERT_TRUE(other_end.send(frame));
        EXPECT_TRUE(becomes([&] { return heard() == before + 2; })) << "Linux has it back";
    });
}

}  // namespace
}  // namespace millrace::io
