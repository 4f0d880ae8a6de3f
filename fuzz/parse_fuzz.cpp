// The parser on any bytes: it reads nothing behind what is present, and what it finds lies in the frame.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "fuzz/entry.hpp"
#include "millrace/packet/tunnels.hpp"

namespace parse_fuzz {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

MILLRACE_FUZZER(parse)(const uint8_t* data, size_t size) {
    if (size < 2 || size > 20000) return 0;
    // The first two bytes say how much of the frame is in this memory; a copy of that size lets the sanitizer watch its
    // end.
    const auto length = static_cast<uint32_t>(size - 2);
    const uint32_t present = (data[0] | data[1] << 8) % (length + 1);
    for (const uint32_t bytes : {length, present}) {
        const auto frame = std::make_unique<uint8_t[]>(bytes);
        for (uint32_t i = 0; i < bytes; ++i) frame[i] = data[2 + i];
        millrace::Packet packet;
        packet.attach(frame.get(), length, bytes, 0, 0);
        packet.parse();
        const millrace::Layers& layers = packet.layers();
        require(layers.end <= length, "the datagram ends behind the frame");
        require(!(layers.is_ipv4() && layers.is_ipv6()), "IPv4 and IPv6");
        require(layers.is_tcp() + layers.is_udp() + layers.is_icmp() <= 1, "two of TCP, UDP and ICMP");
        // A chain may let malformed packets pass, so this holds for them, too.
        require(layers.payload_offset <= layers.end, "the payload begins behind the end");
        if (layers.malformed != millrace::Malformed::no) continue;
        if (layers.has_ports()) require(layers.l4_offset + 8u <= layers.payload_offset, "no room for ports");
        millrace::flow_hash(packet);
        millrace::symmetric_flow_hash(packet);
        millrace::enter_tunnels(packet, millrace::tunnel::kAny);
        require(layers.end <= length, "what a tunnel carries ends behind the frame");
        require(layers.payload_offset <= layers.end, "its payload begins behind its end");
        require(layers.tunnel_depth <= millrace::tunnel::kMaxDepth, "too deep");
        if (layers.malformed != millrace::Malformed::no) continue;
        if (layers.has_ports()) require(layers.l4_offset + 8u <= layers.payload_offset, "no room for its ports");
        millrace::flow_hash(packet);
        millrace::symmetric_flow_hash(packet);
    }
    return 0;
}

}  // namespace parse_fuzz
