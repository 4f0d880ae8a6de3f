#include "millrace/nf/router/kernel/messages.hpp"

#include <gtest/gtest.h>
#include <linux/neighbour.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>

#include <cstring>
#include <random>

namespace millrace::nf::router {
namespace {

// What Linux 6.18 sent as `ip` changed things between two ends of a veth; of links only the attributes that are read.
constexpr const char* kLink =
    "3c000000100000000000000000000000000001000200000002100000ffffffff070003007631000008000400dc050000"
    "0a0001000200000000020000";
constexpr const char* kLinkGone =
    "3c000000110000000000000000000000000001000300000002100000ffffffff070003007630000008000400dc050000"
    "0a0001000200000000010000";
constexpr const char* kConnected =
    "3c00000018000006000000000000000002180000fe02fd010000000008000f00fe000000080001000a00000008000700"
    "0a0000010800040003000000";
constexpr const char* kLocal =
    "3c00000018000006000000000000000002200000ff02fe020000000008000f00ff000000080001000a00000108000700"
    "0a0000010800040003000000";
constexpr const char* kAppended =
    "440000001800000ce26f056b4104000002180000fe0300010000000008000f00fe00000008000100c000020008000600"
    "07000000080005000a0000030800040003000000";
constexpr const char* kShared =
    "5000000018000006e36f056b4804000002180000fe0300010000000008000f00fe00000008000100c633640024000900"
    "1000000203000000080005000a0000021000000003000000080005000a000003";
constexpr const char* kViaIpv6 =
    "4c00000018000006e36f056b4a04000002180000fe0300010000000008000f00fe00000008000100cb00710016001200"
    "0a00fe80000000000000000000000000000200000800040003000000";
constexpr const char* kIpv6Shared =
    "a80000001800000ce46f056b500400000a300000fe0300010000000008000f00fe0000001400010020010db800010000"
    "000000000000000008000600000400003c0009001c000000030000001400050020010db8000000000000000000000003"
    "1c000000030000001400050020010db800000000000000000000000224000c0000000000000000000000000000000000"
    "000000000000000000000000000000000500140000000000";
constexpr const char* kIpv6Gone =
    "8800000019000000e46f056b540400000a300000fe0300010000000008000f00fe0000001400010020010db800010000"
    "000000000000000008000600000400001400050020010db8000000000000000000000002080004000300000024000c00"
    "00000000000000000000000000000000000000000000000000000000000000000500140000000000";
constexpr const char* kBlackhole =
    "2c00000018000006e56f056b58040000020a0000fe0300060000000008000f00fe0000000800010064400000";
constexpr const char* kTable1000 =
    "3c00000018000006e66f056b5c04000002100000fc0300010000000008000f00e8030000080001000a09000008000500"
    "0a0000020800040003000000";
constexpr const char* kOfObject =
    "4400000018000001e66f056b6104000002100000fe0300010000000008000f00fe000000080001000a08000008001e00"
    "05000000080005000a0000030800040003000000";
constexpr const char* kObjectGone =
    "3000000069000500e76f056b6304000002fd00000000000008000100050000000800050003000000080006000a000003";
// With nexthop_compat_mode 0.
constexpr const char* kByObject =
    "34000000180000065c63096b3768000002180000fe0300010000000008000f00fe00000008000100cb00710008001e00"
    "0a000000";
constexpr const char* kObject =
    "30000000680005065963096b0e68000002fd00000000000008000100010000000800050003000000080006000a000002";
constexpr const char* kObjectOfInterface =
    "28000000680005065a63096b1768000002fe00000000000008000100030000000800050003000000";
constexpr const char* kObjectBlackhole = "24000000680005065a63096b196800000200000000000000080001000400000004000400";
constexpr const char* kObjectIpv6 =
    "3c000000680005065a63096b1c6800000afd000000000000080001000600000008000500030000001400060020010db8"
    "000000000000000000000002";
constexpr const char* kObjectGroup =
    "44000000680005065b63096b216800000000000000000000080001000a00000006000300000000001400020001000000"
    "0200000002000000c700000008000e0000000080";
constexpr const char* kAddressGone =
    "4c00000015000000e96f056b730400000218800003000000080001000a050001080002000a0500010700030076300000"
    "080008008000000014000600ffffffffffffffff78f8150078f81500";
constexpr const char* kNeighbour =
    "4c0000001c0000000000000065040000020000000300000002000001080001000a0000020a0002000200000000220000"
    "08000400000000001400030000000000000000000000000002000000";
constexpr const char* kNeighbourIpv6 =
    "580000001c00000000000000670400000a00000003000000040000011400010020010db8000000000000000000000002"
    "0a000200020000000022000008000400000000001400030070170000000000000000000001000000";
constexpr const char* kNeighbourGone =
    "400000001d0000000000000000000000020000000300000020000001080001000a000002080004000000000014000300"
    "5f0000005f0000005f00000000000000";

std::vector<uint8_t> bytes_of(const std::string& hex) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    return bytes;
}

/// Keeps what comes.
struct Kept : MessageListener {
    void on_route(const RouteMessage& message) override { routes.push_back(message); }
    void on_nexthop(const NexthopMessage& message) override { nexthops.push_back(message); }
    void on_neighbour(const NeighbourMessage& message) override { neighbours.push_back(message); }
    void on_link(const LinkMessage& message) override { links.push_back(message); }
    void on_hidden_change() override { ++hidden; }
    void on_answered(uint32_t sequence, int error, bool inconsistent) override {
        answers.push_back({sequence, error, inconsistent});
    }
    void on_malformed() override { ++malformed; }
    size_t all() const {
        return routes.size() + nexthops.size() + neighbours.size() + links.size() + hidden + answers.size();
    }

    struct Answer {
        uint32_t sequence;
        int error;
        bool inconsistent;
    };
    std::vector<RouteMessage> routes;
    std::vector<NexthopMessage> nexthops;
    std::vector<NeighbourMessage> neighbours;
    std::vector<LinkMessage> links;
    std::vector<Answer> answers;
    size_t hidden = 0, malformed = 0;
};

Kept parse(std::vector<uint8_t> bytes) {
    Kept kept;
    // A copy of its own size: a sanitizer sees a byte read beyond it.
    const auto copy = std::make_unique<uint8_t[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), copy.get());
    MessageParser(kept).parse({copy.get(), bytes.size()});
    return kept;
}
RouteMessage route(const char* hex) {
    const Kept kept = parse(bytes_of(hex));
    EXPECT_EQ(kept.routes.size(), 1u);
    EXPECT_EQ(kept.malformed, 0u);
    return kept.routes.empty() ? RouteMessage{} : kept.routes[0];
}

RouteHop hop(uint32_t interface, const char* gateway = nullptr, uint16_t weight = 1) {
    RouteHop result{interface, gateway != nullptr, {}, weight};
    if (gateway != nullptr) {
        const Prefix prefix = parse_prefix(gateway).value();
        result.gateway = {prefix.bytes, prefix.ipv6};
    }
    return result;
}

TEST(RouterMessages, ReadConnectedAndLocalRoutes) {
    const RouteMessage connected = route(kConnected);
    EXPECT_FALSE(connected.gone);
    EXPECT_EQ(connected.prefix.text(), "10.0.0.0/24");
    EXPECT_EQ(connected.table, 254u);
    EXPECT_EQ(connected.type, RTN_UNICAST);
    EXPECT_EQ(connected.protocol, RTPROT_KERNEL);
    EXPECT_EQ(connected.scope, RT_SCOPE_LINK);
    EXPECT_EQ(connected.metric, 0u);
    EXPECT_EQ(connected.hops, std::vector{hop(3)});
    const RouteMessage local = route(kLocal);
    EXPECT_EQ(local.prefix.text(), "10.0.0.1/32");
    EXPECT_EQ(local.table, 255u);
    EXPECT_EQ(local.type, RTN_LOCAL);
}

TEST(RouterMessages, ReadGatewaysMetricsAndPlaces) {
    const RouteMessage appended = route(kAppended);
    EXPECT_EQ(appended.prefix.text(), "192.0.2.0/24");
    EXPECT_EQ(appended.metric, 7u);
    EXPECT_EQ(appended.place, RouteMessage::Place::back);
    EXPECT_EQ(appended.hops, std::vector{hop(3, "10.0.0.3")});
    EXPECT_EQ(route(kTable1000).table, 1000u);
    EXPECT_EQ(route(kTable1000).place, RouteMessage::Place::front);
    const RouteMessage of_object = route(kOfObject);
    EXPECT_EQ(of_object.place, RouteMessage::Place::replace);
    EXPECT_EQ(of_object.nexthop_object, 5u);
    EXPECT_EQ(of_object.hops, std::vector{hop(3, "10.0.0.3")});
    const RouteMessage blackhole = route(kBlackhole);
    EXPECT_EQ(blackhole.type, RTN_BLACKHOLE);
    EXPECT_TRUE(blackhole.hops.empty());
}

TEST(RouterMessages, ReadSeveralHopsAndGatewaysOfTheOtherFamily) {
    const RouteMessage shared = route(kShared);
    EXPECT_EQ(shared.hops, (std::vector{hop(3, "10.0.0.2", 3), hop(3, "10.0.0.3")}));
    EXPECT_EQ(route(kViaIpv6).prefix.text(), "203.0.113.0/24");
    EXPECT_EQ(route(kViaIpv6).hops, std::vector{hop(3, "fe80::2")});
    const RouteMessage ipv6 = route(kIpv6Shared);
    EXPECT_EQ(ipv6.prefix.text(), "2001:db8:1::/48");
    EXPECT_EQ(ipv6.metric, 1024u);
    EXPECT_EQ(ipv6.hops, (std::vector{hop(3, "2001:db8::3"), hop(3, "2001:db8::2")}));
    const RouteMessage gone = route(kIpv6Gone);
    EXPECT_TRUE(gone.gone);
    EXPECT_EQ(gone.hops, std::vector{hop(3, "2001:db8::2")});
}

TEST(RouterMessages, ReadNeighbours) {
    const Kept kept = parse(bytes_of(std::string(kNeighbour) + kNeighbourIpv6 + kNeighbourGone));
    ASSERT_EQ(kept.neighbours.size(), 3u);
    const NeighbourMessage& first = kept.neighbours[0];
    EXPECT_EQ(first.interface, 3u);
    EXPECT_EQ(first.address.text(), "10.0.0.2");
    EXPECT_TRUE(first.has_mac);
    EXPECT_EQ(mac_text(first.mac), "02:00:00:00:00:22");
    EXPECT_EQ(first.state, NUD_REACHABLE);
    EXPECT_EQ(kept.neighbours[1].address.text(), "2001:db8::2");
    EXPECT_EQ(kept.neighbours[1].state, NUD_STALE);
    EXPECT_TRUE(kept.neighbours[2].gone);
    EXPECT_FALSE(kept.neighbours[2].has_mac);
}

TEST(RouterMessages, ReadLinks) {
    const Kept kept = parse(bytes_of(std::string(kLink) + kLinkGone));
    ASSERT_EQ(kept.links.size(), 2u);
    EXPECT_EQ(kept.links[0].name, "v1");
    EXPECT_EQ(kept.links[0].index, 2u);
    EXPECT_EQ(mac_text(kept.links[0].mac), "02:00:00:00:00:02");
    EXPECT_EQ(kept.links[0].mtu, 1500u);
    EXPECT_FALSE(kept.links[0].up);
    EXPECT_TRUE(kept.links[1].gone);
    // An interface that leaves a bridge is told of as a link that goes, with the bridge's family.
    std::vector<uint8_t> bridged = bytes_of(kLinkGone);
    bridged[16] = 7;
    EXPECT_EQ(parse(bridged).all(), 0u);
}

TEST(RouterMessages, TellThatRoutesMayHaveGoneInSilence) { EXPECT_EQ(parse(bytes_of(kAddressGone)).hidden, 1u); }

TEST(RouterMessages, ReadNexthopObjects) {
    EXPECT_EQ(route(kByObject).nexthop_object, 10u);
    EXPECT_TRUE(route(kByObject).hops.empty());
    const Kept kept = parse(bytes_of(std::string(kObject) + kObjectOfInterface + kObjectBlackhole + kObjectIpv6 +
                                     kObjectGroup + kObjectGone));
    ASSERT_EQ(kept.nexthops.size(), 6u);
    EXPECT_EQ(kept.nexthops[0].id, 1u);
    EXPECT_EQ(kept.nexthops[0].hop, hop(3, "10.0.0.2"));
    EXPECT_TRUE(kept.nexthops[0].group.empty());
    EXPECT_EQ(kept.nexthops[1].hop, hop(3));
    EXPECT_FALSE(kept.nexthops[1].blackhole);
    EXPECT_TRUE(kept.nexthops[2].blackhole);
    EXPECT_EQ(kept.nexthops[3].hop, hop(3, "2001:db8::2"));
    using Member = NexthopMessage::Member;
    EXPECT_EQ(kept.nexthops[4].id, 10u);
    EXPECT_EQ(kept.nexthops[4].group, (std::vector{Member{1, 3}, Member{2, 200}}));
    EXPECT_FALSE(kept.nexthops[4].gone);
    EXPECT_TRUE(kept.nexthops[5].gone);
    EXPECT_EQ(kept.nexthops[5].id, 5u);
    EXPECT_EQ(kept.malformed, 0u);
}

/// `hex` with the byte at `at` set.
std::vector<uint8_t> with(const char* hex, size_t at, uint8_t value) {
    std::vector<uint8_t> bytes = bytes_of(hex);
    bytes.at(at) = value;
    return bytes;
}

TEST(RouterMessages, ReadWeightsOfTwoBytes) {
    // A group's first entry begins at byte 44.
    ASSERT_EQ(bytes_of(kObjectGroup)[44], 1);
    EXPECT_EQ(parse(with(kObjectGroup, 49, 1)).nexthops.at(0).group[0].weight, 259u);
    std::vector<uint8_t> most = with(kObjectGroup, 48, 255);
    most[49] = 255;
    EXPECT_EQ(parse(most).nexthops.at(0).group[0].weight, 65536u);
}

TEST(RouterMessages, RefuseMalformedNexthopObjects) {
    const auto is_refused = [](const std::vector<uint8_t>& bytes) {
        const Kept kept = parse(bytes);
        return kept.malformed == 1 && kept.all() == 0;
    };
    // Attributes begin at byte 24: the id's length, type and value, then those behind it.
    EXPECT_TRUE(is_refused(with(kObject, 28, 0))) << "no object has the number 0";
    EXPECT_TRUE(is_refused(with(kObject, 26, 60))) << "no number";
    EXPECT_TRUE(is_refused(with(kObject, 24, 6))) << "a number of two bytes";
    EXPECT_TRUE(is_refused(with(kObject, 24, 3))) << "an attribute shorter than its header";
    EXPECT_TRUE(is_refused(with(kObject, 24, 200))) << "one that breaks off";
    EXPECT_TRUE(is_refused(with(kObject, 32, 6))) << "an interface of two bytes";
    EXPECT_TRUE(is_refused(with(kObject, 40, 7))) << "a gateway of three bytes";
    EXPECT_TRUE(is_refused(with(kObject, 16, 10))) << "an IPv4 gateway of IPv6";
    EXPECT_TRUE(is_refused(with(kObjectIpv6, 16, 2)));
    EXPECT_TRUE(is_refused(with(kObjectGroup, 44, 0))) << "a member without a number";
    for (uint8_t length = 4; length < 20; ++length)
        EXPECT_TRUE(is_refused(with(kObjectGroup, 40, length))) << unsigned{length};
    EXPECT_TRUE(is_refused(with(kObjectGroup, 34, 2))) << "a group of two bytes";
    for (uint8_t length = 16; length < 24; ++length) {
        std::vector<uint8_t> cut = with(kObject, 0, length);
        cut.resize(length);
        EXPECT_TRUE(is_refused(cut)) << unsigned{length};
    }
    // What a bridge forwards by is no route's.
    EXPECT_EQ(parse(with(kObjectBlackhole, 34, 11)).all(), 0u);
    EXPECT_EQ(parse(with(kObjectBlackhole, 34, 11)).malformed, 0u);
}

TEST(RouterMessages, ReadTheEndOfAnAnswer) {
    const auto answer = [](uint16_t type, uint16_t flags, int32_t error) {
        nlmsghdr head{sizeof(nlmsghdr) + 4, type, flags, 77, 0};
        std::vector<uint8_t> bytes(sizeof head + 4);
        std::memcpy(bytes.data(), &head, sizeof head);
        std::memcpy(bytes.data() + sizeof head, &error, 4);
        return parse(bytes);
    };
    const Kept done = answer(NLMSG_DONE, NLM_F_MULTI, 0);
    ASSERT_EQ(done.answers.size(), 1u);
    EXPECT_EQ(done.answers[0].sequence, 77u);
    EXPECT_EQ(done.answers[0].error, 0);
    EXPECT_FALSE(done.answers[0].inconsistent);
    EXPECT_TRUE(answer(NLMSG_DONE, NLM_F_MULTI | NLM_F_DUMP_INTR, 0).answers[0].inconsistent);
    EXPECT_EQ(answer(NLMSG_ERROR, 0, -EPERM).answers[0].error, EPERM);
    EXPECT_EQ(answer(NLMSG_ERROR, 0, INT32_MIN).malformed, 1u);
    EXPECT_EQ(answer(NLMSG_ERROR, 0, 5).malformed, 1u);
}

TEST(RouterMessages, LeaveOutWhatDoesNotConcernARouter) {
    std::vector<uint8_t> cloned = bytes_of(kShared);
    cloned[16 + 9] |= RTM_F_CLONED >> 8;
    EXPECT_EQ(parse(cloned).all(), 0u);
    std::vector<uint8_t> proxy = bytes_of(kNeighbour);
    proxy[16 + 10] |= NTF_PROXY;
    EXPECT_EQ(parse(proxy).all(), 0u);
    std::vector<uint8_t> mpls = bytes_of(kShared);
    mpls[16] = 28;
    EXPECT_EQ(parse(mpls).all() + parse(mpls).malformed, 0u);
}

TEST(RouterMessages, NameBrokenOnesAndGoOn) {
    std::vector<uint8_t> long_prefix = bytes_of(kConnected);
    long_prefix[17] = 33;
    std::vector<uint8_t> short_address = bytes_of(kConnected);
    short_address[36] = 6;  // RTA_DST of two bytes
    std::vector<uint8_t> no_address = bytes_of(kConnected);
    no_address[38] = 60;  // an attribute that nobody knows
    std::vector<uint8_t> broken_hop = bytes_of(kShared);
    broken_hop[48] = 60;  // longer than the list
    for (std::vector<uint8_t> bytes : {long_prefix, short_address, no_address, broken_hop}) {
        const std::vector<uint8_t> good = bytes_of(kNeighbour);
        bytes.insert(bytes.end(), good.begin(), good.end());
        const Kept kept = parse(bytes);
        EXPECT_EQ(kept.routes.size(), 0u);
        EXPECT_EQ(kept.malformed, 1u);
        EXPECT_EQ(kept.neighbours.size(), 1u) << "the next message is read";
    }
}

TEST(RouterMessages, SurviveBeingCutAndChangedAnywhere) {
    std::mt19937 random(1);
    const std::vector<uint8_t> whole = bytes_of(std::string(kLink) + kConnected + kShared + kViaIpv6 + kIpv6Shared +
                                                kNeighbour + kNeighbourIpv6 + kObject + kObjectIpv6 + kObjectGroup);
    const size_t all = parse(whole).all();
    EXPECT_EQ(all, 10u);
    for (size_t length = 0; length < whole.size(); ++length) {
        const Kept kept = parse({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
        EXPECT_LT(kept.all(), all);
    }
    for (int i = 0; i < 20000; ++i) {
        std::vector<uint8_t> changed = whole;
        for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<uint8_t>(random());
        for (const RouteMessage& route : parse(changed).routes)
            ASSERT_LE(route.prefix.length, route.prefix.address_bits());
    }
}

TEST(RouterMessages, AskForDumpsAndForNeighbours) {
    const std::vector<uint8_t> dump = dump_request(RTM_GETROUTE, 2, 9);
    nlmsghdr head;
    std::memcpy(&head, dump.data(), sizeof head);
    EXPECT_EQ(head.nlmsg_len, dump.size());
    EXPECT_EQ(head.nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP);
    EXPECT_EQ(dump.size(), sizeof(nlmsghdr) + sizeof(rtmsg));
    EXPECT_EQ(dump_request(RTM_GETNEXTHOP, 0, 9).size(), sizeof(nlmsghdr) + sizeof(nhmsg));
    EXPECT_EQ(dump_request(RTM_GETLINK, 0, 9).size(), sizeof(nlmsghdr) + sizeof(ifinfomsg));
    // `ip neigh add 10.0.0.77 dev v0 use`
    EXPECT_EQ(use_neighbour_request(3, {{10, 0, 0, 77}, false}, 1), bytes_of("240000001c0001040100000000000000"
                                                                             "020000000300000000000100"
                                                                             "080001000a00004d"));
}

}  // namespace
}  // namespace millrace::nf::router
