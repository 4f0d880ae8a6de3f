// Taps that stand for ports.
#include "millrace/io/stand_ins.hpp"

#include <fcntl.h>
#include <rte_ethdev.h>
#include <unistd.h>

#include "io/interfaces/cable.hpp"
#include "millrace/io/dpdk/ethdev_port.hpp"
#include "millrace/io/tap/tap_interface.hpp"

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

}  // namespace
}  // namespace millrace::io
