// Rules as value and mask over a key of 32-bit words, the form that the hashing engines and the linear
// search work on (Varvello et al., "Multi-Layer Packet Classification with Graphics Processing Units",
// CoNEXT 2014, section 4).
//
// A key has the source and destination port in its last word but one, the small fields in its last
// word. The words before them are the addresses (5-tuples) or what OpenFlow adds (nf/switch).
#pragma once

#include "millrace/nf/classify/key.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

inline constexpr uint32_t kNoRule = 0xffffffffu;

/// A set of positions, a bit for each; empty: none.
using Positions = View<uint32_t>;
MILLRACE_DEVICE bool has(Positions positions, uint32_t position) {
    return !positions.empty() && (positions[position / 32] >> position % 32 & 1) != 0;
}

/// A key of `Words` words: 4 for IPv4's 5-tuple (128 bits), 10 for IPv6's (320 bits), 9 for the 12 fields of
/// OpenFlow (288 bits).
template <unsigned Words>
struct TernaryKey {
    uint32_t words[Words];
};

/// The last word: the protocol in bits 31 to 24, TCP flags or the type of service in 23 to 16, of a 5-tuple the
/// connection in 15 to 8 (`connection_bit`), and what the packet has (HeaderKey::Has) in the lowest.
MILLRACE_DEVICE constexpr uint32_t small_fields(uint8_t protocol, uint8_t flags, uint8_t has) {
    return static_cast<uint32_t>(protocol) << 24 | static_cast<uint32_t>(flags) << 16 | has;
}
/// A bit for each kind of connection, so that a rule for some of them is one value and mask: the bits of the others
/// are zero.
MILLRACE_DEVICE constexpr uint32_t connection_bit(Connection connection) {
    return 0x100u << static_cast<uint32_t>(connection);
}

/// The words of a 5-tuple of IPv4 (4) or IPv6 (10).
template <unsigned Words>
MILLRACE_DEVICE TernaryKey<Words> ternary_key(const HeaderKey& key) {
    static_assert(Words == 4 || Words == 10);
    TernaryKey<Words> result;
    const auto top = [](uint64_t half) { return static_cast<uint32_t>(half >> 32); };
    if constexpr (Words == 4) {
        result.words[0] = top(key.src_high);
        result.words[1] = top(key.dst_high);
    } else {
        const uint64_t halves[] = {key.src_high, key.src_low, key.dst_high, key.dst_low};
        for (unsigned i = 0; i < 4; ++i) {
            result.words[2 * i] = top(halves[i]);
            result.words[2 * i + 1] = static_cast<uint32_t>(halves[i]);
        }
    }
    result.words[Words - 2] = static_cast<uint32_t>(key.src_port) << 16 | key.dst_port;
    result.words[Words - 1] = small_fields(key.protocol, key.tcp_flags, key.has) | connection_bit(key.connection);
    return result;
}

/// The 5-tuple that `ternary_key` makes that key of.
template <unsigned Words>
MILLRACE_DEVICE HeaderKey header_key(const TernaryKey<Words>& key) {
    static_assert(Words == 4 || Words == 10);
    HeaderKey header;
    header.ip_version = Words == 4 ? 4 : 6;
    const auto half = [&](unsigned word) { return static_cast<uint64_t>(key.words[word]) << 32; };
    if constexpr (Words == 4) {
        header.src_high = half(0);
        header.dst_high = half(1);
    } else {
        header.src_high = half(0) | key.words[1];
        header.src_low = half(2) | key.words[3];
        header.dst_high = half(4) | key.words[5];
        header.dst_low = half(6) | key.words[7];
    }
    header.src_port = static_cast<uint16_t>(key.words[Words - 2] >> 16);
    header.dst_port = static_cast<uint16_t>(key.words[Words - 2]);
    header.protocol = static_cast<uint8_t>(key.words[Words - 1] >> 24);
    header.tcp_flags = static_cast<uint8_t>(key.words[Words - 1] >> 16);
    header.has = static_cast<uint8_t>(key.words[Words - 1]);
    while (header.connection != Connection::invalid && (key.words[Words - 1] & connection_bit(header.connection)) == 0)
        header.connection = static_cast<Connection>(static_cast<uint8_t>(header.connection) + 1);
    return header;
}

/// How device tables are aligned: a GPU reads 16 bytes at a time, but only from there.
inline constexpr size_t kTableAlignment = 16;

/// Whether a key's ports lie in two ranges, source ports in the upper halves.
template <unsigned Words>
MILLRACE_DEVICE bool ports_match(const TernaryKey<Words>& key, uint32_t low, uint32_t high) {
    const uint32_t ports = key.words[Words - 2];
    return (ports >> 16) >= (low >> 16) && (ports >> 16) <= (high >> 16) && (ports & 0xffffu) >= (low & 0xffffu) &&
           (ports & 0xffffu) <= (high & 0xffffu);
}

/// Matches the keys with `(key & mask) == value` whose ports lie in two ranges besides. Bits of `value`
/// outside of `mask` are zero. Ranges that are prefixes are in value and mask; of the others, value and
/// mask have the bits that all ports of the range share.
template <unsigned Words>
struct alignas(kTableAlignment) TernaryRule {
    static constexpr unsigned kPorts = Words - 2;
    static constexpr unsigned kSmall = Words - 1;

    uint32_t value[Words] = {};
    uint32_t mask[Words] = {};
    uint32_t ports_low = 0;  ///< lowest source port in the upper half, destination port in the lower
    uint32_t ports_high = 0xffffffffu;
    uint32_t position = 0;  ///< in order of match, from 0: the lowest that matches wins

    MILLRACE_DEVICE bool matches(const TernaryKey<Words>& key) const {
        uint32_t differs = 0;
        for (unsigned i = 0; i < Words; ++i) differs |= (key.words[i] & mask[i]) ^ value[i];
        return differs == 0 && ports_match<Words>(key, ports_low, ports_high);
    }
};

}  // namespace millrace::nf::classify
