// The packets that all other tests lean on.
#include <gtest/gtest.h>

#include "millrace/packet/checksum.hpp"
#include "millrace/packet/parse.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

TEST(PacketBuilder, GivesTheBytesThatScapyGives) {
    // Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")/IP(src="10.0.0.1", dst="10.0.0.2", id=7)/
    // UDP(sport=1000, dport=2000)/"hello"
    EXPECT_EQ(hex_dump(build_packet(
                  "{ipv4: {src: 10.0.0.1, dst: 10.0.0.2, id: 7}, udp: {src: 1000, dst: 2000}, payload: hello}")),
              hex_dump(*parse_hex("020000000002 020000000001 0800 4500002100070000401166c30a0000010a000002"
                                  "03e807d0000d9c4768656c6c6f")));
    // Ether(…)/Dot1Q(vlan=5, prio=3)/IPv6(src="2001:db8::1", dst="2001:db8::2")/TCP(sport=1, dport=2, flags="SA",
    // seq=1, ack=2, window=8192, options=[("MSS", 1460)])
    EXPECT_EQ(hex_dump(build_packet(
                  "{vlan: {id: 5, pcp: 3}, ipv6: {src: '2001:db8::1', dst: '2001:db8::2'}, tcp: {src: 1, dst: 2, "
                  "flags: SA, seq: 1, ack: 2, window: 8192, options: '020405b4'}}")),
              hex_dump(*parse_hex("020000000002 020000000001 8100 6005 86dd 6000000000180640"
                                  "20010db800000000000000000000000120010db8000000000000000000000002"
                                  "000100020000000100000002601220001c9c0000020405b4")));
}

TEST(PacketBuilder, RefusesWhatItDoesNotKnow) {
    for (const char* yaml : {"{ipv5: {}}", "{ipv4: {sorce: 1.2.3.4}}", "{ipv4: {src: '::1'}}", "{ipv4: {}, ipv6: {}}",
                             "{tcp: {flags: XY}}", "{tcp: {}, udp: {}}", "{hex: 'abc'}", "{payload: {hex: zz}}",
                             "{vlan: 4096}", "{ipv4: {ttl: 256}}"})
        EXPECT_THROW(build_packet(yaml), ConfigError) << yaml;
}

TEST(PacketBuilder, JoinsPayloadPartsAndPads) {
    EXPECT_EQ(build_packet("{eth: {type: 1}, payload: [ab, {hex: '00 ff'}, {repeat: xy, count: 2}], pad: 24}"),
              *parse_hex("020000000002 020000000001 0001 6162 00ff 78797879 0000"));
}

TEST(RandomPackets, AreWellFormedUnlessSpoilt) {
    Rng rng(1);
    RandomOptions options;
    options.malformed = 0;
    unsigned v6 = 0, vlan = 0, fragments = 0;
    for (int i = 0; i < 20000; ++i) {
        const Frame frame = random_packet(rng, options);
        const Layers layers = parse(frame.data(), static_cast<uint32_t>(frame.size()),
                                    static_cast<uint32_t>(frame.size()));
        ASSERT_EQ(layers.malformed, Malformed::no) << hex_dump(frame);
        v6 += layers.is_ipv6();
        vlan += layers.vlan_count > 0;
        fragments += layers.is_fragment();
    }
    EXPECT_NEAR(v6, 5800, 600);
    EXPECT_NEAR(vlan, 3000, 400);
    EXPECT_GT(fragments, 500u);
}

}  // namespace
}  // namespace millrace::test
