// The prepared tunnel against the headers that the device half writes.
#include "millrace/nf/ipsec/prepared_tunnel.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "millrace/packet/lanes.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

using namespace nf::ipsec;

/// A frame with room at both ends, all of it to be compared.
struct Buffer {
    static constexpr uint32_t kHeadroom = 128, kTailroom = 64;
    explicit Buffer(const Frame& frame) : bytes(kHeadroom + frame.size() + kTailroom, 0xa5) {
        std::copy(frame.begin(), frame.end(), bytes.begin() + kHeadroom);
        const auto length = static_cast<uint32_t>(frame.size());
        packet.attach(bytes.data() + kHeadroom, length, length, kHeadroom, kTailroom);
        packet.parse();
    }
    size_t offset(const uint8_t* place) const { return static_cast<size_t>(place - bytes.data()); }
    auto shape(const Esp& esp) const {
        const Layers& l = packet.layers();
        return std::tuple(offset(packet.data()), packet.length(), packet.present(), packet.headroom(), packet.tailroom(), offset(esp.header),
                          esp.iv_bytes, esp.text_bytes, l.end, l.ether_type, l.vlan_id, l.l4_offset, l.payload_offset, l.l3_offset, l.protocol,
                          l.flags, l.vlan_count, l.malformed);
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
        const Route route = outbound_route(actual.packet, tables, 0);
        ASSERT_EQ(route.outcome, kProtected);
        const PreparedTunnel tunnel(sa);
        if (!tunnel.serves(actual.packet)) {
            ++others;
            ASSERT_GT(actual.packet.layers().vlan_count, 0);
            continue;
        }
        ++prepared;
        of_ipv6 += actual.packet.layers().is_ipv6();
        const auto sequence = static_cast<uint32_t>(rng());
        const Esp from_device = encapsulate(expected.packet, tables, route, sequence, Lanes<1>{});
        expected.packet.parse();
        const Esp esp = tunnel.encapsulate(actual.packet, route, sequence);
        ASSERT_EQ(actual.shape(esp), expected.shape(from_device)) << hex_dump(frame);
        // The ICV's room holds anything as yet.
        std::fill_n(esp.icv(), kIcvBytes, uint8_t{0});
        std::fill_n(from_device.icv(), kIcvBytes, uint8_t{0});
        ASSERT_EQ(hex_dump(actual.bytes), hex_dump(expected.bytes));
    }
    EXPECT_GT(prepared, 5000u);
    EXPECT_GT(others, 100u);
    EXPECT_GT(of_ipv6, 500u);
}

TEST(PreparedTunnel, IsOnlyForWhatItKnows) {
    const Buffer plain(build_packet("{ipv4: {}, tcp: {src: 1, dst: 2}}"));
    EXPECT_TRUE(PreparedTunnel(common_sa()).serves(plain.packet));
    EXPECT_FALSE(PreparedTunnel().serves(plain.packet));
    Sa sa = common_sa();
    sa.ipv6 = true;
    EXPECT_FALSE(PreparedTunnel(sa).serves(plain.packet));
    sa = common_sa();
    sa.cipher = Cipher::aes_cbc;
    EXPECT_FALSE(PreparedTunnel(sa).serves(plain.packet));
    sa = common_sa();
    sa.auth = Auth::none;
    EXPECT_FALSE(PreparedTunnel(sa).serves(plain.packet));
    const Buffer tagged(build_packet("{vlan: [{id: 7}], ipv4: {}, tcp: {src: 1, dst: 2}}"));
    EXPECT_FALSE(PreparedTunnel(common_sa()).serves(tagged.packet));
}

}  // namespace
}  // namespace millrace::test
