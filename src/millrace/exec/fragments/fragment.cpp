#include "millrace/exec/fragments/fragment.hpp"

#include <algorithm>

#include "millrace/packet/layers.hpp"

namespace millrace::exec {
namespace {

bool is_extension(uint8_t next) {
    return next == ip::kProtocolHopByHop || next == ip::kProtocolRouting || next == ip::kProtocolDestination ||
           next == ip::kProtocolMobility || next == ip::kProtocolAh;
}

/// As the parser has it: RFC 4302 section 2.2, RFC 8200 section 4.
uint32_t extension_bytes(uint8_t kind, uint8_t length) {
    return kind == ip::kProtocolAh ? (length + 2u) * 4u : (length + 1u) * 8u;
}

std::optional<Fragment> read_ipv4(std::span<const uint8_t> frame, Fragment fragment) {
    const uint32_t at = fragment.l3_at;
    if (frame.size() < at + ip::kIpv4Bytes || frame[at] >> 4 != 4) return std::nullopt;
    const uint8_t* header = frame.data() + at;
    const uint32_t bytes = (header[0] & 15) * 4u, total = load_be16(header + 2), flags = load_be16(header + 6);
    if ((flags & 0x3fff) == 0 || bytes < ip::kIpv4Bytes || total < bytes || at + total > frame.size())
        return std::nullopt;
    std::copy_n(header + 12, 4, fragment.key.src);
    std::copy_n(header + 16, 4, fragment.key.dst);
    fragment.key.id = load_be16(header + 4);
    fragment.key.protocol = fragment.next = header[9];
    fragment.key.version = 4;
    fragment.head_bytes = static_cast<uint16_t>(at + bytes);
    fragment.ecn = header[1] & 3;
    fragment.more = flags & 0x2000;
    fragment.dont_fragment = flags & 0x4000;
    fragment.payload_at = fragment.head_bytes;
    fragment.payload_bytes = static_cast<uint16_t>(total - bytes);
    fragment.offset = (flags & 0x1fff) * 8;
    return fragment;
}

std::optional<Fragment> read_ipv6(std::span<const uint8_t> frame, Fragment fragment) {
    uint32_t at = fragment.l3_at;
    if (frame.size() < at + ip::kIpv6Bytes || frame[at] >> 4 != 6) return std::nullopt;
    const uint8_t* header = frame.data() + at;
    const uint32_t end = at + ip::kIpv6Bytes + load_be16(header + 4);
    if (end > frame.size()) return std::nullopt;
    uint32_t next_at = at + 6;
    at += ip::kIpv6Bytes;
    for (unsigned i = 0; frame[next_at] != ip::kProtocolFragment; ++i) {
        if (!is_extension(frame[next_at]) || i == kMaxIpv6Extensions || end < at + 8) return std::nullopt;
        const uint32_t bytes = extension_bytes(frame[next_at], frame[at + 1]);
        if (end < at + bytes) return std::nullopt;
        next_at = at;
        at += bytes;
    }
    if (end < at + 8) return std::nullopt;
    const uint32_t place = load_be16(frame.data() + at + 2);
    if ((place & 0xfff9) == 0) return std::nullopt;  // an atomic fragment (RFC 6946) is a whole packet
    std::copy_n(header + 8, 16, fragment.key.src);
    std::copy_n(header + 24, 16, fragment.key.dst);
    fragment.key.id = load_be32(frame.data() + at + 4);
    fragment.key.version = 6;
    fragment.head_bytes = static_cast<uint16_t>(at);
    fragment.next_at = static_cast<uint16_t>(next_at);
    fragment.next = frame[at];
    fragment.ecn = header[1] >> 4 & 3;
    fragment.more = place & 1;
    fragment.payload_at = static_cast<uint16_t>(at + 8);
    fragment.payload_bytes = static_cast<uint16_t>(end - at - 8);
    fragment.offset = place & 0xfff8;
    return fragment;
}

}  // namespace

std::optional<Fragment> read_fragment(std::span<const uint8_t> frame, uint16_t port) {
    if (frame.size() < eth::kHeaderBytes || frame.size() > 0xffff) return std::nullopt;
    Fragment fragment;
    fragment.key.port = port;
    uint32_t at = eth::kHeaderBytes;
    uint16_t type = load_be16(frame.data() + 12);
    for (unsigned tag = 0; type == eth::kTypeVlan || type == eth::kTypeQinq || type == eth::kTypeQinqOld; ++tag) {
        if (tag == kMaxVlanTags || frame.size() < at + eth::kVlanBytes) return std::nullopt;
        if (tag < 2) fragment.key.vlans[tag] = 0x8000 | (load_be16(frame.data() + at) & 0x0fff);  // tag 0 is one, too
        type = load_be16(frame.data() + at + 2);
        at += eth::kVlanBytes;
    }
    fragment.l3_at = static_cast<uint16_t>(at);
    if (type == eth::kTypeIpv4) return read_ipv4(frame, fragment);
    if (type == eth::kTypeIpv6) return read_ipv6(frame, fragment);
    return std::nullopt;
}

bool holds_headers(std::span<const uint8_t> payload, uint8_t next, bool ipv6) {
    size_t at = 0;
    for (unsigned i = 0; ipv6 && is_extension(next) && i < kMaxIpv6Extensions; ++i) {
        if (payload.size() < at + 8) return false;
        const uint8_t kind = next;
        next = payload[at];
        at += extension_bytes(kind, payload[at + 1]);
    }
    if (at > payload.size()) return false;
    const size_t left = payload.size() - at;
    switch (next) {
        case ip::kProtocolTcp: return left >= tcp::kHeaderBytes && left >= (payload[at + 12] >> 4) * size_t{4};
        case ip::kProtocolUdp:
        case ip::kProtocolIcmp:
        case ip::kProtocolIcmpv6: return left >= 8;
        case ip::kProtocolSctp: return left >= 12;
        default: return true;
    }
}

}  // namespace millrace::exec
