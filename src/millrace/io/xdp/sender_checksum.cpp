#include "millrace/io/xdp/sender_checksum.hpp"

#include "millrace/io/kernel/offload.hpp"
#include "millrace/packet/checksum.hpp"
#include "millrace/packet/headers.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::io {
namespace {

constexpr uint32_t kTcpSumAt = 16, kUdpSumAt = 6;

/// Not complemented: what a sender leaves where the checksum is to be.
uint16_t pseudo_header_sum(const uint8_t* frame, const Layers& layers) {
    const uint8_t* const l3 = frame + layers.l3_offset;
    const uint32_t rest = layers.end - layers.l4_offset + layers.protocol;
    const uint32_t sum = layers.is_ipv4() ? checksum_add(rest, l3 + 12, 8) : checksum_add(rest, l3 + 8, 32);
    return static_cast<uint16_t>(~checksum_finish(sum));
}

/// Of these headers. Whether something has changed.
bool finish_of(std::span<uint8_t> frame, const Layers& layers) {
    if (layers.malformed != Malformed::no || layers.is_fragment() || !layers.is_ip() || layers.l4_offset == 0)
        return false;
    const uint32_t start = layers.l4_offset;
    const auto whole = frame.first(layers.end);
    if (layers.has_ports()) {
        const uint32_t at = layers.is_udp() ? kUdpSumAt : kTcpSumAt;
        const uint16_t before = load_be16(&frame[start + at]);
        return before == pseudo_header_sum(frame.data(), layers) && finish_checksum(whole, start, at) &&
               load_be16(&frame[start + at]) != before;
    }
    return layers.protocol == ip::kProtocolSctp && whole.size() >= start + kSctpSumAt + 4 &&
           load_be32(&frame[start + kSctpSumAt]) == 0 && finish_checksum(whole, start, kSctpSumAt);
}

}  // namespace

bool finish_sender_checksum(std::span<uint8_t> frame) {
    const auto bytes = static_cast<uint32_t>(frame.size());
    Packet packet;
    packet.attach(frame.data(), bytes, bytes, 0, 0);
    packet.parse();
    const Layers outer = packet.layers();
    // A frame has one that is yet to be finished. Those around the innermost would be wrong without it.
    enter_tunnels(packet, tunnel::kAny);
    return (packet.layers().tunnel_depth != 0 && finish_of(frame, packet.layers())) || finish_of(frame, outer);
}

}  // namespace millrace::io
