// Packets for tests of NAT.
#pragma once

#include <compare>
#include <vector>

#include "support/packet_builder.hpp"

namespace millrace::test {

enum : uint32_t { kOutbound, kInbound, kHairpin, kOther, kNoMapping, kExhausted, kFragment, kUntranslatable };

/// One end of a flow; of ICMP the identifier stands for the port.
struct Peer {
    uint32_t address = 0;
    uint16_t port = 0;
    auto operator<=>(const Peer&) const = default;
};

/// A packet of TCP (6), UDP (17), or an ICMP query (1); `answer`: ICMP's answer.
Frame talk(uint8_t protocol, Peer from, Peer to, bool answer = false, uint8_t flags = 0x02);
/// An ICMP error from `teller` to whom sent `quoted`, a frame, which it quotes up to `most` bytes of.
Frame error_about(const Frame& quoted, uint32_t teller, size_t most = 576);
Peer source_of(const Frame& frame);
Peer destination_of(const Frame& frame);
/// By a sum over all of it, also of what an ICMP error quotes whole.
bool checksums_right(const Frame& frame);

}  // namespace millrace::test
