// Numbers that the RFCs and IEEE 802 assign.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

namespace eth {
inline constexpr uint32_t kHeaderBytes = 14;
inline constexpr uint32_t kVlanBytes = 4;
inline constexpr uint16_t kTypeIpv4 = 0x0800;
inline constexpr uint16_t kTypeArp = 0x0806;
inline constexpr uint16_t kTypeIpv6 = 0x86dd;
inline constexpr uint16_t kTypeVlan = 0x8100;     ///< 802.1Q
inline constexpr uint16_t kTypeQinq = 0x88a8;     ///< 802.1ad
inline constexpr uint16_t kTypeQinqOld = 0x9100;  ///< QinQ before 802.1ad
inline constexpr uint16_t kTypeMpls = 0x8847;     ///< RFC 3032
inline constexpr uint16_t kTypeMplsUpstream = 0x8848;
inline constexpr uint16_t kTypePppoe = 0x8864;    ///< sessions (RFC 2516)
inline constexpr uint16_t kTypeBridged = 0x6558;  ///< an Ethernet frame within a tunnel
}  // namespace eth

namespace ip {
inline constexpr uint8_t kProtocolHopByHop = 0;
inline constexpr uint8_t kProtocolIcmp = 1;
inline constexpr uint8_t kProtocolIpv4 = 4;
inline constexpr uint8_t kProtocolTcp = 6;
inline constexpr uint8_t kProtocolUdp = 17;
inline constexpr uint8_t kProtocolIpv6 = 41;
inline constexpr uint8_t kProtocolRouting = 43;
inline constexpr uint8_t kProtocolFragment = 44;
inline constexpr uint8_t kProtocolGre = 47;
inline constexpr uint8_t kProtocolEsp = 50;
inline constexpr uint8_t kProtocolAh = 51;
inline constexpr uint8_t kProtocolIcmpv6 = 58;
inline constexpr uint8_t kProtocolNoNext = 59;
inline constexpr uint8_t kProtocolDestination = 60;
inline constexpr uint8_t kProtocolMobility = 135;
inline constexpr uint8_t kProtocolSctp = 132;

inline constexpr uint32_t kIpv4Bytes = 20;  ///< without options
inline constexpr uint32_t kIpv6Bytes = 40;  ///< without extension headers
}  // namespace ip

namespace tcp {
inline constexpr uint32_t kHeaderBytes = 20;
inline constexpr uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kPsh = 0x08, kAck = 0x10, kUrg = 0x20, kEce = 0x40,
                         kCwr = 0x80;
}  // namespace tcp

namespace udp {
inline constexpr uint32_t kHeaderBytes = 8;
inline constexpr uint16_t kPortGtpU = 2152;
inline constexpr uint16_t kPortVxlan = 4789;
inline constexpr uint16_t kPortGeneve = 6081;
}  // namespace udp

}  // namespace millrace
