#include "millrace/nftest/packets/packet_builder.hpp"

#include <arpa/inet.h>

#include <stdexcept>

#include "millrace/packet/checksum.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nftest {
namespace {

void put8(Frame& frame, uint8_t value) { frame.push_back(value); }
void put16(Frame& frame, uint16_t value) {
    frame.push_back(static_cast<uint8_t>(value >> 8));
    frame.push_back(static_cast<uint8_t>(value));
}
void put32(Frame& frame, uint32_t value) {
    put16(frame, static_cast<uint16_t>(value >> 16));
    put16(frame, static_cast<uint16_t>(value));
}
template <class Bytes>
void put(Frame& frame, const Bytes& bytes) {
    frame.insert(frame.end(), bytes.begin(), bytes.end());
}
void pad_to(Frame& bytes, size_t unit) { bytes.resize((bytes.size() + unit - 1) / unit * unit); }
uint16_t as16(size_t value) { return static_cast<uint16_t>(value); }

/// Protocol of the header that follows IP, or that of "no next header".
uint8_t next_protocol(const PacketSpec& spec) {
    if (spec.tcp) return ip::kProtocolTcp;
    if (spec.udp) return ip::kProtocolUdp;
    if (spec.icmp) return spec.icmp->v6 ? ip::kProtocolIcmpv6 : ip::kProtocolIcmp;
    return spec.ipv6 ? ip::kProtocolNoNext : uint8_t{253};  // RFC 3692: for experiments
}

/// The unfolded sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1).
uint32_t pseudo_header_sum(const PacketSpec& spec, uint8_t protocol, size_t bytes) {
    Frame pseudo;
    if (spec.ipv4) {
        put32(pseudo, spec.ipv4->src);
        put32(pseudo, spec.ipv4->dst);
    } else if (spec.ipv6) {
        put(pseudo, spec.ipv6->src);
        put(pseudo, spec.ipv6->dst);
    }
    put32(pseudo, static_cast<uint32_t>(bytes));
    put32(pseudo, protocol);
    return checksum_add(0, pseudo.data(), static_cast<uint32_t>(pseudo.size()));
}

/// Header and payload of layer 4, with its checksum.
Frame build_l4(const PacketSpec& spec) {
    Frame l4;
    size_t checksum_at = 0;
    std::optional<uint16_t> given;
    if (spec.tcp) {
        const TcpHeader& tcp = *spec.tcp;
        Frame options = tcp.options;
        pad_to(options, 4);
        put16(l4, tcp.src);
        put16(l4, tcp.dst);
        put32(l4, tcp.seq);
        put32(l4, tcp.ack);
        put8(l4, static_cast<uint8_t>(tcp.offset.value_or(static_cast<uint8_t>(5 + options.size() / 4)) << 4));
        put8(l4, tcp.flags);
        put16(l4, tcp.window);
        checksum_at = l4.size();
        put16(l4, 0);
        put16(l4, tcp.urgent);
        put(l4, options);
        given = tcp.checksum;
    } else if (spec.udp) {
        put16(l4, spec.udp->src);
        put16(l4, spec.udp->dst);
        put16(l4, spec.udp->length.value_or(as16(8 + spec.payload.size())));
        checksum_at = l4.size();
        put16(l4, 0);
        given = spec.udp->checksum;
    } else if (spec.icmp) {
        put8(l4, spec.icmp->type);
        put8(l4, spec.icmp->code);
        checksum_at = l4.size();
        put16(l4, 0);
        put32(l4, spec.icmp->rest);
        given = spec.icmp->checksum;
    }
    put(l4, spec.payload);
    if (checksum_at == 0) return l4;
    const bool with_pseudo = !spec.icmp || spec.icmp->v6;
    const uint32_t start = with_pseudo ? pseudo_header_sum(spec, next_protocol(spec), l4.size()) : 0;
    uint16_t sum = checksum_finish(checksum_add(start, l4.data(), static_cast<uint32_t>(l4.size())));
    if (spec.udp && sum == 0) sum = 0xffff;  // RFC 768: 0 would say "none"
    store_be16(l4.data() + checksum_at, given.value_or(sum));
    return l4;
}

void put_ipv4(Frame& frame, const PacketSpec& spec, size_t behind) {
    const Ipv4Header& header = *spec.ipv4;
    Frame options = header.options;
    pad_to(options, 4);
    const size_t bytes = 20 + options.size();
    const size_t at = frame.size();
    const auto words = header.header_words.value_or(static_cast<uint8_t>(bytes / 4));
    put8(frame, static_cast<uint8_t>(header.version << 4 | (words & 15)));
    put8(frame, header.tos);
    put16(frame, header.length.value_or(as16(bytes + behind)));
    put16(frame, header.id);
    put16(frame, static_cast<uint16_t>((header.dont_fragment ? 0x4000 : 0) | (header.more_fragments ? 0x2000 : 0) |
                                       (header.offset & 0x1fff)));
    put8(frame, header.ttl);
    put8(frame, header.protocol.value_or(next_protocol(spec)));
    put16(frame, 0);
    put32(frame, header.src);
    put32(frame, header.dst);
    put(frame, options);
    const uint16_t sum = checksum(frame.data() + at, static_cast<uint32_t>(bytes));
    store_be16(frame.data() + at + 10, header.checksum.value_or(sum));
}

void put_ipv6(Frame& frame, const PacketSpec& spec, size_t behind) {
    const Ipv6Header& header = *spec.ipv6;
    Frame chain;
    const uint8_t last = header.next.value_or(next_protocol(spec));
    for (size_t i = 0; i < header.extensions.size(); ++i) {
        const Ipv6Extension& extension = header.extensions[i];
        Frame bytes;
        put8(bytes, i + 1 < header.extensions.size() ? header.extensions[i + 1].protocol : last);
        put8(bytes, 0);
        put(bytes, extension.body);
        const bool ah = extension.protocol == ip::kProtocolAh;
        bytes.resize(std::max<size_t>(bytes.size(), ah ? 12 : 8));
        pad_to(bytes, ah ? 4 : 8);
        const size_t units = ah ? bytes.size() / 4 - 2 : bytes.size() / 8 - 1;
        bytes[1] = extension.length.value_or(
            static_cast<uint8_t>(extension.protocol == ip::kProtocolFragment ? 0 : units));
        put(chain, bytes);
    }
    put32(frame, static_cast<uint32_t>(header.version) << 28 | static_cast<uint32_t>(header.traffic_class) << 20 |
                     (header.flow_label & 0xfffff));
    put16(frame, header.length.value_or(as16(chain.size() + behind)));
    put8(frame, header.extensions.empty() ? last : header.extensions[0].protocol);
    put8(frame, header.hop_limit);
    put(frame, header.src);
    put(frame, header.dst);
    put(frame, chain);
}

}  // namespace

Frame build(const PacketSpec& spec) {
    Frame frame;
    put(frame, spec.dst);
    put(frame, spec.src);
    for (const VlanTag& tag : spec.vlans) {
        put16(frame, tag.type);
        put16(frame, static_cast<uint16_t>(tag.pcp << 13 | (tag.id & 0xfff)));
    }
    const uint16_t by_header = spec.ipv4 ? eth::kTypeIpv4 : spec.ipv6 ? eth::kTypeIpv6 : uint16_t{0x88b5};
    put16(frame, spec.ether_type.value_or(by_header));
    const Frame l4 = build_l4(spec);
    if (spec.ipv4) put_ipv4(frame, spec, l4.size());
    if (spec.ipv6) put_ipv6(frame, spec, l4.size());
    put(frame, l4);
    if (frame.size() < spec.pad) frame.resize(spec.pad);
    return frame;
}

std::optional<Frame> parse_hex(std::string_view text) {
    Frame bytes;
    int high = -1;
    for (const char c : text) {
        if (c == ' ' || c == ':' || c == '\n') {
            if (high >= 0) return std::nullopt;
            continue;
        }
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return std::nullopt;
        if (high < 0) {
            high = digit;
        } else {
            bytes.push_back(static_cast<uint8_t>(high << 4 | digit));
            high = -1;
        }
    }
    if (high >= 0) return std::nullopt;
    return bytes;
}

std::string hex_dump(const Frame& frame) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (size_t i = 0; i < frame.size(); ++i) {
        if (i > 0) text += i % 16 == 0 ? '\n' : ' ';
        text += kDigits[frame[i] >> 4];
        text += kDigits[frame[i] & 15];
    }
    return text;
}

uint32_t ipv4(std::string_view text) {
    uint8_t bytes[4];
    if (inet_pton(AF_INET, std::string(text).c_str(), bytes) != 1) throw std::invalid_argument(std::string(text));
    return load_be32(bytes);
}

std::array<uint8_t, 16> ipv6(std::string_view text) {
    std::array<uint8_t, 16> bytes{};
    if (inet_pton(AF_INET6, std::string(text).c_str(), bytes.data()) != 1)
        throw std::invalid_argument(std::string(text));
    return bytes;
}

Frame bytes_of(std::string_view text) { return Frame(text.begin(), text.end()); }

}  // namespace millrace::nftest
