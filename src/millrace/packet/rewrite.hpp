// Words of a packet replaced, with what the checksums that cover them gain by it (RFC 1624, equation 3). So one pass
// over all that changes serves several checksums, whatever lies between.
#pragma once

#include "millrace/packet/checksum.hpp"

namespace millrace {

/// What a checksum's sum gains when the 16-bit word at `at` becomes `to`. Writes it.
MILLRACE_DEVICE uint32_t put_word(uint8_t* at, uint16_t to) {
    const uint16_t from = load_be16(at);
    store_be16(at, to);
    return static_cast<uint16_t>(~from) + static_cast<uint32_t>(to);
}
/// The same of an IPv4 address, which is given as it lies in packets.
MILLRACE_DEVICE uint32_t put_ipv4(uint8_t* at, uint32_t address) {
    const uint32_t word = swap32(address);
    const uint32_t gained = put_word(at, static_cast<uint16_t>(word >> 16));
    return gained + put_word(at + 2, static_cast<uint16_t>(word));
}
/// A checksum whose sum has gained that much.
MILLRACE_DEVICE uint16_t with_gain(uint16_t checksum, uint32_t gained) {
    return checksum_finish(static_cast<uint16_t>(~checksum) + gained);
}
/// Lets a checksum follow; what that adds to a sum that covers it.
MILLRACE_DEVICE uint32_t follow(uint8_t* checksum, uint32_t gained) {
    return put_word(checksum, with_gain(load_be16(checksum), gained));
}
/// The same of UDP, where 0 says that there is none (RFC 768; RFC 8200, section 8.1).
MILLRACE_DEVICE uint32_t follow_udp(uint8_t* checksum, uint32_t gained) {
    const uint16_t before = load_be16(checksum);
    if (before == 0) return 0;
    const uint16_t after = with_gain(before, gained);
    return put_word(checksum, after == 0 ? 0xffff : after);
}

}  // namespace millrace
