// What the CPU prepares, the tunnel and the policies, against what the device half does for each packet.
#include "millrace/nf/ipsec/cpu/burst_tickets.hpp"
#include "millrace/nf/ipsec/cpu/policy_search.hpp"
#include "millrace/nf/ipsec/cpu/prepared_policies.hpp"
#include "millrace/nf/ipsec/cpu/prepared_tunnel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <tuple>

#include "millrace/nf/crypto/keys.hpp"
#include "millrace/packet/lanes.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

using namespace nf::ipsec;

/// A frame with room at both ends, all of it to be compared.
struct Buffer {
    static constexpr uint32_t kHeadroom = 128, kTailroom = 64;
    explicit Buffer(const Frame& frame, uint32_t headroom = kHeadroom, uint32_t tailroom = kTailroom)
        : bytes(headroom + frame.size() + tailroom, 0xa5) {
        std::copy(frame.begin(), frame.end(), bytes.begin() + headroom);
        const auto length = static_cast<uint32_t>(frame.size());
        packet.attach(bytes.data() + headroom, length, length, headroom, tailroom);
        packet.parse();
    }
    size_t offset(const uint8_t* place) const { return static_cast<size_t>(place - bytes.data()); }
    auto shape(const Esp& esp) const {
        const Layers& l = packet.layers();
        return std::tuple(offset(packet.data()), packet.length(), packet.present(), packet.headroom(),
                          packet.tailroom(), offset(esp.header), esp.iv_bytes, esp.text_bytes, l.end, l.ether_type,
                          l.vlan_id, l.l4_offset, l.payload_offset, l.l3_offset, l.protocol, l.flags, l.vlan_count,
                          l.malformed);
    }
    Frame bytes;
    Packet packet;
};

Sa common_sa() {
    Sa sa;
    sa.local.words[0] = 0x010200c0;
    sa.remote.words[0] = 0x016433c6;
    sa.spi = 0x12345678;
    sa.cipher = Cipher::aes_ctr;
    sa.auth = Auth::hmac_sha1_96;
    return sa;
}

TEST(PreparedTunnel, WritesWhatTheDeviceHalfWrites) {
    Rng rng(5);
    RandomOptions options;
    options.max_payload = 200;
    size_t prepared = 0, others = 0, of_ipv6 = 0;
    for (int i = 0; i < 30000; ++i) {
        Sa sa = common_sa();
        sa.ttl = static_cast<uint8_t>(rng());
        sa.copy_dscp = rng() % 2 == 0;
        sa.dont_fragment = static_cast<DontFragment>(rng() % 3);
        Tables tables;
        tables.sas = View<Sa>(&sa, 1);
        const Frame frame = random_packet(rng, options);
        Buffer expected(frame), actual(frame);
        if (!actual.packet.layers().is_ip() || actual.packet.layers().malformed != Malformed::no) continue;
        const Route route = outbound_route<Common>(actual.packet, tables, 0);
        ASSERT_EQ(route.outcome, kProtected);
        const PreparedTunnel tunnel(sa, 0);
        if (!tunnel.serves(actual.packet)) {
            ++others;
            ASSERT_GT(actual.packet.layers().vlan_count, 0);
            continue;
        }
        ++prepared;
        of_ipv6 += actual.packet.layers().is_ipv6();
        const auto sequence = static_cast<uint32_t>(rng());
        const Esp from_device = encapsulate<Common>(expected.packet, tables, route, sequence, Lanes<1>{});
        const Esp esp = tunnel.encapsulate(actual.packet, sequence);
        ASSERT_EQ(actual.shape(esp), expected.shape(from_device)) << hex_dump(frame);
        // The ICV's room holds anything as yet.
        std::fill_n(esp.icv(), kSha1IcvBytes, uint8_t{0});
        std::fill_n(from_device.icv(), kSha1IcvBytes, uint8_t{0});
        ASSERT_EQ(hex_dump(actual.bytes), hex_dump(expected.bytes));
    }
    EXPECT_GT(prepared, 5000u);
    EXPECT_GT(others, 100u);
    EXPECT_GT(of_ipv6, 500u);
}

/// The device half says where the headers of what it wrapped lie without looking at it again.
TEST(Encapsulate, SaysOfItsPacketWhatParsingFinds) {
    Rng rng(7);
    size_t wrapped = 0, tagged = 0;
    for (int i = 0; i < 20000; ++i) {
        Sa sa = common_sa();
        sa.ipv6 = rng() % 2 == 0;
        sa.cipher = static_cast<Cipher>(rng() % 3);
        sa.auth = static_cast<Auth>(rng() % 2);
        Tables tables;
        tables.sas = View<Sa>(&sa, 1);
        tables.aes_encrypt = crypto::host_aes_tables().encrypt;  // IVs of CBC
        Buffer buffer(random_packet(rng, {}));
        if (!buffer.packet.layers().is_ip() || buffer.packet.layers().malformed != Malformed::no) continue;
        const Route route = outbound_route<Common>(buffer.packet, tables, 0);
        if (route.outcome != kProtected) continue;
        ++wrapped;
        tagged += buffer.packet.layers().vlan_count > 0;
        const Esp esp = encapsulate<Common>(buffer.packet, tables, route, static_cast<uint32_t>(rng()), Lanes<8>{});
        const auto said = buffer.shape(esp);
        buffer.packet.parse();
        ASSERT_EQ(said, buffer.shape(esp));
    }
    EXPECT_GT(wrapped, 5000u);
    EXPECT_GT(tagged, 100u);
}

/// What it does not serve goes by outbound_route, which may still let it pass; what it serves must fit.
TEST(PreparedTunnel, ServesWhatFitsAndNothingElse) {
    Rng rng(6);
    size_t served = 0, refused = 0, spared = 0;
    for (int i = 0; i < 20000; ++i) {
        Sa sa = common_sa();
        Tables tables;
        tables.sas = View<Sa>(&sa, 1);
        tables.mtu = rng() % 3 == 0 ? 0 : static_cast<uint32_t>(100 + rng() % 100);
        tables.mtu_spares_fragmentable = rng() % 2 == 0;
        const std::string size = std::to_string(rng() % 120);
        const Frame frame = build_packet("{ipv4: {flags: " + std::string(rng() % 2 ? "[DF]" : "[]") +
                                         "}, udp: {src: 1, dst: 2}, payload: {repeat: x, count: " + size +
                                         "}, pad: " + (rng() % 2 ? "60" : "0") + "}");
        const Buffer buffer(frame, 30 + static_cast<uint32_t>(rng() % 12), static_cast<uint32_t>(rng() % 24));
        const bool fits = outbound_route<Common>(buffer.packet, tables, 0).outcome == kProtected;
        const uint32_t inner = buffer.packet.layers().end - 14;
        const uint32_t outer = 20 + 8 + 8 + (inner + 2 + 3) / 4 * 4 + 12;
        const bool serves = PreparedTunnel(sa, tables.mtu).serves(buffer.packet);
        served += serves;
        refused += !serves;
        ASSERT_TRUE(fits || !serves);
        if (fits && !serves) {
            ++spared;
            ASSERT_TRUE(tables.mtu_spares_fragmentable && tables.mtu != 0 && outer > tables.mtu);
        }
    }
    EXPECT_GT(served, 2000u);
    EXPECT_GT(refused, 2000u);
    EXPECT_GT(spared, 100u);
}

/// What RFC 4301 asks for, in as many words: the first that matches.
Route first_that_matches(const Packet& packet, const Tables& tables) {
    const Layers& layers = packet.layers();
    Tables none = tables;  // whatever is decided before policies are looked at
    none.policies = {};
    const Route route = find_policy<Complete>(packet, none);
    if (layers.malformed != Malformed::no || !layers.is_ip() || route.detail != kDefaultPolicy) return route;
    const Flow flow = flow_of(packet);
    for (uint64_t i = 0; i < tables.policies.size(); ++i)
        if (matches(tables.policies[i].selector, flow)) return policy_route(tables.policies[i]);
    return route;
}

/// Compared one by one, and searched by the engines of a core and of a GPU; a thousand as well.
TEST(Policies, AreFoundAsIfEachWereComparedInTurn) {
    Rng rng(7);
    std::map<uint32_t, size_t> outcomes;
    size_t by_address = 0, thousand_by_address = 0;
    for (int round = 0; round < 200; ++round) {
        std::vector<Policy> policies;
        const uint32_t many = round % 20 >= 18 ? 1000 : round % 14u;
        // Those of some rounds ask for addresses alone; of these, some have few pairs of masks.
        const bool addresses_alone = round % 5 >= 3, few_masks = round % 5 == 3;
        for (uint32_t i = 0; i < many; ++i) {
            Policy policy;
            Selector& selector = policy.selector;
            selector.ipv6 = rng() % 4 == 0;
            const auto prefix = [&](Address& address, Address& mask) {
                mask.words[0] = std::array<uint32_t, 4>{0xffff, 0xffffffff, 0xff, 0}[rng() % (few_masks ? 2 : 4)];
                address.words[0] = (0x0a | static_cast<uint32_t>(rng() % 3) << 8 | static_cast<uint32_t>(rng()) << 16) &
                                   mask.words[0];
            };
            prefix(selector.src, selector.src_mask);
            prefix(selector.dst, selector.dst_mask);
            selector.any_protocol = rng() % 2 == 0;
            selector.protocol = rng() % 2 == 0 ? 6 : 17;
            selector.any_port = rng() % 2 == 0;
            if (!selector.any_port) selector.dst_port_last = static_cast<uint16_t>(rng());
            // Were they all alike, the first would take all.
            if (many > 100 && i + 100 < many) selector.any_port = false, selector.src_port_first = 65000;
            if (addresses_alone && !selector.ipv6) selector.any_protocol = selector.any_port = true;
            policy.action = static_cast<Action>(rng() % 3);
            policy.sa = 0;
            policy.detail = i;
            policies.push_back(policy);
        }
        const Sa sa = common_sa();
        nf::Image image;
        Tables& tables = image.start<Tables>();
        if (policies.size() > kFewPolicies)
            attach_policy_search(policies, round % 3 == 0 ? nf::classify::Searcher::gpu : nf::classify::Searcher::core,
                                 image, tables.search);
        tables.sas = View<Sa>(&sa, 1);
        tables.policies = View<Policy>(policies.data(), policies.size());
        tables.local_ipv4 = View<Address>(&sa.local, 1);
        tables.default_action = round % 2 == 0 ? Action::bypass : Action::discard;
        const PreparedPolicies prepared(tables);
        by_address += prepared.by_addresses();
        thousand_by_address += prepared.by_addresses() && many == 1000;
        RandomOptions options;
        options.max_payload = 20;
        options.adjust = [](PacketSpec& spec, Rng& random) {
            if (!spec.ipv4) return;
            spec.ipv4->src = 0x0a000000u | static_cast<uint32_t>(random() % 3) << 16;
            spec.ipv4->dst = random() % 20 == 0 ? 0xc0000201u : 0x0a000000u | static_cast<uint32_t>(random() % 3) << 16;
            if (random() % 20 == 0) spec.ipv4->protocol = 50;
        };
        for (int i = 0; i < 200; ++i) {
            const Frame frame = random_packet(rng, options);
            const Buffer buffer(frame);
            const Route expected = first_that_matches(buffer.packet, tables);
            const Route found = find_policy<Complete>(buffer.packet, tables);
            for (const Decision& actual : {prepared.find(buffer.packet), Decision{found.detail, found.outcome}})
                ASSERT_EQ(actual, (Decision{expected.detail, expected.outcome})) << policies.size() << " policies\n"
                                                                                 << hex_dump(frame);
            ++outcomes[expected.outcome];
        }
    }
    for (const uint32_t outcome : {uint32_t{kProtected}, uint32_t{kBypass}, uint32_t{kDiscardedByPolicy},
                                   uint32_t{kNotIp}, uint32_t{kMalformed}})
        EXPECT_GT(outcomes[outcome], 100u) << outcome;
    EXPECT_GT(by_address, 15u);
    EXPECT_EQ(thousand_by_address, 10u);
    EXPECT_GT(outcomes[kNoSa] + outcomes[kMalformedEsp], 20u) << "ESP for the gateway itself";
}

/// Of 1, of few and of a thousand SAs: each counter goes on by what it gave out, in order of arrival, once a burst.
TEST(BurstTickets, CountUpEachSaInOrderOfArrival) {
    constexpr size_t kBurst = 128;
    Rng rng(11);
    for (const uint32_t slots : {1u, 2u, 127u, 128u, 129u, 1000u, 16384u}) {
        std::vector<uint64_t> counters(slots), expected(slots);
        for (uint64_t& counter : counters) counter = rng() % 1000;
        expected = counters;
        const auto tickets = std::make_unique<BurstTickets<kBurst>>();
        std::array<Packet, kBurst> packets;
        for (int burst = 0; burst < 50; ++burst) {
            const size_t count = std::array<size_t, 6>{0, 1, 31, 33, 127, kBurst}[rng() % 6];
            std::vector<uint64_t> wanted;
            uint32_t slot = 0;
            for (size_t i = 0; i < count; ++i) {
                if (rng() % 3 != 0) slot = static_cast<uint32_t>(rng()) % slots;  // some are neighbours
                tickets->add(packets[i], slot);
                wanted.push_back(expected[slot]++);
            }
            tickets->draw(MutableView<uint64_t>(counters.data(), counters.size()));
            for (size_t i = 0; i < count; ++i)
                ASSERT_EQ(packets[i].ticket(), wanted[i]) << slots << " SAs, packet " << i;
            ASSERT_EQ(counters, expected);
        }
    }
}

TEST(PreparedTunnel, IsOnlyForWhatItKnows) {
    const Buffer plain(build_packet("{ipv4: {}, tcp: {src: 1, dst: 2}}"));
    EXPECT_TRUE(PreparedTunnel(common_sa(), 0).serves(plain.packet));
    EXPECT_FALSE(PreparedTunnel().serves(plain.packet));
    Sa sa = common_sa();
    sa.ipv6 = true;
    EXPECT_FALSE(PreparedTunnel(sa, 0).serves(plain.packet));
    sa = common_sa();
    sa.cipher = Cipher::aes_cbc;
    EXPECT_FALSE(PreparedTunnel(sa, 0).serves(plain.packet));
    sa = common_sa();
    sa.auth = Auth::none;
    EXPECT_FALSE(PreparedTunnel(sa, 0).serves(plain.packet));
    const Buffer tagged(build_packet("{vlan: [{id: 7}], ipv4: {}, tcp: {src: 1, dst: 2}}"));
    EXPECT_FALSE(PreparedTunnel(common_sa(), 0).serves(tagged.packet));
}

}  // namespace
}  // namespace millrace::test
