#include "millrace/nf/classify/rules/five_tuple.hpp"

#include <gtest/gtest.h>

namespace millrace::nf::classify {
namespace {

FiveTupleMatch match_of(const std::string& yaml) { return FiveTupleMatch::parse(Config::parse(yaml, "match.yaml")); }

HeaderKey tcp4(uint32_t src, uint32_t dst, uint16_t src_port, uint16_t dst_port) {
    HeaderKey key;
    key.ip_version = 4;
    key.src_high = static_cast<uint64_t>(src) << 32;
    key.dst_high = static_cast<uint64_t>(dst) << 32;
    key.src_port = src_port;
    key.dst_port = dst_port;
    key.protocol = 6;
    key.has = HeaderKey::kPorts | HeaderKey::kFlags;
    return key;
}

Diagnostic mistake_in(const std::string& yaml) {
    try {
        match_of(yaml);
    } catch (const ConfigError& error) {
        return error.diagnostics().front();
    }
    ADD_FAILURE() << "accepted: " << yaml;
    return {};
}

TEST(FiveTupleMatch, MatchesInsideEachListAndNotBeside) {
    const auto match = match_of("{src: [10.0.0.0/8, 192.0.2.1], dst: any, protocol: tcp, dst-port: [80, 8000-8099]}");
    EXPECT_TRUE(match.matches(tcp4(0x0a000000, 1, 5, 80)));
    EXPECT_TRUE(match.matches(tcp4(0x0affffff, 1, 5, 8000)));
    EXPECT_TRUE(match.matches(tcp4(0xc0000201, 1, 5, 8099)));
    EXPECT_FALSE(match.matches(tcp4(0x09ffffff, 1, 5, 80)));
    EXPECT_FALSE(match.matches(tcp4(0x0b000000, 1, 5, 80)));
    EXPECT_FALSE(match.matches(tcp4(0xc0000202, 1, 5, 80)));
    EXPECT_FALSE(match.matches(tcp4(0x0a000000, 1, 5, 81)));
    EXPECT_FALSE(match.matches(tcp4(0x0a000000, 1, 5, 7999)));
    EXPECT_FALSE(match.matches(tcp4(0x0a000000, 1, 5, 8100)));
    HeaderKey udp = tcp4(0x0a000000, 1, 5, 80);
    udp.protocol = 17;
    EXPECT_FALSE(match.matches(udp));
}

TEST(FiveTupleMatch, KeepsTheAddressFamiliesApart) {
    HeaderKey key;
    key.ip_version = 6;
    key.src_high = 0x0a00000000000000;
    EXPECT_FALSE(match_of("src: 10.0.0.0/8").matches(key));
    EXPECT_TRUE(match_of("src: 'a00::/16'").matches(key));
    EXPECT_TRUE(match_of("src: '::/0'").matches(key));
    EXPECT_FALSE(match_of("src: '::/0'").matches(tcp4(1, 2, 3, 4)));
    EXPECT_FALSE(match_of("src: 0.0.0.0/0").matches(key));
}

TEST(FiveTupleMatch, ComparesEveryBitOfAnIpv6Prefix) {
    for (unsigned length = 0; length <= 128; ++length) {
        Prefix prefix;
        prefix.ipv6 = true;
        prefix.length = static_cast<uint8_t>(length);
        for (unsigned bit = 0; bit < 128; ++bit) {
            const uint64_t high = bit < 64 ? uint64_t{1} << (63 - bit) : 0;
            const uint64_t low = bit < 64 ? 0 : uint64_t{1} << (127 - bit);
            EXPECT_EQ(contains(prefix, high, low), bit >= length) << length << " " << bit;
        }
    }
}

TEST(FiveTupleMatch, MatchesPacketsWithoutPortsOnlyWhereAllPortsMatch) {
    HeaderKey key = tcp4(1, 2, 0, 0);
    key.has = 0;
    EXPECT_TRUE(match_of("protocol: 6").matches(key));
    EXPECT_TRUE(match_of("dst-port: 0-65535").matches(key));
    EXPECT_FALSE(match_of("dst-port: 0").matches(key));
    EXPECT_FALSE(match_of("src-port: 0-65534").matches(key));
}

TEST(FiveTupleMatch, MatchesOtherTrafficOnlyWhenItAsksForNothing) {
    EXPECT_TRUE(match_of("{}").matches(HeaderKey{}));
    EXPECT_TRUE(match_of("src: any").matches(HeaderKey{}));
    EXPECT_FALSE(match_of("src: 0.0.0.0/0").matches(HeaderKey{}));
    EXPECT_FALSE(match_of("protocol: 0").matches(HeaderKey{}));
}

TEST(FiveTupleMatch, PointsAtMistakes) {
    Diagnostic mistake = mistake_in("src: any\ndst: [10.0.0.0/8, 10.0.0.1/8]");
    EXPECT_EQ(mistake.where.line, 2u);
    EXPECT_EQ(mistake.where.column, 19u);
    EXPECT_EQ(mistake.hint, "write 10.0.0.0/8");
    EXPECT_EQ(mistake_in("protocol: tcpp").hint, "did you mean 'tcp'?");
    EXPECT_EQ(mistake_in("dst-port: 90-80").hint, "write 80-90");
    EXPECT_EQ(mistake_in("dst-port: 65536").message, "'65536' is not a port");
    EXPECT_EQ(mistake_in("dst-port: 1-").message, "'' is not a port");
    EXPECT_EQ(mistake_in("dst-port: [any, 80]").message, "'any' stands in a list with other values");
    EXPECT_EQ(mistake_in("dst-port:").message, "a value is missing here");
    EXPECT_EQ(mistake_in("protocol: 256").message, "'256' is not a protocol");
}

TEST(Words, TcpFlagsReadAndWriteTheSameText) {
    for (const char* text : {"S/SA", "/S", "A/A", "FSRPAUEW/FSRPAUEW"})
        EXPECT_EQ(tcp_flags_text(parse_tcp_flags(text)), text);
    EXPECT_EQ(parse_tcp_flags("S/SA"), (ByteMatch{0x02, 0x12}));
    EXPECT_THROW(parse_tcp_flags("S"), WordMistake);
    EXPECT_THROW(parse_tcp_flags("S/"), WordMistake);
    EXPECT_THROW(parse_tcp_flags("X/S"), WordMistake);
    EXPECT_THROW(parse_tcp_flags("S/A"), WordMistake);
}

}  // namespace
}  // namespace millrace::nf::classify
