// Lets each /24 of IPv4 sources send up to a rate: the device half of the tutorial's second NF.
#pragma once

#include "millrace/nf/state/keyed_state.hpp"

namespace source_policer {

using namespace millrace;

struct SourcePolicer {
    enum Outcome : uint32_t { kPass, kOver, kNotIpv4 };  // in the order of the host half's `outcomes`

    static constexpr Fields reads = field::ip_src;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 1;

    struct Sent {
        uint64_t paid_until_ns = 0;  // by then what was sent so far is within the rate
    };
    struct Tables {
        nf::KeyedState<uint32_t, Sent> state;
        uint64_t packet_ns = 0;  // from one packet to the next, at the rate
        uint64_t burst_ns = 0;   // so far ahead of it a source may be
    };

    MILLRACE_DEVICE static nf::Lookup key(const Packet& packet, const Tables&, uint32_t& prefix) {
        if (!packet.layers().is_ipv4()) return nf::Lookup::none;
        prefix = packet.ipv4_src() & 0xffffff00;
        return nf::Lookup::create;
    }

    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, nf::KeyedEntry<Sent> sent) {
        if (!sent) return {kNoDetail, sent.refused() ? kOver : kNotIpv4};
        const uint64_t from = larger(sent->paid_until_ns, packet.time_ns());
        if (from - packet.time_ns() > tables.burst_ns) return {kNoDetail, kOver};
        sent->paid_until_ns = from + tables.packet_ns;
        return {kNoDetail, kPass};
    }
};

}  // namespace source_policer
