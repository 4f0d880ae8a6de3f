// Drops IP packets whose TTL or hop limit is below a limit: the device half of the tutorial's NF.
#pragma once

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace ttl_guard {

using millrace::Decision;
using millrace::Fields;
using millrace::Packet;

struct TtlGuard {
    enum Outcome : uint32_t { kPass, kTooLow, kNotIp };  // in the order of the host half's `outcomes`

    static constexpr Fields reads = millrace::field::ip_ttl;
    static constexpr Fields writes = millrace::field::none;
    static constexpr unsigned lanes = 1;

    /// What the host half hands over: limits by IP version.
    struct Tables {
        uint32_t least_ipv4 = 0;
        uint32_t least_ipv6 = 0;
    };

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes) {
        if (!packet.layers().is_ip()) return {millrace::kNoDetail, kNotIp};
        const uint32_t ttl = packet.ip_ttl();
        const uint32_t least = packet.layers().is_ipv4() ? tables.least_ipv4 : tables.least_ipv6;
        return {ttl, ttl < least ? kTooLow : kPass};
    }
};

}  // namespace ttl_guard
