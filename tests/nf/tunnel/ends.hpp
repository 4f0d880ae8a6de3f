// Both ends of many tunnels, and packets for them.
#pragma once

#include <string>
#include <vector>

#include "millrace/nf/tunnel/device.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

using enum nf::tunnel::TunnelEnd::Outcome;

/// Tunnel `i` is of kind i % kKindsOfEnds; from kFirstWithEthernet on they have an Ethernet header inside.
inline constexpr uint32_t kKindsOfEnds = 8, kFirstWithEthernet = 5;

/// Options of the near end or the far one of `count` tunnels; tunnel `i` has destinations 10.x.y.0/24 and
/// fd00:0:i::/48.
std::string tunnels_text(size_t count, bool near);
/// Packets of IPv4 and IPv6 that go into them, of many lengths; some go elsewhere.
std::vector<Frame> frames_for(size_t count, size_t frames, unsigned seed);
/// Those, packets that come out of the near end, and such with something wrong about them.
std::vector<Frame> mixture(size_t count, size_t frames, unsigned seed);
/// Bytes of the Ethernet header, with tags.
size_t l2_bytes(const Frame& frame);

}  // namespace millrace::test
