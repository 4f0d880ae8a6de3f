// Checksums and segments that senders on this machine leave to a network card.
#include "millrace/io/kernel/offload.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "millrace/packet/checksum.hpp"

namespace millrace::io {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(FinishedChecksum, MakesTheSumOfAllZero) {
    std::mt19937 rng(4);
    for (uint32_t length = 20; length < 1100; ++length) {
        Bytes frame(34 + length);
        for (uint8_t& byte : frame) byte = static_cast<uint8_t>(rng());
        const uint16_t pseudo = load_be16(&frame[50]);
        ASSERT_TRUE(finish_checksum(frame, 34, 16));
        EXPECT_EQ(checksum_finish(checksum_add(pseudo, &frame[34], length)), 0) << length;
    }
}

TEST(FinishedChecksum, IsNeverZeroWhichWouldSayThatThereIsNone) {
    Bytes frame(60);
    frame[40] = 0xff;
    frame[41] = 0xff;
    ASSERT_TRUE(finish_checksum(frame, 34, 10));
    EXPECT_EQ(load_be16(&frame[44]), 0xffff);
}

TEST(FinishedChecksum, OfSctpIsACrc) {
    // RFC 3720, B.4: 32 bytes of zeros have this CRC-32C; here with four more, so it is computed bit by bit.
    Bytes frame(34 + 40);
    for (size_t i = 34; i < frame.size(); ++i) frame[i] = static_cast<uint8_t>(i);
    ASSERT_TRUE(finish_checksum(frame, 34, 8));
    Bytes packet(frame.begin() + 34, frame.end());
    uint32_t found = 0;
    std::copy_n(packet.begin() + 8, 4, reinterpret_cast<uint8_t*>(&found));
    std::fill_n(packet.begin() + 8, 4, 0);
    uint32_t crc = 0xffffffff;
    for (const uint8_t byte : packet) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    EXPECT_EQ(found, ~crc);
}

TEST(FinishedChecksum, StaysWithinTheFrame) {
    for (uint32_t start : {0u, 30u, 59u, 60u, 65535u})
        for (uint32_t offset : {0u, 8u, 16u, 28u, 29u, 65535u}) {
            Bytes frame(60, 1);
            const bool fits = start < 60 && offset + (offset == 8 ? 4 : 2) <= 60 - start;
            EXPECT_EQ(finish_checksum(frame, start, offset), fits) << start << " " << offset;
            if (!fits) {
                EXPECT_EQ(frame, Bytes(60, 1));
            }
        }
}

/// A UDP datagram of `payload` over IPv6 with a hop-by-hop header, behind a VLAN tag.
Bytes udp_over_ipv6(size_t payload) {
    Bytes frame(18 + 40 + 8 + 8 + payload, 0);
    frame[12] = 0x81;
    frame[16] = 0x86;
    frame[17] = 0xdd;
    frame[18] = 0x60;
    frame[24] = 0;  // hop by hop
    frame[41] = 1;
    frame[57] = 2;
    frame[58] = 17;  // behind it UDP
    store_be16(&frame[66], 1000);
    store_be16(&frame[68], 53);
    for (size_t i = 0; i < payload; ++i) frame[74 + i] = static_cast<uint8_t>(i * 3);
    return frame;
}

TEST(Segmenter, MakesADatagramOfEachPieceOfUdp) {
    const Bytes frame = udp_over_ipv6(2500);
    OffloadHeader offload;
    offload.flags = OffloadHeader::kNeedsChecksum;
    offload.kind = OffloadHeader::kUdpDatagrams;
    offload.segment_bytes = 1000;
    offload.checksum_start = 66;
    offload.checksum_offset = 6;
    Segmenter segmenter;
    ASSERT_TRUE(segmenter.start(frame, offload));
    Bytes joined;
    for (const uint32_t payload : {1000u, 1000u, 500u}) {
        ASSERT_TRUE(segmenter.is_active());
        ASSERT_EQ(segmenter.next_bytes(), 74 + payload);
        Bytes out(74 + payload);
        segmenter.write(out.data());
        EXPECT_EQ(load_be16(&out[22]), 16 + payload) << "payload length of IPv6";
        EXPECT_EQ(load_be16(&out[70]), 8 + payload);
        const uint32_t pseudo = checksum_add(8 + payload + 17, &out[26], 32);
        EXPECT_EQ(checksum_finish(checksum_add(pseudo, &out[66], 8 + payload)), 0);
        joined.insert(joined.end(), out.begin() + 74, out.end());
    }
    EXPECT_FALSE(segmenter.is_active());
    EXPECT_EQ(joined, Bytes(frame.begin() + 74, frame.end()));
}

TEST(Segmenter, RefusesWhatContradictsItselfAndReadsNothingBehindTheFrame) {
    std::mt19937 rng(9);
    const Bytes sound = udp_over_ipv6(300);
    for (int i = 0; i < 100'000; ++i) {
        // A vector of just that size, so that AddressSanitizer sees what is read behind it.
        Bytes frame(sound.begin(), sound.begin() + static_cast<ptrdiff_t>(rng() % (sound.size() + 1)));
        for (uint32_t changes = rng() % 4; changes > 0 && !frame.empty(); --changes)
            frame[rng() % std::min<size_t>(frame.size(), 80)] = static_cast<uint8_t>(rng());
        OffloadHeader offload;
        offload.flags = static_cast<uint8_t>(rng() % 4 != 0);
        offload.kind = static_cast<uint8_t>(rng() % 8 + (rng() % 4 == 0 ? 0x80 : 0));
        offload.segment_bytes = static_cast<uint16_t>(rng() % 3 == 0 ? rng() : rng() % 400);
        offload.checksum_start = static_cast<uint16_t>(rng() % 3 == 0 ? rng() % 100 : rng() % 2 == 0 ? 66 : 34);
        offload.checksum_offset = static_cast<uint16_t>(rng() % 30);
        Segmenter segmenter;
        if (!segmenter.start(frame, offload)) {
            ASSERT_FALSE(segmenter.is_active());
            continue;
        }
        size_t payload = 0;
        while (segmenter.is_active()) {
            Bytes out(segmenter.next_bytes());
            ASSERT_LE(out.size(), 65535u);
            segmenter.write(out.data());
            payload += out.size();
        }
        ASSERT_GE(payload, frame.size());
    }
}

}  // namespace
}  // namespace millrace::io
