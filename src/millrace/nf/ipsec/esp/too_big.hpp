// What is too long for its tunnel becomes the ICMP error that tells its sender how long it may be (RFC 4301,
// section 8.2).
#pragma once

#include "millrace/nf/ipsec/lookup.hpp"
#include "millrace/packet/icmp_error.hpp"

namespace millrace::nf::ipsec {

/// Answers a packet that has no room in the tunnel of SA `index`; false, and nothing changed, where that may not be. No
/// host may be asked for IPv6 packets below the least MTU of IPv6: what is no longer than that has no answer.
template <class Kind, class Lanes>
MILLRACE_DEVICE_CALL bool answer_too_big(Packet& packet, const Tables& tables, uint32_t index, Lanes lanes) {
    const bool ipv6 = packet.layers().is_ipv6();
    const Sa& sa = tables.sas[index];
    if (!(ipv6 ? tables.tells_ipv6 : tables.tells_ipv4) || is_transport<Kind>(sa)) return false;
    if (!icmp::may_tell_too_big(packet)) return false;
    const uint32_t fits = inner_mtu_of<Kind>(sa, tables.mtu), least = ipv6 ? icmp::kIpv6LeastMtu : icmp::kIpv4LeastMtu;
    if (fits < least && !ipv6) return false;
    const uint32_t told = fits < least ? least : fits;
    if (packet.layers().end - packet.layers().l3_offset <= told) return false;
    const Address& from = ipv6 ? tables.icmp_ipv6 : tables.icmp_ipv4;
    return icmp::tell(packet, reinterpret_cast<const uint8_t*>(from.words), icmp::too_big(ipv6, told), lanes);
}

}  // namespace millrace::nf::ipsec
