// What is kept of a connection, and for how long.
#pragma once

#include "millrace/nf/flows/flow_key.hpp"
#include "millrace/nf/flows/tcp.hpp"

namespace millrace::nf::conntrack {

using flows::FlowKey;

struct Flow {
    flows::TcpConnection tcp;
    uint8_t low_began;  ///< the originator is FlowKey::low
    uint8_t answered;   ///< packets have come from both ends
    uint8_t reserved[2];
    uint64_t begun_ns;
    /// By whether they are the originator's (0) or the other's.
    struct Tally {
        uint64_t packets[2], bytes[2];
        MILLRACE_DEVICE void add(bool of_originator, uint32_t frames, uint32_t their_bytes) {
            // No index: see TcpConnection::take.
            packets[0] += of_originator ? frames : 0;
            packets[1] += of_originator ? 0 : frames;
            bytes[0] += of_originator ? their_bytes : 0;
            bytes[1] += of_originator ? 0 : their_bytes;
        }
    } tally;
};
static_assert(sizeof(Flow) % 8 == 0);

/// How long a connection is remembered, by kind: TCP's by state, then the others.
enum class Kept : uint8_t { tcp, udp = flows::kTcpStates, udp_answered, icmp, other, count };
inline constexpr unsigned kKept = static_cast<unsigned>(Kept::count);
MILLRACE_DEVICE Kept kept_of(uint32_t protocol, const Flow& flow) {
    const bool icmp = protocol == ip::kProtocolIcmp || protocol == ip::kProtocolIcmpv6;
    return protocol == ip::kProtocolTcp   ? static_cast<Kept>(flow.tcp.state)
           : protocol == ip::kProtocolUdp ? (flow.answered != 0 ? Kept::udp_answered : Kept::udp)
           : icmp                         ? Kept::icmp
                                          : Kept::other;
}

}  // namespace millrace::nf::conntrack
