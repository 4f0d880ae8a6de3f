#include "millrace/packet/checksum.hpp"

#include <gtest/gtest.h>

#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

TEST(Checksum, IsThatOfRfc1071) {
    // RFC 1071 section 3: these bytes sum to ddf2.
    const uint8_t data[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    EXPECT_EQ(checksum(data, sizeof data), static_cast<uint16_t>(~0xddf2));
}

TEST(Checksum, CountsAnOddLastByteAsTheHighByteOfAWord) {
    const uint8_t odd[] = {0x12, 0x34, 0x56};
    const uint8_t even[] = {0x12, 0x34, 0x56, 0x00};
    EXPECT_EQ(checksum(odd, 3), checksum(even, 4));
    EXPECT_EQ(checksum(odd, 0), 0xffff);
}

TEST(Checksum, IsZeroOverAHeaderThatCarriesTheRightOne) {
    Rng rng(1);
    for (int i = 0; i < 1000; ++i) {
        RandomOptions options;
        options.ipv6 = options.vlan = options.not_ip = 0;
        const PacketSpec spec = random_spec(rng, options);
        const Frame frame = build(spec);
        EXPECT_EQ(checksum(frame.data() + 14, (frame[14] & 15) * 4u), 0);
    }
}

TEST(PlainIpv4Sum, IsRightWhereTheChecksumIs) {
    Rng rng(3);
    size_t right = 0;
    for (int i = 0; i < 100000; ++i) {
        uint8_t header[20];
        // Bytes of all ones carry the most.
        for (uint8_t& byte : header) byte = rng() % 3 == 0 ? 0xff : static_cast<uint8_t>(rng());
        header[0] = 0x45;
        store_be16(header + 10, 0);
        store_be16(header + 10, checksum(header, sizeof header));
        if (i % 2 == 0) header[rng() % 20] ^= static_cast<uint8_t>(rng() % 4);
        right += is_plain_ipv4_sum_right(header);
        ASSERT_EQ(is_plain_ipv4_sum_right(header), checksum(header, sizeof header) == 0);
    }
    EXPECT_GT(right, 50000u);
    EXPECT_LT(right, 90000u);
}

TEST(Checksum, FoldsEveryCarryOfALongPacket) {
    const Frame ones(65534, 0xff);
    EXPECT_EQ(checksum(ones.data(), static_cast<uint32_t>(ones.size())), 0);
}

TEST(ChecksumUpdate, IsRightInTheCaseOfRfc1624) {
    // RFC 1624 section 4: checksum dd2f, a word goes from 5555 to 3285, the new checksum is 0000.
    EXPECT_EQ(checksum_update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

TEST(ChecksumUpdate, EqualsTheChecksumMadeAnew) {
    Rng rng(2);
    for (int i = 0; i < 100000; ++i) {
        uint8_t header[20];
        for (uint8_t& byte : header) byte = static_cast<uint8_t>(rng());
        header[19] = 1;  // a header of zeros alone has two checksums; no real header is one
        store_be16(header + 10, 0);
        const uint16_t before = checksum(header, sizeof header);
        const size_t word = 2 * (rng() % 5);
        const uint16_t from = load_be16(header + word);
        const uint16_t to = static_cast<uint16_t>(i % 3 == 0 ? 0 : i % 3 == 1 ? 0xffff : rng());
        store_be16(header + word, to);
        const uint16_t after = checksum(header, sizeof header);
        ASSERT_EQ(checksum_update(before, from, to), after);
    }
}

}  // namespace
}  // namespace millrace::test
