// Packets become the ICMP errors that tell their senders why they go no further (RFC 792, RFC 1812, RFC 4443).
#pragma once

#include "millrace/packet/icmp_error.hpp"

namespace millrace::nf::reject {

struct RejectTables {
    icmp::Error ipv4, ipv6;               ///< what is told
    uint32_t from_ipv4[1], from_ipv6[4];  ///< as they lie in packets
    uint8_t tells_ipv4, tells_ipv6;
    uint8_t is_about_length;
};

struct Reject {
    enum Outcome : uint32_t { kTold, kSilent };

    static constexpr Fields reads = field::everything;
    static constexpr Fields writes = field::everything | field::length;
    static constexpr unsigned lanes = 1;

    using Tables = RejectTables;

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        const Layers& layers = packet.layers();
        const bool ipv6 = layers.is_ipv6();
        if (!(ipv6 ? tables.tells_ipv6 : layers.is_ipv4() && tables.tells_ipv4)) return {kNoDetail, kSilent};
        if (!(tables.is_about_length ? icmp::may_tell_too_big(packet) : icmp::may_tell(packet)))
            return {kNoDetail, kSilent};
        const uint32_t* const from = ipv6 ? tables.from_ipv6 : tables.from_ipv4;
        const bool told = icmp::tell(packet, reinterpret_cast<const uint8_t*>(from), ipv6 ? tables.ipv6 : tables.ipv4,
                                     lanes);
        return {kNoDetail, told ? kTold : kSilent};
    }
};

}  // namespace millrace::nf::reject
