// Frames in tunnels, made byte by byte as the RFCs say.
#pragma once

#include <initializer_list>

#include "millrace/packet/tunnels.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

/// Those that `in_tunnel` makes.
inline constexpr uint32_t kTunnelKinds[] = {tunnel::kMpls,  tunnel::kPppoe,  tunnel::kIpip, tunnel::kGre,
                                            tunnel::kVxlan, tunnel::kGeneve, tunnel::kGtpU};

Frame join(std::initializer_list<Frame> parts);
Frame be16(size_t value);
/// A frame with `carried`, an Ethernet frame of IP without VLAN tags, in a tunnel of this kind. `how` makes variants:
/// whether the outer packet is IPv6, options, what is carried with its Ethernet header and what without.
Frame in_tunnel(uint32_t kind, const Frame& carried, unsigned how = 0);

}  // namespace millrace::test
