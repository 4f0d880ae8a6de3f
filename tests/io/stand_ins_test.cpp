// Taps that stand for ports.
#include "millrace/io/stand_ins.hpp"

#include <fcntl.h>
#include <rte_ethdev.h>
#include <unistd.h>

#include "io/cable.hpp"
#include "millrace/io/dpdk/ethdev_port.hpp"
#include "millrace/io/kernel/tap_interface.hpp"

namespace millrace::io {
namespace {

using namespace test;

constexpr const char* kEnds =
    "ip link add left type veth peer name right && ip link set left address 02:00:00:00:00:0a && "
    "ip link set left up && ip link set right up";
const std::array<uint8_t, 6> kLeft{2, 0, 0, 0, 0, 10}, kNext{2, 0, 0, 0, 0, 11};

/// As the kernel has it.
Interface mill() { return find_interface("mill0"); }
bool carrier(const char* interface) {
    return run(std::string("ip link show ") + interface).find("LOWER_UP") != std::string::npos;
}

/// Port 0 is a tap that stands for port 1.
struct Pair {
    explicit Pair(const std::string& tap = "", const std::string& port = "af_packet: left") {
        PortEnvironment environment;
        environment.stand_ins = {{"mill0", 1}};
        made = ports("tap: { tap: mill0" + tap + " }\nport: { " + port + " }\n", environment);
        stand_ins = std::make_unique<StandIns>(made);
        stand_ins->follow({{"mill0", 1}});
    }
    std::vector<std::unique_ptr<Port>> made;
    std::unique_ptr<StandIns> stand_ins;
};

#define NEED_TAPS() \
    if (access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/net/tun"

TEST(StandIns, HaveTheirPortsMtuFromTheStartAndAsItChanges) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(std::string(kEnds) + " && ip link set left mtu 4000"), "");
        const Pair pair;
        EXPECT_EQ(mill().mtu, 4000u);
        ASSERT_EQ(run("ip link set left mtu 1300"), "");
        EXPECT_TRUE(becomes([] { return mill().mtu == 1300; }));
        EXPECT_TRUE(becomes([&] { return pair.made[0]->mtu() == 1300; }));
        ASSERT_EQ(run("ip link set left mtu 3000"), "");
        EXPECT_TRUE(becomes([] { return mill().mtu == 3000; }));
        ASSERT_EQ(run("ip link set left mtu 9000"), "");
        EXPECT_TRUE(becomes([] { return mill().mtu == 4000; })) << "there is no room for more";
        EXPECT_TRUE(becomes([&] { return pair.made[0]->counters().details["mtu-changes"] >= 3; }));
    });
}

TEST(StandIns, KeepALowerMtuThatSomebodyGaveThem) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kEnds), "");
        const Pair pair(", mtu: 1400");
        EXPECT_EQ(mill().mtu, 1400u);
        ASSERT_EQ(run("ip link set mill0 mtu 1200 && ip link set left down && ip link set left up"), "");
        ASSERT_TRUE(becomes([&] { return pair.made[1]->link().up; }));
        usleep(50'000);
        EXPECT_EQ(mill().mtu, 1200u);
        ASSERT_EQ(run("ip link set mill0 mtu 1450"), "");
        EXPECT_TRUE(becomes([] { return mill().mtu == 1400; }));
    });
}

TEST(StandIns, HaveACarrierWhileTheirPortHasALink) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(std::string(kEnds) + " && ip link set right down"), "");
        const Pair pair;
        ASSERT_EQ(run("ip link set mill0 up"), "");
        EXPECT_TRUE(becomes([] { return !carrier("mill0"); })) << "from the start";
        for (int turn = 0; turn < 100; ++turn) {
            ASSERT_EQ(run("ip link set right up"), "");
            if (turn % 10 == 9) {
                ASSERT_TRUE(becomes([] { return carrier("mill0"); }));
            }
            ASSERT_EQ(run("ip link set right down"), "");
        }
        EXPECT_TRUE(becomes([] { return !carrier("mill0"); }));
        EXPECT_TRUE(becomes([&] { return !pair.made[0]->link().up; }));
        ASSERT_EQ(run("ip link set right up && ip link set mill0 down && ip link set mill0 up"), "");
        EXPECT_TRUE(becomes([] { return carrier("mill0"); }));
        EXPECT_TRUE(becomes([&] { return pair.made[0]->link().up; }));
        EXPECT_GE(pair.made[1]->counters().details["link-changes"], 2u);
    });
}

TEST(StandIns, HaveTheirPortsMacWhereThatIsWanted) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kEnds), "");
        for (const auto& [tap, port, same] : {std::tuple{"", "af_packet: left", false},
                                              {", mac: port", "af_packet: left", true},
                                              {"", "af_xdp: left", true},
                                              {", mac: own", "af_xdp: left", false}}) {
            const Pair pair(tap, port);
            EXPECT_EQ(mill().mac == kLeft, same) << port << tap;
            EXPECT_TRUE(becomes([&] { return pair.made[0]->mac() == mill().mac; }));
            ASSERT_EQ(run("ip link set left address 02:00:00:00:00:0b"), "");
            EXPECT_TRUE(becomes([&] { return pair.made[1]->mac() == kNext; }));
            if (same) {
                EXPECT_TRUE(becomes([&] { return mill().mac == kNext && pair.made[0]->mac() == kNext; }));
            }
            ASSERT_EQ(run("ip link set left address 02:00:00:00:00:0a"), "");
        }
    });
}

TEST(StandIns, FollowPortsThatTellNothing) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        const Pair pair("", "dpdk: net_ring_stand");
        ASSERT_EQ(run("ip link set mill0 up"), "");
        const uint16_t device = dynamic_cast<EthdevPort&>(*pair.made[1]).device();
        for (int turn = 0; turn < 2; ++turn) {
            ASSERT_EQ(rte_eth_dev_set_link_down(device), 0);
            EXPECT_TRUE(becomes([] { return !carrier("mill0"); }));
            ASSERT_EQ(rte_eth_dev_set_link_up(device), 0);
            EXPECT_TRUE(becomes([] { return carrier("mill0"); }));
        }
    });
}

TEST(StandIns, LeaveRoutesOutWhoseLinkIsDown) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kEnds), "");
        const Pair pair;
        EXPECT_EQ(run("cat /proc/sys/net/ipv4/conf/mill0/ignore_routes_with_linkdown"), "1\n");
        EXPECT_EQ(run("cat /proc/sys/net/ipv6/conf/mill0/ignore_routes_with_linkdown"), "1\n");
    });
}

TEST(StandIns, LeaveATapAsItIsThatStandsForNothing) {
    NEED_TAPS();
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kEnds), "");
        const auto made = ports("tap: { tap: mill0 }\nport: { af_packet: left }\n");
        StandIns stand_ins(made);
        stand_ins.follow({{"left", 1}, {"other", 0}});
        ASSERT_EQ(run("ip link set mill0 up && ip link set left mtu 1300 && ip link set right down"), "");
        EXPECT_TRUE(becomes([&] { return !made[1]->link().up && made[1]->mtu() == 1300; }));
        usleep(50'000);
        EXPECT_EQ(mill().mtu, 1500u);
        EXPECT_TRUE(carrier("mill0"));
        stand_ins.follow({{"mill0", 1}});
        EXPECT_EQ(mill().mtu, 1300u) << "until it does";
        EXPECT_TRUE(becomes([] { return !carrier("mill0"); }));
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
        EXPECT_EQ(mill().mtu, 9000u);
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

}  // namespace
}  // namespace millrace::io
