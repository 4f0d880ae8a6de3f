// The Internet checksum: computed whole (RFC 1071) and updated in place (RFC 1624).
#pragma once

#include "millrace/packet/bytes.hpp"

namespace millrace {

/// One's complement sum of `count` bytes, not folded; an odd last byte counts as the high byte of a word.
MILLRACE_DEVICE uint32_t checksum_add(uint32_t sum, const uint8_t* data, uint32_t count) {
    uint32_t i = 0;
    for (; i + 1 < count; i += 2) sum += load_be16(data + i);
    if (i < count) sum += static_cast<uint32_t>(data[i]) << 8;
    return sum;
}

/// Folds the carries back in and complements: the checksum as it stands in the header (host order).
MILLRACE_DEVICE uint16_t checksum_finish(uint32_t sum) {
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
}

/// The checksum of a header whose checksum field counts as it stands: 0 says that it is right.
MILLRACE_DEVICE uint16_t checksum(const uint8_t* data, uint32_t count) {
    return checksum_finish(checksum_add(0, data, count));
}

/// Whether the checksum of a 20-byte IPv4 header is right. The sum may be taken in any byte order and by wider words
/// (RFC 1071, section 2).
MILLRACE_DEVICE bool is_plain_ipv4_sum_right(const uint8_t* header) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < 20; i += 4) sum += load_raw<uint32_t>(header + i);
    sum = (sum & 0xffffffff) + (sum >> 32);
    return checksum_finish(static_cast<uint32_t>((sum & 0xffff) + (sum >> 16))) == 0;
}

/// The checksum after a 16-bit word that it covers went from `from` to `to` (RFC 1624, equation 3).
MILLRACE_DEVICE uint16_t checksum_update(uint16_t checksum, uint16_t from, uint16_t to) {
    uint32_t sum = static_cast<uint16_t>(~checksum) + static_cast<uint32_t>(static_cast<uint16_t>(~from)) + to;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
}

}  // namespace millrace
