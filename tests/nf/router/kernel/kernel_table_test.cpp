#include "millrace/nf/router/kernel/kernel_table.hpp"

#include "nf/router/kernel/table_tester.hpp"

namespace millrace::nf::router {
namespace {

using Place = RouteMessage::Place;

RouteMessage connected(const std::string& prefix, uint32_t interface) { return route_of(prefix, {hop_of(interface)}); }
RouteMessage via(const std::string& prefix, const std::string& gateway, uint32_t interface = 2, uint32_t metric = 0) {
    return route_of(prefix, {hop_of(interface, gateway)}, metric);
}

TEST(KernelTable, KnowsNothingAtFirst) {
    TableTester t;
    EXPECT_EQ(t.to("192.0.2.1"), "no-route");
    EXPECT_EQ(t.to("2001:db8::1"), "no-route");
    EXPECT_TRUE(t.table().lpm4().root().empty()) << "no routes, no memory";
}

TEST(KernelTable, PuntsForNeighboursUntilTheyAreKnown) {
    TableTester t;
    t.add(connected("10.0.0.0/24", 1));
    EXPECT_EQ(t.to("10.0.0.7"), "no-neighbour");
    t.neighbour(1, "10.0.0.7", 0, NUD_INCOMPLETE);
    EXPECT_EQ(t.to("10.0.0.7"), "no-neighbour");
    t.neighbour(1, "10.0.0.7", 17);
    EXPECT_EQ(t.to("10.0.0.7"), "0:17");
    EXPECT_EQ(t.to("10.0.0.8"), "no-neighbour");
    for (const uint16_t state : {NUD_STALE, NUD_DELAY, NUD_PROBE, NUD_PERMANENT, NUD_NOARP}) {
        t.neighbour(1, "10.0.0.7", 18, state);
        EXPECT_EQ(t.to("10.0.0.7"), "0:18") << state;
    }
    t.neighbour(1, "10.0.0.7", 18, NUD_FAILED);
    EXPECT_EQ(t.to("10.0.0.7"), "no-neighbour");
    t.neighbour(1, "10.0.0.7", 19);
    EXPECT_EQ(t.to("10.0.0.7"), "0:19");
    t.lose(1, "10.0.0.7");
    EXPECT_EQ(t.to("10.0.0.7"), "no-neighbour");
}

TEST(KernelTable, TakesNeighboursOnlyWhereTheRouteLeads) {
    TableTester t;
    t.neighbour(1, "10.0.0.7", 17);
    EXPECT_EQ(t.to("10.0.0.7"), "no-route") << "there is no route to it";
    t.add(connected("10.0.0.0/24", 2));
    EXPECT_EQ(t.to("10.0.0.7"), "no-neighbour") << "the route leads to the other interface";
    t.add(connected("10.0.0.0/25", 1));
    EXPECT_EQ(t.to("10.0.0.7"), "0:17");
    t.add(via("10.0.0.0/28", "10.1.0.1"));
    EXPECT_EQ(t.to("10.0.0.7"), "no-neighbour") << "by a gateway that is not known";
    t.add(connected("10.0.0.7/32", 1));
    EXPECT_EQ(t.to("10.0.0.7"), "0:17") << "a route to the neighbour itself";
    t.remove(connected("10.0.0.7/32", 1));
    EXPECT_EQ(t.to("10.0.0.7"), "no-neighbour");
    t.remove(via("10.0.0.0/28", "10.1.0.1"));
    EXPECT_EQ(t.to("10.0.0.7"), "0:17");
    t.remove(connected("10.0.0.0/25", 1));
    EXPECT_EQ(t.to("10.0.0.7"), "no-neighbour");
}

TEST(KernelTable, KeepsAddressesOfTheHostWhateverNeighboursThereAre) {
    TableTester t;
    t.add(connected("10.0.0.0/24", 1));
    t.neighbour(1, "10.0.0.1", 17);
    t.add(route_of("10.0.0.1/32", {hop_of(1)}, 0, RTN_LOCAL, 255));
    t.add(route_of("10.0.0.255/32", {hop_of(1)}, 0, RTN_BROADCAST, 255));
    EXPECT_EQ(t.to("10.0.0.1"), "local");
    EXPECT_EQ(t.to("10.0.0.255"), "local");
    t.add(via("10.0.0.1/32", "10.0.0.9", 1));
    EXPECT_EQ(t.to("10.0.0.1"), "local") << "table 255 comes first";
    t.remove(route_of("10.0.0.1/32", {hop_of(1)}, 0, RTN_LOCAL, 255));
    EXPECT_EQ(t.to("10.0.0.1"), "no-neighbour");
}

TEST(KernelTable, SendsByGatewaysOnceTheyAreKnown) {
    TableTester t;
    t.add(connected("10.1.0.0/24", 2));
    t.add(via("0.0.0.0/0", "10.1.0.1"));
    EXPECT_EQ(t.to("192.0.2.1"), "no-neighbour");
    t.neighbour(2, "10.1.0.1", 17);
    EXPECT_EQ(t.to("192.0.2.1"), "1:17");
    EXPECT_EQ(t.to("10.1.0.1"), "1:17");
    const uint64_t lookup = t.table().lpm4().version();
    t.neighbour(2, "10.1.0.1", 18);
    EXPECT_EQ(t.to("192.0.2.1"), "1:18");
    EXPECT_EQ(t.table().lpm4().version(), lookup) << "the lookup tables stay as they are";
}

TEST(KernelTable, TakesTheLeastMetricThenTheKernelsOrder) {
    TableTester t;
    for (uint8_t i = 1; i <= 5; ++i) t.neighbour(2, "10.1.0." + std::to_string(i), i);
    t.add(via("192.0.2.0/24", "10.1.0.2", 2, 20));
    t.add(via("192.0.2.0/24", "10.1.0.3", 2, 30));
    EXPECT_EQ(t.to("192.0.2.9"), "1:2");
    t.add(via("192.0.2.0/24", "10.1.0.1", 2, 10));
    EXPECT_EQ(t.to("192.0.2.9"), "1:1");
    t.add(via("192.0.2.0/24", "10.1.0.4", 2, 10), Place::back);
    EXPECT_EQ(t.to("192.0.2.9"), "1:1") << "appended";
    t.add(via("192.0.2.0/24", "10.1.0.5", 2, 10), Place::front);
    EXPECT_EQ(t.to("192.0.2.9"), "1:5") << "put in front";
    t.remove(via("192.0.2.0/24", "10.1.0.5", 2, 10));
    EXPECT_EQ(t.to("192.0.2.9"), "1:1");
    t.add(via("192.0.2.0/24", "10.1.0.5", 2, 10), Place::replace);
    EXPECT_EQ(t.to("192.0.2.9"), "1:5") << "the first is replaced";
    t.remove(via("192.0.2.0/24", "10.1.0.5", 2, 10));
    EXPECT_EQ(t.to("192.0.2.9"), "1:4");
    t.remove(via("192.0.2.0/24", "10.1.0.4", 2, 10));
    t.remove(via("192.0.2.0/24", "10.1.0.2", 2, 20));
    EXPECT_EQ(t.to("192.0.2.9"), "1:3");
    EXPECT_EQ(t.table().routes(), 1u);
    t.remove(via("192.0.2.0/24", "10.1.0.3", 2, 30));
    EXPECT_EQ(t.to("192.0.2.9"), "no-route");
    EXPECT_EQ(t.table().routes(), 0u);
}

TEST(KernelTable, TakesWhatIsToldTwiceOnce) {
    TableTester t;
    t.add(via("192.0.2.0/24", "10.1.0.2"));
    t.add(via("192.0.2.0/24", "10.1.0.2"));
    EXPECT_EQ(t.table().routes(), 1u);
    t.remove(via("192.0.2.0/24", "10.1.0.2"));
    t.remove(via("192.0.2.0/24", "10.1.0.2"));
    EXPECT_EQ(t.table().routes(), 0u);
    EXPECT_EQ(t.to("192.0.2.9"), "no-route");
}

TEST(KernelTable, LeavesToTheKernelWhatItCannotDo) {
    TableTester t;
    t.neighbour(3, "10.9.0.1", 17);
    t.neighbour(2, "10.1.0.1", 18);
    t.add(via("192.0.2.0/24", "10.9.0.1", 3));
    EXPECT_EQ(t.to("192.0.2.1"), "kernel") << "no port stands for that interface";
    t.add(connected("10.9.0.0/24", 3));
    EXPECT_EQ(t.to("10.9.0.1"), "kernel");
    const std::pair<uint8_t, const char*> types[] = {{RTN_UNREACHABLE, "kernel"},
                                                     {RTN_PROHIBIT, "kernel"},
                                                     {RTN_THROW, "kernel"},
                                                     {RTN_BLACKHOLE, "no-route"},
                                                     {RTN_ANYCAST, "local"}};
    for (const auto& [type, outcome] : types) {
        t.add(route_of("198.51.100.0/24", {}, 0, type));
        EXPECT_EQ(t.to("198.51.100.1"), outcome) << unsigned{type};
        t.remove(route_of("198.51.100.0/24", {}, 0, type));
        EXPECT_EQ(t.to("198.51.100.1"), "no-route") << unsigned{type};
    }
    RouteMessage wrapped = via("198.51.100.0/24", "10.1.0.1");
    wrapped.encapsulated = true;
    t.add(wrapped);
    EXPECT_EQ(t.to("198.51.100.1"), "kernel");
    t.remove(wrapped);
    RouteMessage object = route_of("198.51.100.0/24", {});
    object.nexthop_object = 5;
    t.add(object);
    EXPECT_EQ(t.to("198.51.100.1"), "kernel") << "an object that is not known";
    EXPECT_TRUE(t.warnings.empty());
    EXPECT_EQ(t.to("203.0.113.1"), "no-route");
}

TEST(KernelTable, LeavesOutOtherTablesGroupsAndTypesOfService) {
    TableTester t;
    t.add(route_of("192.0.2.0/24", {hop_of(1)}, 0, RTN_UNICAST, 1000));
    t.add(route_of("224.0.0.0/4", {hop_of(1)}, 0, RTN_MULTICAST));
    RouteMessage tos = connected("192.0.2.0/24", 1);
    tos.tos = 8;
    t.add(tos);
    EXPECT_EQ(t.table().routes(), 0u);
    EXPECT_EQ(t.warnings.size(), 1u);
    TableTester other(1000);
    other.add(route_of("192.0.2.0/24", {hop_of(1)}, 0, RTN_UNICAST, 1000));
    other.add(connected("198.51.100.0/24", 1));
    EXPECT_EQ(other.to("192.0.2.1"), "no-neighbour");
    EXPECT_EQ(other.to("198.51.100.1"), "no-route");
}

TEST(KernelTable, SharesTrafficByWeightAmongHopsThatAreKnown) {
    TableTester t;
    const RouteMessage shared = route_of("192.0.2.0/24", {hop_of(1, "10.0.0.1", 4), hop_of(2, "10.1.0.1", 2)});
    t.add(shared);
    EXPECT_EQ(t.to("192.0.2.1"), "no-neighbour");
    t.neighbour(2, "10.1.0.1", 18);
    EXPECT_EQ(t.to("192.0.2.1"), "1:18");
    t.neighbour(1, "10.0.0.1", 17);
    EXPECT_EQ(t.to("192.0.2.1"), "0:17 0:17 1:18");
    t.link(1, "lan0", false);
    EXPECT_EQ(t.to("192.0.2.1"), "1:18") << "the other is down";
    t.link(1, "lan0", true);
    EXPECT_EQ(t.to("192.0.2.1"), "0:17 0:17 1:18");
    t.add(route_of("192.0.2.0/25", {hop_of(1, "10.0.0.1"), hop_of(3, "10.9.0.1")}));
    EXPECT_EQ(t.to("192.0.2.1"), "kernel") << "a share of it leaves where no port is";
    t.add(
        route_of("192.0.2.0/26", {hop_of(1, "10.0.0.1", 256), hop_of(2, "10.1.0.1", 255), hop_of(2, "10.1.0.1", 256)}));
    EXPECT_LT(t.to("192.0.2.1").size(), 520 * 5u) << "a group's size is limited";
}

TEST(KernelTable, FollowsHopsOfIpv6RoutesThatComeAndGoOneByOne) {
    TableTester t;
    t.neighbour(2, "2001:db8::2", 2);
    t.neighbour(2, "fe80::3", 3);
    const RouteHop two = hop_of(2, "2001:db8::2"), three = hop_of(2, "fe80::3");
    t.add(route_of("2001:db8:1::/48", {two}, 1024));
    EXPECT_EQ(t.to("2001:db8:1::1"), "1:2");
    t.add(route_of("2001:db8:1::/48", {three, two}, 1024), Place::back);
    EXPECT_EQ(t.to("2001:db8:1::1"), "1:3 1:2");
    EXPECT_EQ(t.table().routes(), 1u);
    t.remove(route_of("2001:db8:1::/48", {two}, 1024));
    EXPECT_EQ(t.to("2001:db8:1::1"), "1:3");
    t.remove(route_of("2001:db8:1::/48", {three}, 1024));
    EXPECT_EQ(t.to("2001:db8:1::1"), "no-route");
}

TEST(KernelTable, TreatsIpv6Alike) {
    TableTester t;
    t.add(connected("2001:db8::/64", 1));
    t.add(route_of("2001:db8::1/128", {hop_of(1)}, 0, RTN_LOCAL, 255));
    t.add(via("::/0", "fe80::9"));
    t.neighbour(1, "2001:db8::7", 17);
    t.neighbour(2, "fe80::9", 18);
    EXPECT_EQ(t.to("2001:db8::7"), "0:17");
    EXPECT_EQ(t.to("2001:db8::8"), "no-neighbour");
    EXPECT_EQ(t.to("2001:db8::1"), "local");
    EXPECT_EQ(t.to("2001:db8:1::1"), "1:18");
    t.add(via("198.51.100.0/24", "fe80::9"));
    EXPECT_EQ(t.to("198.51.100.1"), "1:18") << "IPv4 by an IPv6 gateway";
}

TEST(KernelTable, LetsRoutesGoWithTheirLink) {
    TableTester t;
    for (uint8_t i = 1; i <= 2; ++i) t.neighbour(i, "10.0.0." + std::to_string(i), i);
    t.add(connected("10.0.0.0/24", 1));
    t.add(via("192.0.2.0/24", "10.0.0.1", 1, 10));
    t.add(via("192.0.2.0/24", "10.0.0.2", 2, 20));
    EXPECT_FALSE(t.table().take_resync_wanted());
    EXPECT_EQ(t.to("192.0.2.1"), "0:1");
    t.link(1, "lan0", false);
    EXPECT_TRUE(t.table().take_resync_wanted());
    EXPECT_EQ(t.to("192.0.2.1"), "1:2");
    EXPECT_EQ(t.to("10.0.0.1"), "no-route");
    EXPECT_EQ(t.table().routes(), 1u);
    t.link(1, "lan0", true);
    EXPECT_TRUE(t.table().take_resync_wanted()) << "the kernel may have got routes back";
    t.link(3, "eth9", false);
    EXPECT_FALSE(t.table().take_resync_wanted());
    LinkMessage gone;
    gone.gone = true;
    gone.index = 2;
    gone.name = "wan0";
    t.table().on_link(gone);
    EXPECT_EQ(t.to("192.0.2.1"), "no-route");
}

TEST(KernelTable, LeavesOutRoutesOfPortsWithoutCarrier) {
    TableTester t;
    const auto carrier = [&](uint32_t index, bool there) {
        t.link(index, index == 1 ? "lan0" : "wan0", true, 1500, there);
    };
    for (uint8_t i = 1; i <= 2; ++i) t.neighbour(i, "10.0.0." + std::to_string(i), i);
    t.add(route_of("198.51.100.0/24", {hop_of(1, "10.0.0.1"), hop_of(2, "10.0.0.2")}));
    t.add(via("192.0.2.0/24", "10.0.0.1", 1, 10));
    t.add(via("192.0.2.0/24", "10.0.0.2", 2, 20));
    t.add(route_of("203.0.113.0/24", {hop_of(3, "10.9.0.1")}));
    t.add(route_of("10.0.0.9/32", {hop_of(1)}, 0, RTN_LOCAL, 255));
    EXPECT_EQ(t.to("198.51.100.1"), "0:1 1:2");
    carrier(1, false);
    EXPECT_TRUE(t.table().take_resync_wanted());
    EXPECT_EQ(t.to("198.51.100.1"), "1:2") << "the other one of the group";
    EXPECT_EQ(t.to("192.0.2.1"), "1:2") << "the route behind it";
    // The kernel has it still, and tells of it again.
    t.add(via("192.0.2.0/24", "10.0.0.1", 1, 10));
    EXPECT_EQ(t.to("192.0.2.1"), "1:2");
    t.add(via("192.0.2.0/24", "10.0.0.1", 1, 20), Place::replace);
    EXPECT_EQ(t.to("192.0.2.1"), "no-route") << "in place of the other one";
    EXPECT_EQ(t.to("10.0.0.9"), "local");
    carrier(1, true);
    EXPECT_TRUE(t.table().take_resync_wanted());
    EXPECT_EQ(t.to("198.51.100.1"), "0:1 1:2");
    t.add(via("192.0.2.0/24", "10.0.0.1", 1, 10));
    EXPECT_EQ(t.to("192.0.2.1"), "0:1");
    t.link(3, "eth9", true, 1500, false);
    EXPECT_EQ(t.to("203.0.113.1"), "kernel") << "what becomes of it is the kernel's to say";
    EXPECT_FALSE(t.table().take_resync_wanted());
    EXPECT_TRUE(t.table().forwarding().port_macs.at(0).is_known);
}

TEST(KernelTable, FollowsNamesAddressesAndMtusOfLinks) {
    TableTester t;
    t.add(via("192.0.2.0/24", "10.1.0.1"));
    t.neighbour(2, "10.1.0.1", 17);
    EXPECT_EQ(t.table().forwarding().next_hops.at(0).mtu, 1500);
    EXPECT_EQ(t.table().forwarding().names.at(0), "10.1.0.1 on wan0");
    t.link(2, "wan0", true, 9000);
    EXPECT_EQ(t.table().forwarding().next_hops.at(0).mtu, 9000);
    t.link(2, "wan0", true, 100000);
    EXPECT_EQ(t.table().forwarding().next_hops.at(0).mtu, 0) << "no packet is longer";
    t.link(2, "old");
    EXPECT_EQ(t.to("192.0.2.1"), "kernel");
    t.add(connected("10.2.0.0/24", 2));
    t.neighbour(2, "10.2.0.1", 18);
    EXPECT_EQ(t.to("10.2.0.1"), "kernel");
    t.link(2, "wan0");
    EXPECT_EQ(t.to("192.0.2.1"), "1:17");
    EXPECT_EQ(t.to("10.2.0.1"), "1:18");
}

TEST(KernelTable, ForgetsAtAResyncWhatIsNotToldAgain) {
    TableTester t;
    t.add(connected("10.0.0.0/24", 1));
    t.add(connected("10.1.0.0/24", 2));
    t.neighbour(1, "10.0.0.1", 1);
    t.neighbour(1, "10.0.0.2", 2);
    t.table().begin_resync();
    for (uint32_t i = 1; i <= 3; ++i) t.link(i, std::array{"", "lan0", "wan0", "eth9"}[i]);
    t.add(connected("10.0.0.0/24", 1), Place::back);
    t.neighbour(1, "10.0.0.1", 1);
    EXPECT_EQ(t.to("10.0.0.2"), "0:2") << "until the end";
    t.table().end_resync();
    EXPECT_EQ(t.to("10.0.0.1"), "0:1");
    EXPECT_EQ(t.to("10.0.0.2"), "no-neighbour");
    EXPECT_EQ(t.to("10.1.0.1"), "no-route");
    EXPECT_EQ(t.table().routes(), 1u);
    EXPECT_EQ(t.table().resolved_neighbours(), 1u);
}

TEST(KernelTable, AsksForGatewaysAndForNeighboursNotHeardOfForLong) {
    TableTester t;
    EXPECT_TRUE(t.table().questions(100, 10).empty());
    t.add(route_of("192.0.2.0/24", {hop_of(1, "10.0.0.1"), hop_of(2, "10.1.0.1"), hop_of(3, "10.9.0.1")}));
    t.neighbour(1, "10.0.0.1", 1);
    t.neighbour(2, "10.1.0.9", 9, NUD_STALE);
    const auto asked = t.table().questions(100, 10);
    ASSERT_EQ(asked.size(), 2u);
    EXPECT_EQ(asked[0], (NeighbourKey{address_of("10.1.0.9"), 2}));
    EXPECT_EQ(asked[1], (NeighbourKey{address_of("10.1.0.1"), 2}));
    EXPECT_TRUE(t.table().questions(104, 10).empty());
    EXPECT_EQ(t.table().questions(105, 1).size(), 1u) << "no more at once than are wanted";
    EXPECT_EQ(t.table().questions(105, 10).size(), 1u);
    t.neighbour(2, "10.1.0.1", 8);
    t.neighbour(2, "10.1.0.9", 9);
    EXPECT_TRUE(t.table().questions(200, 10).empty());
}

TEST(KernelTable, PuntsBeyondItsLimits) {
    TableTester t;
    t.add(connected("10.0.0.0/8", 1));
    const size_t most = kMaxTargets - Ways::kFixed - 1;  // the connected route has a way of its own
    for (size_t i = 0; i <= most; ++i) {
        const std::string address = "10.0." + std::to_string(i / 250) + "." + std::to_string(1 + i % 250);
        t.neighbour(1, address, 17);
    }
    EXPECT_EQ(t.warnings.size(), 1u);
    EXPECT_EQ(t.to("10.0.0.1"), "0:17");
    const size_t last = most;
    EXPECT_EQ(t.to("10.0." + std::to_string(last / 250) + "." + std::to_string(1 + last % 250)), "kernel");
    t.lose(1, "10.0.0.1");
    t.add(via("192.0.2.0/24", "10.0.0.2", 1));
    EXPECT_EQ(t.to("192.0.2.1"), "0:17") << "a number that came free serves again";
}

TEST(KernelTable, PuntsSlash24sWhoseLongerPrefixesFindNoRoom) {
    TableTester t;
    t.neighbour(2, "10.1.0.1", 18);
    t.add(via("0.0.0.0/0", "10.1.0.1"));
    for (uint32_t i = 0; i < kIpv4Group + 2; ++i)
        t.add(via("20." + std::to_string(i >> 8) + "." + std::to_string(i & 255) + ".0/25", "10.1.0.1"));
    EXPECT_EQ(t.warnings.size(), 1u);
    EXPECT_EQ(t.to("20.0.0.1"), "1:18");
    EXPECT_EQ(t.to("20.128.1.1"), "kernel");
    EXPECT_EQ(t.to("20.128.1.200"), "kernel") << "so does its neighbourhood: it may hold longer prefixes, too";
    EXPECT_EQ(t.to("21.0.0.1"), "1:18");
}

}  // namespace
}  // namespace millrace::nf::router
