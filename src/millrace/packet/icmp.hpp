// Kinds of ICMP messages (RFC 792, RFC 4443): those that ask and are answered, and those about another packet.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace::icmp {

inline constexpr uint32_t kHeaderBytes = 8;

MILLRACE_DEVICE bool is_query(uint8_t type, bool ipv6) {
    return ipv6 ? type == 128 : type == 8 || type == 13 || type == 15 || type == 17;
}
MILLRACE_DEVICE bool is_reply(uint8_t type, bool ipv6) {
    return ipv6 ? type == 129 : type == 0 || type == 14 || type == 16 || type == 18;
}
MILLRACE_DEVICE bool is_error(uint8_t type, bool ipv6) {
    return ipv6 ? type >= 1 && type <= 4 : type == 3 || type == 4 || type == 11 || type == 12;
}

}  // namespace millrace::icmp
