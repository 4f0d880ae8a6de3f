// One fragment of an IP packet, as it lies in its frame.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "millrace/packet/headers.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::exec {

/// What fragments of one packet share (RFC 791, section 3.2; RFC 8200, section 4.5), and where it was received: other
/// ports and VLANs may use the same addresses.
struct FragmentKey {
    uint8_t src[16] = {};  ///< network order; IPv4 in the first four bytes
    uint8_t dst[16] = {};
    uint32_t id = 0;
    uint16_t vlans[2] = {};  ///< the two outermost
    uint16_t port = 0;
    uint8_t protocol = 0;  ///< 0 in IPv6, where fragments need not agree in it
    uint8_t version = 0;   ///< 4 or 6
};
static_assert(sizeof(FragmentKey) == 44, "compared byte by byte");

/// Offsets are bytes from the start of the frame.
struct Fragment {
    FragmentKey key;
    uint16_t l3_at = 0;
    uint16_t head_bytes = 0;  ///< of all headers that the whole packet has, too: without IPv6's fragment header
    uint16_t next_at = 0;     ///< IPv6: where the header before the fragment header names what follows
    uint8_t next = 0;         ///< what the fragmented part begins with
    uint8_t ecn = 0;          ///< the two bits of the IP header
    bool more = false;        ///< it is not the last
    bool dont_fragment = false;
    uint16_t payload_at = 0, payload_bytes = 0;
    uint32_t offset = 0;  ///< of the payload in the fragmented part
};

/// Nothing of a frame that is no fragment, or whose IP headers do not hold: the parser has a name for these.
std::optional<Fragment> read_fragment(std::span<const uint8_t> frame, uint16_t port);

/// Whether a frame is of the plain kinds that are no fragments, by a look at few bytes.
inline bool is_plainly_whole(const uint8_t* frame, uint32_t length) {
    constexpr uint32_t kIp = eth::kHeaderBytes;
    if (length < kIp + ip::kIpv4Bytes) return true;
    const uint16_t type = load_be16(frame + 12);
    if (type == eth::kTypeIpv4) return (load_be16(frame + kIp + 6) & 0x3fff) == 0;
    if (type == eth::kTypeIpv6) {
        const uint8_t next = frame[kIp + 6];
        return next == ip::kProtocolTcp || next == ip::kProtocolUdp || next == ip::kProtocolIcmpv6;
    }
    return type != eth::kTypeVlan && type != eth::kTypeQinq && type != eth::kTypeQinqOld;
}

/// Whether the beginning of a fragmented part holds all headers up to and with that of layer 4 (RFC 1858, RFC 7112).
bool holds_headers(std::span<const uint8_t> payload, uint8_t next, bool ipv6);

}  // namespace millrace::exec
