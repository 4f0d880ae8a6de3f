// TCP as senders leave it to network cards, and what cards make of it.
#pragma once

#include "io/interfaces/cable.hpp"

namespace millrace::io::test {

/// A TCP segment as its sender leaves it to a card: the sum of the pseudo header stands where the checksum belongs.
inline Bytes tcp_frame(size_t payload, bool is_ipv6) {
    const size_t l4 = is_ipv6 ? 54 : 34;
    Bytes frame(l4 + 20 + payload);
    const uint8_t ethernet[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};
    std::copy(std::begin(ethernet), std::end(ethernet), frame.begin());
    store_be16(&frame[12], is_ipv6 ? 0x86dd : 0x0800);
    frame[14] = is_ipv6 ? 0x60 : 0x45;
    if (is_ipv6) {
        store_be16(&frame[18], static_cast<uint16_t>(20 + payload));
        frame[20] = 6;
        frame[21] = 64;
        frame[22] = frame[38] = 0x20;
        frame[23] = frame[39] = 0x01;
        frame[37] = 1;
        frame[53] = 2;
    } else {
        store_be16(&frame[16], static_cast<uint16_t>(40 + payload));
        store_be16(&frame[18], 0xfff0);
        frame[22] = 64;
        frame[23] = 6;
        store_be32(&frame[26], 0x0a000001);
        store_be32(&frame[30], 0x0a000002);
        store_be16(&frame[24], checksum(&frame[14], 20));
    }
    store_be16(&frame[l4], 1000);
    store_be16(&frame[l4 + 2], 80);
    store_be32(&frame[l4 + 4], 0xfffffff0);
    frame[l4 + 12] = 0x50;
    frame[l4 + 13] = 0x99;  // FIN, PSH, ACK, CWR
    for (size_t i = 0; i < payload; ++i) frame[l4 + 20 + i] = static_cast<uint8_t>(i * 7 >> 3);
    const uint32_t addresses = is_ipv6 ? 22 : 26, address_bytes = is_ipv6 ? 32 : 8;
    const uint32_t pseudo = checksum_add(static_cast<uint32_t>(20 + payload) + 6, &frame[addresses], address_bytes);
    store_be16(&frame[l4 + 16], static_cast<uint16_t>(~checksum_finish(pseudo)));
    return frame;
}

inline OffloadHeader tcp_offload(uint16_t segment_bytes, bool is_ipv6) {
    OffloadHeader offload;
    offload.flags = OffloadHeader::kNeedsChecksum;
    offload.kind = segment_bytes == 0 ? OffloadHeader::kNone : is_ipv6 ? OffloadHeader::kTcp6 : OffloadHeader::kTcp4;
    offload.segment_bytes = segment_bytes;
    offload.checksum_start = is_ipv6 ? 54 : 34;
    offload.checksum_offset = 16;
    offload.header_bytes = static_cast<uint16_t>(offload.checksum_start + 20);
    return offload;
}

/// What the card would have sent: every segment is right by itself, and together they hold the payload.
inline void expect_segments(const std::vector<Bytes>& segments, const Bytes& whole, size_t segment_bytes,
                            bool is_ipv6) {
    const uint32_t l4 = is_ipv6 ? 54 : 34;
    const size_t payload = whole.size() - l4 - 20;
    ASSERT_EQ(segments.size(), (payload + segment_bytes - 1) / segment_bytes);
    Bytes joined(whole.begin(), whole.begin() + l4 + 20);
    for (size_t i = 0; i < segments.size(); ++i) {
        const Bytes& segment = segments[i];
        ASSERT_EQ(segment.size(), l4 + 20 + std::min(segment_bytes, payload - i * segment_bytes));
        const auto size = static_cast<uint32_t>(segment.size());
        if (is_ipv6) {
            EXPECT_EQ(load_be16(&segment[18]), size - 54);
        } else {
            EXPECT_EQ(load_be16(&segment[16]), size - 14);
            EXPECT_EQ(load_be16(&segment[18]), static_cast<uint16_t>(0xfff0 + i));
            EXPECT_EQ(checksum(&segment[14], 20), 0);
        }
        const uint32_t pseudo = checksum_add(size - l4 + 6, &segment[is_ipv6 ? 22 : 26], is_ipv6 ? 32 : 8);
        EXPECT_EQ(checksum_finish(checksum_add(pseudo, &segment[l4], size - l4)), 0) << "segment " << i;
        EXPECT_EQ(load_be32(&segment[l4 + 4]), static_cast<uint32_t>(0xfffffff0 + i * segment_bytes));
        const bool is_last = i + 1 == segments.size();
        EXPECT_EQ(segment[l4 + 13], 0x10 | (i == 0 ? 0x80 : 0) | (is_last ? 0x09 : 0));
        joined.insert(joined.end(), segment.begin() + l4 + 20, segment.end());
    }
    EXPECT_TRUE(std::equal(joined.begin() + l4 + 20, joined.end(), whole.begin() + l4 + 20));
}

}  // namespace millrace::io::test
