// Words of a packet replaced, with what the checksums that cover them gain by it (RFC 1624, equation 3). So one pass
// over all that changes serves several checksums, whatever lies between.
#pragma once

#include "millrace/packet/checksum.hpp"
#include "millrace/packet/headers.hpp"

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

/// Lets a TCP segment that opens a connection ask for segments of at most `most` bytes (RFC 9293, section 3.7.1), where
/// it asks for longer ones. The header, all of which is in this memory, is at `tcp`. What is no option ends the search.
MILLRACE_DEVICE void clamp_mss(uint8_t* tcp, uint32_t most) {
    constexpr uint8_t kEnd = 0, kNothing = 1, kMss = 2, kMssBytes = 4;
    const uint32_t end = (tcp[12] >> 4) * 4u;
    for (uint32_t at = tcp::kHeaderBytes; at + kMssBytes <= end && tcp[at] != kEnd;) {
        if (tcp[at] == kNothing) {
            ++at;
            continue;
        }
        const uint32_t bytes = tcp[at + 1];
        if (bytes < 2) return;
        if (tcp[at] == kMss && bytes == kMssBytes) {
            const uint16_t before = load_be16(tcp + at + 2);
            if (before <= most) return;
            const auto after = static_cast<uint16_t>(most);
            store_be16(tcp + at + 2, after);
            // At an odd place its bytes are in the other halves of the sum's words.
            const bool is_odd = (at & 1) != 0;
            store_be16(tcp + 16, checksum_update(load_be16(tcp + 16), is_odd ? swap16(before) : before,
                                                 is_odd ? swap16(after) : after));
            return;
        }
        at += bytes;
    }
}

}  // namespace millrace
