#include "millrace/io/kernel/offload.hpp"

#include <rte_hash_crc.h>

#include <algorithm>
#include <cstring>

#include "millrace/packet/checksum.hpp"
#include "millrace/packet/headers.hpp"
#include "millrace/packet/parse.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::io {
namespace {

/// Sums may be taken by wider words (RFC 1071, section 2); the result is folded to 16 bits.
uint32_t sum_of(const uint8_t* data, uint32_t count) {
    uint64_t sum = 0;
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) sum += load_raw<uint32_t>(data + i);
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return checksum_add(swap16(static_cast<uint16_t>(sum)), data + i, count - i);
}

/// A CRC-32C in place of a sum (RFC 9260, appendix A).
bool finish_sctp(std::span<uint8_t> packet) {
    if (packet.size() < kSctpSumAt + 4) return false;
    store_raw<uint32_t>(packet.data() + kSctpSumAt, 0);
    store_raw<uint32_t>(packet.data() + kSctpSumAt,
                        ~rte_hash_crc(packet.data(), static_cast<uint32_t>(packet.size()), UINT32_MAX));
    return true;
}

bool is_vlan(uint16_t type) { return type == eth::kTypeVlan || type == eth::kTypeQinq || type == eth::kTypeQinqOld; }

/// Whether the IP header at `l3` is followed by a TCP or UDP header at `l4`, as far as that can be told without walking
/// through extension headers.
bool leads_to(const uint8_t* frame, uint32_t l3, uint32_t l4, bool is_tcp) {
    const uint8_t protocol = is_tcp ? ip::kProtocolTcp : ip::kProtocolUdp;
    if (frame[l3] >> 4 == 4) return l3 + uint32_t{4} * (frame[l3] & 15) == l4 && frame[l3 + 9] == protocol;
    if (frame[l3] >> 4 != 6 || l4 < l3 + ip::kIpv6Bytes) return false;
    // Headers of tunnels are no extension headers; those are an even number of bytes.
    const uint8_t next = frame[l3 + 6];
    if (l4 == l3 + ip::kIpv6Bytes) return next == protocol;
    return next == ip::kProtocolHopByHop || next == ip::kProtocolRouting || next == ip::kProtocolDestination;
}

}  // namespace

std::optional<OffloadHeader> offload_of(std::span<const uint8_t> head, uint32_t bytes, uint16_t segment_bytes) {
    const Layers layers = parse(head.data(), bytes, static_cast<uint32_t>(head.size()));
    const bool is_udp = layers.is_udp();
    if (layers.malformed != Malformed::no || (!layers.is_tcp() && !is_udp) || layers.is_fragment() ||
        layers.end != bytes || segment_bytes == 0 || layers.end - layers.payload_offset <= segment_bytes)
        return std::nullopt;
    const uint8_t flags = is_udp ? uint8_t{0} : head[layers.l4_offset + 13];
    if ((flags & (tcp::kSyn | tcp::kRst)) != 0) return std::nullopt;
    OffloadHeader offload;
    offload.flags = OffloadHeader::kNeedsChecksum;
    offload.kind = is_udp             ? OffloadHeader::kUdpDatagrams
                   : layers.is_ipv4() ? OffloadHeader::kTcp4
                                      : OffloadHeader::kTcp6;
    if ((flags & tcp::kCwr) != 0) offload.kind |= OffloadHeader::kCongestion;
    offload.header_bytes = layers.payload_offset;
    offload.segment_bytes = segment_bytes;
    offload.checksum_start = layers.l4_offset;
    offload.checksum_offset = is_udp ? 6 : 16;
    return offload;
}

bool finish_checksum(std::span<uint8_t> frame, uint32_t start, uint32_t offset) {
    if (start >= frame.size() || offset + 2 > frame.size() - start) return false;
    uint8_t* const at = frame.data() + start;
    if (offset == kSctpSumAt) return finish_sctp(frame.subspan(start));
    uint16_t sum = checksum_finish(sum_of(at, static_cast<uint32_t>(frame.size()) - start));
    // Only UDP has its sum there, and 0 would say that there is none; for TCP both forms of zero are right.
    if (sum == 0) sum = 0xffff;
    store_be16(at + offset, sum);
    return true;
}

bool Segmenter::start(std::span<const uint8_t> frame, const OffloadHeader& offload) {
    at_ = payload_end_ = 0;
    const uint8_t kind = offload.kind & static_cast<uint8_t>(~OffloadHeader::kCongestion);
    is_tcp_ = kind == OffloadHeader::kTcp4 || kind == OffloadHeader::kTcp6;
    if ((!is_tcp_ && kind != OffloadHeader::kUdpDatagrams) || offload.segment_bytes == 0 || !offload.needs_checksum())
        return false;
    frame_ = frame.data();
    const auto size = static_cast<uint32_t>(frame.size());
    l4_ = offload.checksum_start;
    outer_ = {};
    uint32_t l3 = eth::kHeaderBytes;
    while (l3 + eth::kVlanBytes <= size && is_vlan(load_be16(frame_ + l3 - 2))) l3 += eth::kVlanBytes;
    if (l3 + ip::kIpv4Bytes > size || l4_ + (is_tcp_ ? tcp::kHeaderBytes : udp::kHeaderBytes) > size) return false;
    ip_ = {l3, l4_, frame_[l3] >> 4 == 6};
    if (!leads_to(frame_, ip_.at, l4_, is_tcp_) && !enter_tunnel(size)) return false;
    payload_ = l4_ + (is_tcp_ ? uint32_t{4} * (frame_[l4_ + 12] >> 4) : udp::kHeaderBytes);
    if (payload_ < l4_ + (is_tcp_ ? tcp::kHeaderBytes : udp::kHeaderBytes) || payload_ >= size) return false;
    most_ = offload.segment_bytes;
    if (payload_ + most_ > UINT16_MAX) return false;
    at_ = payload_;
    payload_end_ = size;
    return true;
}

bool Segmenter::enter_tunnel(uint32_t size) {
    Layers layers = parse(frame_, size, size);
    if (layers.malformed != Malformed::no || !layers.is_ip()) return false;
    outer_ = {layers.l3_offset, layers.l4_offset, layers.is_ipv6()};
    is_udp_tunnel_ = layers.is_udp();
    // GRE's own checksum and numbers are not what a network card fills in for each.
    constexpr uint16_t kSumOrNumber = 0x9000;
    if (layers.protocol == ip::kProtocolGre &&
        (layers.l4_offset + 4u > size || (load_be16(frame_ + layers.l4_offset) & kSumOrNumber) != 0))
        return false;
    millrace::detail::enter_tunnels({frame_, size, size}, tunnel::kAny, layers);
    if (layers.malformed != Malformed::no || layers.tunnel_depth != 1 || layers.l4_offset != l4_ ||
        (is_tcp_ ? !layers.is_tcp() : !layers.is_udp()))
        return false;
    ip_ = {layers.l3_offset, l4_, layers.is_ipv6()};
    return true;
}

uint32_t Segmenter::next_bytes() const { return payload_ + std::min(most_, payload_end_ - at_); }

void Segmenter::write(uint8_t* out) {
    const uint32_t length = std::min(most_, payload_end_ - at_);
    std::memcpy(out, frame_, payload_);
    std::memcpy(out + payload_, frame_ + at_, length);
    const bool is_first = at_ == payload_, is_last = at_ + length == payload_end_;
    finish_ip(out, ip_, payload_ + length);
    finish_transport(out, payload_ + length, is_first, is_last);
    if (outer_.at != 0) finish_tunnel(out, payload_ + length);
    at_ += length;
}

void Segmenter::finish_ip(uint8_t* out, const Ip& ip, uint32_t bytes) const {
    uint8_t* const header = out + ip.at;
    if (ip.is_ipv6) return store_be16(header + 4, static_cast<uint16_t>(bytes - ip.at - ip::kIpv6Bytes));
    store_be16(header + 2, static_cast<uint16_t>(bytes - ip.at));
    const uint32_t number = (at_ - payload_) / most_;
    store_be16(header + 4, static_cast<uint16_t>(load_be16(header + 4) + number));
    store_be16(header + 10, 0);
    store_be16(header + 10, checksum(header, ip.behind - ip.at));
}

void Segmenter::finish_tunnel(uint8_t* out, uint32_t bytes) const {
    finish_ip(out, outer_, bytes);
    if (!is_udp_tunnel_) return;
    uint8_t* const header = out + outer_.behind;
    const uint32_t length = bytes - outer_.behind;
    store_be16(header + 4, static_cast<uint16_t>(length));
    if (load_be16(header + 6) != 0) finish_sum(out, outer_, bytes, ip::kProtocolUdp, 6);
}

void Segmenter::finish_transport(uint8_t* out, uint32_t bytes, bool is_first, bool is_last) const {
    uint8_t* const header = out + l4_;
    const uint32_t length = bytes - l4_;
    if (is_tcp_) {
        store_be32(header + 4, load_be32(header + 4) + (at_ - payload_));
        if (!is_last) header[13] = static_cast<uint8_t>(header[13] & ~(tcp::kFin | tcp::kPsh));
        if (!is_first) header[13] = static_cast<uint8_t>(header[13] & ~tcp::kCwr);
    } else {
        store_be16(header + 4, static_cast<uint16_t>(length));
    }
    finish_sum(out, ip_, bytes, is_tcp_ ? ip::kProtocolTcp : ip::kProtocolUdp, is_tcp_ ? 16 : 6);
}

void Segmenter::finish_sum(uint8_t* out, const Ip& ip, uint32_t bytes, uint8_t protocol, uint32_t offset) {
    const uint8_t* const addresses = out + ip.at + (ip.is_ipv6 ? 8 : 12);
    uint32_t pseudo = sum_of(addresses, ip.is_ipv6 ? 32 : 8) + (bytes - ip.behind) + protocol;
    pseudo = (pseudo & 0xffff) + (pseudo >> 16);
    pseudo = (pseudo & 0xffff) + (pseudo >> 16);
    store_be16(out + ip.behind + offset, static_cast<uint16_t>(pseudo));
    finish_checksum({out, bytes}, ip.behind, offset);
}

}  // namespace millrace::io
