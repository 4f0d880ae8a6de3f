// A TCP connection that is opened, and goes on.
#pragma once

#include <utility>

#include "support/packet_builder.hpp"

namespace millrace::test {

/// Makes `spec`, which has the addresses of client and server, the connection's packet `step`: 0 to 2 are its
/// handshake, what follows are segments of the client.
inline void set_tcp_step(PacketSpec& spec, uint16_t client_port, unsigned step) {
    spec.tcp.emplace();
    spec.tcp->src = client_port;
    spec.tcp->dst = 443;
    spec.tcp->window = 30000;
    spec.tcp->flags = static_cast<uint8_t>(step == 0 ? tcp::kSyn : step == 1 ? tcp::kSyn | tcp::kAck : tcp::kAck);
    spec.tcp->seq = step == 0 ? 1000 : step == 1 ? 5000 : 1001;
    spec.tcp->ack = step == 0 ? 0 : step == 1 ? 1001 : 5001;
    if (step != 1) return;
    std::swap(spec.ipv4->src, spec.ipv4->dst);
    std::swap(spec.tcp->src, spec.tcp->dst);
}

}  // namespace millrace::test
