// The classification table against a walk through its lines, one after the other.
#include "millrace/chain/classification/classification.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "support/packet_arena.hpp"
#include "support/packet_builder.hpp"

namespace millrace::chain {
namespace {

using test::Frame;
using test::PacketArena;

constexpr uint16_t kPorts = 5;

bool in_prefix(const Prefix& prefix, const uint8_t* address) {
    for (unsigned bit = 0; bit < prefix.length; ++bit)
        if (((prefix.bytes[bit / 8] ^ address[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
    return true;
}

bool matches(const ClassificationRule& rule, const Packet& packet) {
    const Layers& layers = packet.layers();
    if (rule.port != kNoPort && rule.port != packet.in_port()) return false;
    if (rule.vlan == 0 && layers.vlan_count != 0) return false;
    if (rule.vlan > 0 && (layers.vlan_count == 0 || layers.vlan_id != rule.vlan)) return false;
    if ((!rule.any_src || !rule.any_dst || rule.protocol >= 0) && !layers.is_ip()) return false;
    const unsigned src_at = layers.is_ipv6() ? 8 : 12, dst_at = layers.is_ipv6() ? 24 : 16;
    if (!rule.any_src && (rule.src.ipv6 != layers.is_ipv6() || !in_prefix(rule.src, packet.l3() + src_at)))
        return false;
    if (!rule.any_dst && (rule.dst.ipv6 != layers.is_ipv6() || !in_prefix(rule.dst, packet.l3() + dst_at)))
        return false;
    if (rule.protocol >= 0 && layers.protocol != rule.protocol) return false;
    if (rule.src_port_low == 0 && rule.src_port_high == 0xffff && rule.dst_port_low == 0 &&
        rule.dst_port_high == 0xffff)
        return true;
    return layers.has_ports() && packet.l4_src_port() >= rule.src_port_low &&
           packet.l4_src_port() <= rule.src_port_high && packet.l4_dst_port() >= rule.dst_port_low &&
           packet.l4_dst_port() <= rule.dst_port_high;
}

uint16_t walk(const std::vector<ClassificationRule>& rules, const Packet& packet) {
    for (const ClassificationRule& rule : rules)
        if (matches(rule, packet)) return rule.chain;
    return kNoChain;
}

/// Lines and packets from few values, so that they meet.
class Maker {
public:
    explicit Maker(uint32_t seed) : random_(seed) {}

    ClassificationRule rule(uint16_t chain) {
        ClassificationRule rule;
        rule.chain = chain;
        if (one_of(2)) rule.port = static_cast<uint16_t>(below(kPorts));
        if (one_of(4)) rule.vlan = static_cast<int32_t>(below(3));
        const bool ipv6 = one_of(3);
        if (one_of(2)) rule.src = prefix(ipv6), rule.any_src = false;
        if (one_of(2)) rule.dst = prefix(ipv6), rule.any_dst = false;
        if (one_of(3)) rule.protocol = static_cast<int32_t>(std::array{0u, 1u, 6u, 17u, 17u, 58u}[below(6)]);
        if (one_of(3)) range(rule.src_port_low, rule.src_port_high);
        if (one_of(2)) range(rule.dst_port_low, rule.dst_port_high);
        return rule;
    }

    Frame frame() {
        test::PacketSpec spec;
        for (uint32_t tags = below(3); tags > 0; --tags) spec.vlans.push_back({.id = static_cast<uint16_t>(below(3))});
        switch (below(8)) {
            case 0:
                spec.ether_type = 0x0806;
                spec.payload = Frame(28, static_cast<uint8_t>(below(256)));
                break;
            case 1:
                spec.ether_type = static_cast<uint16_t>(one_of(2) ? 0x0800 : 0x86dd);
                spec.payload = Frame(below(50), 0);
                break;
            case 2:
            case 3:
                spec.ipv6.emplace();
                std::ranges::copy(address(true), spec.ipv6->src.begin());
                std::ranges::copy(address(true), spec.ipv6->dst.begin());
                break;
            default:
                spec.ipv4.emplace();
                spec.ipv4->src = load_be32(address(false).data());
                spec.ipv4->dst = load_be32(address(false).data());
                if (one_of(6)) spec.ipv4->offset = static_cast<uint16_t>(below(2));
        }
        if (spec.ipv4 || spec.ipv6) {
            switch (below(4)) {
                case 0: spec.tcp = {.src = port(), .dst = port()}; break;
                case 1: spec.icmp = {.v6 = spec.ipv6.has_value()}; break;
                case 2: break;
                default: spec.udp = {.src = port(), .dst = port()};
            }
        }
        Frame frame = test::build(spec);
        if (one_of(10)) frame.resize(below(static_cast<uint32_t>(frame.size())) + 1);
        return frame;
    }
    uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

private:
    bool one_of(uint32_t n) { return below(n) == 0; }
    std::array<uint8_t, 16> address(bool ipv6) {
        std::array<uint8_t, 16> bytes{};
        for (unsigned i = 0; i < (ipv6 ? 16u : 4u); ++i) bytes[i] = static_cast<uint8_t>(below(2) << (i % 8));
        return bytes;
    }
    Prefix prefix(bool ipv6) {
        Prefix prefix;
        prefix.bytes = address(ipv6);
        prefix.ipv6 = ipv6;
        prefix.length = static_cast<uint8_t>(below(ipv6 ? 129 : 33));
        // As they are read: no bits behind the length.
        for (unsigned bit = prefix.length; bit < 128; ++bit)
            prefix.bytes[bit / 8] = static_cast<uint8_t>(prefix.bytes[bit / 8] & ~(0x80u >> bit % 8));
        return prefix;
    }
    uint16_t port() { return static_cast<uint16_t>(one_of(6) ? below(65536) : below(40)); }
    void range(uint16_t& low, uint16_t& high) {
        low = port();
        high = static_cast<uint16_t>(one_of(2) ? low : std::max(low, port()));
    }
    std::mt19937 random_;
};

class ClassificationSizes : public testing::TestWithParam<size_t> {};

TEST_P(ClassificationSizes, FindWhatAWalkThroughAllLinesFinds) {
    Maker maker(static_cast<uint32_t>(GetParam()) + 1);
    std::vector<ClassificationRule> rules;
    for (size_t i = 0; i < GetParam(); ++i) rules.push_back(maker.rule(static_cast<uint16_t>(i)));
    const Classification table(rules, kPorts);
    size_t found = 0, ip = 0;
    PacketArena arena;
    for (int i = 0; i < 3000; ++i) {
        Packet& packet = arena.add(maker.frame());
        packet.set_in_port(static_cast<uint16_t>(maker.below(kPorts)));
        const uint16_t wanted = walk(rules, packet);
        ASSERT_EQ(table.chain_of(packet), wanted) << "packet " << i;
        if (const uint16_t whole = table.chain_of_port(packet.in_port()); whole != kNoChain) {
            ASSERT_EQ(whole, wanted);
        }
        found += wanted != kNoChain;
        ip += packet.layers().is_ip();
    }
    EXPECT_GT(ip, 1000u);
    if (GetParam() >= 31) {
        EXPECT_GT(found, 300u);
    }
    for (uint16_t port = 0; port < kPorts; ++port)
        EXPECT_EQ(table.uses_port(port), std::ranges::any_of(rules, [&](const ClassificationRule& rule) {
                      return rule.port == kNoPort || rule.port == port;
                  }));
}

INSTANTIATE_TEST_SUITE_P(Of, ClassificationSizes,
                         testing::Values(0, 1, 2, 3, 7, 31, 32, 33, 1000, 1023, 1024, 1025, 5000));

TEST(Classification, LeavesToThePortWhatThePortDecides) {
    ClassificationRule tagged, rest;
    tagged.port = 0;
    tagged.vlan = 7;
    tagged.chain = 1;
    rest.port = 1;
    rest.chain = 2;
    const Classification table({tagged, rest}, 3);
    EXPECT_EQ(table.chain_of_port(0), kNoChain);
    EXPECT_EQ(table.chain_of_port(1), 2u);
    EXPECT_EQ(table.chain_of_port(2), kNoChain);
    EXPECT_TRUE(table.uses_port(0));
    EXPECT_TRUE(table.uses_port(1));
    EXPECT_FALSE(table.uses_port(2));
    EXPECT_FALSE(table.uses_port(3));
    EXPECT_FALSE(table.uses_port(kNoPort));
}

}  // namespace
}  // namespace millrace::chain
