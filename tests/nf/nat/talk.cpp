#include "nf/nat/talk.hpp"

#include "millrace/packet/packet.hpp"

namespace millrace::test {
namespace {

constexpr size_t kIp = 14, kL4 = 34;

/// Of an IPv4 packet with `bytes` in all, that begins at `l3`.
bool packet_right(const uint8_t* l3, uint32_t bytes) {
    const uint32_t header = (l3[0] & 15) * 4u, total = load_be16(l3 + 2);
    if (checksum(l3, header) != 0) return false;
    if (total > bytes) return true;  // it is cut short
    const uint8_t* const l4 = l3 + header;
    const uint32_t l4_bytes = total - header;
    if (l3[9] == 17 && load_be16(l4 + 6) == 0) return true;
    uint32_t sum = l3[9] == 1 ? 0 : checksum_add(l3[9] + l4_bytes, l3 + 12, 8);
    return checksum_finish(checksum_add(sum, l4, l4_bytes)) == 0;
}

}  // namespace

Frame talk(uint8_t protocol, Peer from, Peer to, bool answer, uint8_t flags) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = from.address;
    spec.ipv4->dst = to.address;
    if (protocol == 6) {
        spec.tcp.emplace();
        spec.tcp->src = from.port;
        spec.tcp->dst = to.port;
        spec.tcp->flags = flags;
    } else if (protocol == 17) {
        spec.udp.emplace();
        spec.udp->src = from.port;
        spec.udp->dst = to.port;
    } else {
        spec.icmp.emplace();
        spec.icmp->type = answer ? 0 : 8;
        spec.icmp->rest = uint32_t{answer ? to.port : from.port} << 16 | 1;
    }
    spec.payload = bytes_of("payload");
    return build(spec);
}

Frame error_about(const Frame& quoted, uint32_t teller, size_t most) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = teller;
    spec.ipv4->dst = source_of(quoted).address;
    spec.icmp.emplace();
    spec.icmp->type = 3;
    spec.icmp->code = 3;
    spec.payload.assign(quoted.begin() + kIp, quoted.end());
    spec.payload.resize(std::min(spec.payload.size(), most));
    return build(spec);
}

Peer source_of(const Frame& frame) {
    const bool icmp = frame[kIp + 9] == 1;
    return {load_be32(frame.data() + kIp + 12), load_be16(frame.data() + kL4 + (icmp ? 4 : 0))};
}
Peer destination_of(const Frame& frame) {
    const bool icmp = frame[kIp + 9] == 1;
    return {load_be32(frame.data() + kIp + 16), load_be16(frame.data() + kL4 + (icmp ? 4 : 2))};
}

bool checksums_right(const Frame& frame) {
    const uint8_t* const l3 = frame.data() + kIp;
    const auto bytes = static_cast<uint32_t>(frame.size() - kIp);
    if (!packet_right(l3, bytes)) return false;
    const uint8_t* const l4 = l3 + (l3[0] & 15) * 4;
    const auto left = static_cast<uint32_t>(frame.data() + frame.size() - l4);
    return l3[9] != 1 || l4[0] != 3 || left < 36 || packet_right(l4 + 8, load_be16(l3 + 2) - (l3[0] & 15) * 4u - 8);
}

}  // namespace millrace::test
