// Routes that name nexthop objects, and objects that change under them.
#include "nf/router/kernel/table_tester.hpp"

namespace millrace::nf::router {
namespace {

using Members = std::vector<NexthopMessage::Member>;
using Place = RouteMessage::Place;

NexthopMessage one(uint32_t id, RouteHop hop) {
    NexthopMessage message;
    message.id = id;
    message.hop = hop;
    return message;
}
NexthopMessage group(uint32_t id, Members members) {
    NexthopMessage message;
    message.id = id;
    message.group = std::move(members);
    return message;
}
NexthopMessage blackhole(uint32_t id) {
    NexthopMessage message;
    message.id = id;
    message.blackhole = true;
    return message;
}
/// As the kernel tells with nexthop_compat_mode 0; `hops` are those that it adds with 1.
RouteMessage by(const std::string& prefix, uint32_t id, std::vector<RouteHop> hops = {}, uint8_t type = RTN_UNICAST) {
    RouteMessage message = route_of(prefix, std::move(hops), 0, type);
    message.nexthop_object = id;
    return message;
}

/// 0:1 to 0:9 are the neighbours 10.0.0.1 to 10.0.0.9, 1:1 to 1:9 those of 10.1.0.0/24.
struct ObjectTester : TableTester {
    ObjectTester() {
        for (uint8_t i = 1; i <= 9; ++i) {
            neighbour(1, "10.0.0." + std::to_string(i), i);
            neighbour(2, "10.1.0." + std::to_string(i), i);
        }
    }
    void set(const NexthopMessage& message) { table().on_nexthop(message); }
    void drop(uint32_t id) {
        NexthopMessage message;
        message.gone = true;
        message.id = id;
        table().on_nexthop(message);
    }
};

TEST(KernelNexthops, LeadRoutesThatNameThem) {
    ObjectTester t;
    t.set(one(1, hop_of(1, "10.0.0.1")));
    t.add(by("192.0.2.0/24", 1));
    t.add(by("2001:db8:1::/48", 1));
    EXPECT_EQ(t.to("192.0.2.9"), "0:1");
    EXPECT_EQ(t.to("2001:db8:1::9"), "0:1");
    t.add(by("198.51.100.0/24", 1, {hop_of(2, "10.1.0.9")}));
    EXPECT_EQ(t.to("198.51.100.9"), "0:1") << "the object is what holds, not what was told with the route";
    EXPECT_EQ(t.table().routes(), 3u);
    t.remove(by("192.0.2.0/24", 1));
    t.remove(by("2001:db8:1::/48", 1));
    t.remove(by("198.51.100.0/24", 1, {hop_of(1, "10.0.0.1")}));
    EXPECT_EQ(t.table().routes(), 0u);
    EXPECT_EQ(t.to("192.0.2.9"), "no-route");
    EXPECT_TRUE(t.warnings.empty());
}

TEST(KernelNexthops, ChangeUnderRoutesWhoseTablesStayAsTheyAre) {
    ObjectTester t;
    t.set(one(1, hop_of(1, "10.0.0.1")));
    for (int i = 0; i < 100; ++i) t.add(by("192.0.2." + std::to_string(i) + "/32", 1));
    const uint64_t lookup = t.table().lpm4().version(), version = t.table().version();
    t.set(one(1, hop_of(1, "10.0.0.1")));
    EXPECT_EQ(t.table().version(), version) << "told again it is the same";
    t.set(one(1, hop_of(2, "10.1.0.2")));
    EXPECT_GT(t.table().version(), version);
    EXPECT_EQ(t.to("192.0.2.0"), "1:2");
    EXPECT_EQ(t.to("192.0.2.99"), "1:2");
    t.set(blackhole(1));
    EXPECT_EQ(t.to("192.0.2.7"), "no-route");
    t.set(one(1, hop_of(3, "10.9.0.1")));
    EXPECT_EQ(t.to("192.0.2.7"), "kernel") << "no port stands for that interface";
    NexthopMessage wrapped = one(1, hop_of(1, "10.0.0.1"));
    wrapped.encapsulated = true;
    t.set(wrapped);
    EXPECT_EQ(t.to("192.0.2.7"), "kernel");
    EXPECT_EQ(t.table().lpm4().version(), lookup);
    t.drop(1);
    EXPECT_EQ(t.to("192.0.2.7"), "no-route");
    EXPECT_EQ(t.table().routes(), 0u) << "the kernel does not tell of each";
    EXPECT_FALSE(t.table().take_resync_wanted());
}

TEST(KernelNexthops, ShareTrafficInGroupsByWeight) {
    ObjectTester t;
    t.set(one(1, hop_of(1, "10.0.0.1")));
    t.set(one(2, hop_of(2, "10.1.0.2")));
    t.set(group(10, {{1, 1}, {2, 1}}));
    t.add(by("192.0.2.0/24", 10));
    EXPECT_EQ(t.to("192.0.2.9"), "0:1 1:2");
    t.set(group(10, {{1, 4}, {2, 2}}));
    EXPECT_EQ(t.to("192.0.2.9"), "0:1 0:1 1:2");
    t.set(one(2, hop_of(2, "10.1.0.3")));
    EXPECT_EQ(t.to("192.0.2.9"), "0:1 0:1 1:3") << "a member was replaced";
    t.lose(2, "10.1.0.3");
    EXPECT_EQ(t.to("192.0.2.9"), "0:1");
    t.set(group(10, {{1, 65536}, {2, 65536}}));
    t.neighbour(2, "10.1.0.3", 3);
    EXPECT_EQ(t.to("192.0.2.9"), "0:1 1:3");
    t.set(group(10, {{1, 65536}, {2, 1}}));
    EXPECT_EQ(t.to("192.0.2.9").size(), 512 * 4u - 1) << "511 shares, and one that is rounded up";
    // The object goes first, then the kernel tells of the group without it.
    t.drop(1);
    EXPECT_EQ(t.to("192.0.2.9"), "1:3");
    t.set(group(10, {{2, 1}}));
    EXPECT_EQ(t.to("192.0.2.9"), "1:3");
    t.drop(2);
    EXPECT_EQ(t.to("192.0.2.9"), "no-route") << "a group without members is none";
    EXPECT_EQ(t.table().routes(), 0u);
}

TEST(KernelNexthops, MayComeBehindWhatNamesThem) {
    ObjectTester t;
    t.add(by("192.0.2.0/24", 10));
    t.add(by("198.51.100.0/24", 4, {}, RTN_BLACKHOLE));
    EXPECT_EQ(t.to("192.0.2.9"), "kernel");
    t.set(group(10, {{1, 1}, {2, 1}}));
    EXPECT_EQ(t.to("192.0.2.9"), "kernel");
    t.set(one(2, hop_of(2, "10.1.0.2")));
    EXPECT_EQ(t.to("192.0.2.9"), "1:2");
    t.set(one(1, hop_of(1, "10.0.0.1")));
    EXPECT_EQ(t.to("192.0.2.9"), "0:1 1:2");
    t.set(blackhole(4));
    EXPECT_EQ(t.to("198.51.100.9"), "no-route");
    EXPECT_EQ(t.table().routes(), 2u);
}

TEST(KernelNexthops, OfTheOtherFamilyLeadToo) {
    ObjectTester t;
    t.neighbour(2, "2001:db8::7", 7);
    t.set(one(6, hop_of(2, "2001:db8::7")));
    t.set(one(1, hop_of(1, "10.0.0.1")));
    t.set(group(10, {{1, 1}, {6, 1}}));
    t.add(by("192.0.2.0/24", 6));
    t.add(by("198.51.100.0/24", 10));
    EXPECT_EQ(t.to("192.0.2.9"), "1:7");
    EXPECT_EQ(t.to("198.51.100.9"), "0:1 1:7");
    EXPECT_EQ(t.table().questions(100, 10).size(), 0u);
    t.lose(2, "2001:db8::7");
    const auto asked = t.table().questions(200, 10);
    ASSERT_EQ(asked.size(), 1u) << "gateways of objects are asked for once, too";
    EXPECT_EQ(asked[0], (NeighbourKey{address_of("2001:db8::7"), 2}));
}

TEST(KernelNexthops, OfAnInterfaceHaveItsNeighbours) {
    ObjectTester t;
    t.set(one(3, hop_of(1)));
    t.set(one(4, hop_of(2)));
    t.add(by("10.0.0.0/24", 3));
    EXPECT_EQ(t.to("10.0.0.7"), "0:7");
    EXPECT_EQ(t.to("10.0.0.77"), "no-neighbour");
    t.set(one(3, hop_of(2, "10.1.0.5")));
    EXPECT_EQ(t.to("10.0.0.7"), "1:5") << "it is no neighbour any more";
    t.set(group(10, {{4, 1}}));
    t.add(by("10.1.0.0/24", 10));
    EXPECT_EQ(t.to("10.1.0.8"), "1:8");
    t.set(group(10, {{4, 1}, {3, 1}}));
    EXPECT_EQ(t.to("10.1.0.8"), "kernel") << "it may go either way";
    t.drop(3);
    EXPECT_EQ(t.to("10.1.0.8"), "1:8");
}

TEST(KernelNexthops, ThatAreBlackholesNameTheirRoutesSo) {
    ObjectTester t;
    t.set(blackhole(4));
    t.add(by("192.0.2.0/24", 4, {}, RTN_BLACKHOLE));
    t.add(by("198.51.100.0/24", 4));
    EXPECT_EQ(t.to("192.0.2.9"), "no-route");
    t.set(one(4, hop_of(1, "10.0.0.1")));
    EXPECT_EQ(t.to("192.0.2.9"), "0:1");
    t.add(by("203.0.113.0/24", 4, {}, RTN_BLACKHOLE));
    EXPECT_EQ(t.to("203.0.113.9"), "no-route") << "a blackhole by itself, whatever it names";
    t.remove(by("203.0.113.0/24", 4, {}, RTN_BLACKHOLE));
    t.remove(by("192.0.2.0/24", 4));
    t.set(blackhole(4));
    t.remove(by("198.51.100.0/24", 4, {}, RTN_BLACKHOLE));
    EXPECT_EQ(t.table().routes(), 0u);
    RouteMessage unreachable = by("192.0.2.0/24", 4, {}, RTN_UNREACHABLE);
    t.add(unreachable);
    EXPECT_EQ(t.to("192.0.2.9"), "kernel");
}

TEST(KernelNexthops, GoInSilenceWithTheirInterfaceOrItsCarrier) {
    for (const bool carrier_only : {false, true}) {
        ObjectTester t;
        t.set(one(1, hop_of(1, "10.0.0.1")));
        t.set(one(2, hop_of(2, "10.1.0.2")));
        t.set(one(3, hop_of(3, "10.9.0.1")));
        t.set(group(10, {{1, 1}, {2, 1}}));
        t.set(group(11, {{1, 1}}));
        for (const uint32_t id : {1, 2, 3, 10, 11}) t.add(by("198.51." + std::to_string(id) + ".0/24", id));
        t.link(1, "lan0", carrier_only, 1500, false);
        EXPECT_TRUE(t.table().take_resync_wanted());
        EXPECT_EQ(t.to("198.51.1.1"), "no-route");
        EXPECT_EQ(t.to("198.51.2.1"), "1:2");
        EXPECT_EQ(t.to("198.51.10.1"), "1:2");
        EXPECT_EQ(t.to("198.51.11.1"), "no-route");
        EXPECT_EQ(t.table().routes(), 3u);
        t.link(1, "lan0");
        EXPECT_EQ(t.to("198.51.10.1"), "1:2") << "the kernel's objects do not come back by themselves";
        EXPECT_TRUE(t.table().take_resync_wanted());
        t.link(3, "eth9", carrier_only, 1500, false);
        EXPECT_EQ(t.to("198.51.3.1"), "no-route") << "one where no port stands for the interface";
    }
}

TEST(KernelNexthops, ThatAResyncDoesNotTellAreGone) {
    ObjectTester t;
    for (const uint32_t id : {1, 2}) t.set(one(id, hop_of(1, "10.0.0." + std::to_string(id))));
    t.set(group(10, {{1, 1}, {2, 1}}));
    t.add(by("192.0.2.0/24", 10));
    t.add(by("198.51.100.0/24", 1));
    t.table().begin_resync();
    for (uint32_t i = 1; i <= 3; ++i) t.link(i, std::array{"", "lan0", "wan0", "eth9"}[i]);
    for (uint8_t i = 1; i <= 9; ++i) t.neighbour(1, "10.0.0." + std::to_string(i), i);
    t.set(one(2, hop_of(1, "10.0.0.3")));
    t.set(group(10, {{2, 1}}));
    t.add(by("192.0.2.0/24", 10), Place::back);
    t.table().end_resync();
    EXPECT_EQ(t.to("192.0.2.9"), "0:3");
    EXPECT_EQ(t.to("198.51.100.9"), "no-route");
    EXPECT_EQ(t.table().routes(), 1u);
}

TEST(KernelNexthops, AreReplacedByOtherOnesOfTheSameRoute) {
    ObjectTester t;
    t.set(one(1, hop_of(1, "10.0.0.1")));
    t.set(one(2, hop_of(1, "10.0.0.2")));
    t.add(by("192.0.2.0/24", 1));
    t.add(by("192.0.2.0/24", 2), Place::replace);
    EXPECT_EQ(t.to("192.0.2.9"), "0:2");
    t.remove(by("192.0.2.0/24", 1));
    EXPECT_EQ(t.to("192.0.2.9"), "0:2") << "that one was not there any more";
    t.add(route_of("192.0.2.0/24", {hop_of(1, "10.0.0.3")}), Place::replace);
    EXPECT_EQ(t.to("192.0.2.9"), "0:3") << "by no object";
    t.drop(2);
    EXPECT_EQ(t.to("192.0.2.9"), "0:3");
    EXPECT_EQ(t.table().routes(), 1u);
    EXPECT_EQ(t.table().show_routes(1).rows[0][1], ShownTable::Value{std::string("10.0.0.3 on lan0")});
}

TEST(KernelNexthops, MayBeThousandsInThousandsOfGroups) {
    ObjectTester t;
    constexpr uint32_t kMany = 1000;
    Members all;
    for (uint32_t i = 0; i < kMany; ++i) {
        t.set(one(1 + i, hop_of(1 + i % 2, (i % 2 == 0 ? "10.0.0." : "10.1.0.") + std::to_string(1 + i % 9))));
        all.push_back({1 + i, 1});
    }
    for (uint32_t i = 0; i < kMany; ++i) {
        t.set(group(2000 + i, {{1 + i, 2}, {1 + (i + 1) % kMany, 1}}));
        t.add(by("20.0." + std::to_string(i / 250) + "." + std::to_string(i % 250) + "/32", 2000 + i));
    }
    t.set(group(9000, all));
    t.add(by("192.0.2.0/24", 9000));
    EXPECT_EQ(t.to("20.0.0.0"), "0:1 0:1 1:2");
    EXPECT_EQ(t.to("20.0.3.249"), "1:1 1:1 0:1");
    EXPECT_EQ(t.to("192.0.2.9").size(), kMany * 4 - 1);
    t.link(1, "lan0", false);
    EXPECT_EQ(t.to("20.0.0.0"), "1:2");
    EXPECT_EQ(t.to("20.0.3.249"), "1:1");
    EXPECT_EQ(t.to("192.0.2.9").size(), kMany / 2 * 4 - 1);
    t.link(2, "wan0", false);
    EXPECT_EQ(t.table().routes(), 0u);
    EXPECT_EQ(t.to("20.0.0.0"), "no-route");
}

}  // namespace
}  // namespace millrace::nf::router
