// What the NIDS keeps of a flow, and what that tells of a packet: its direction, and whether it is of a flow that is
// established, as Suricata means it (User Guide, "Flow Keywords").
#pragma once

#include "millrace/nf/flows/flow_key.hpp"
#include "millrace/nf/flows/tcp.hpp"
#include "millrace/nf/nids/tables.hpp"
#include "millrace/nf/state/keyed_state.hpp"

namespace millrace::nf::nids {

struct Flow {
    flows::TcpConnection tcp;
    uint8_t low_began;    ///< the client is FlowKey::low
    uint8_t seen;         ///< of each direction: packets have come; bit 0 from the client
    uint8_t established;  ///< TCP: ends have shaken hands
    uint8_t reserved;
};
static_assert(sizeof(Flow) == 40);

/// How long a flow is remembered, by kind.
enum class Kept : uint8_t {
    tcp_new,
    tcp_established,
    tcp_closed,
    udp_new,
    udp_established,
    icmp_new,
    icmp_established,
    other_new,
    other_established,
    count
};
inline constexpr unsigned kKept = static_cast<unsigned>(Kept::count);

/// How flows are followed.
struct FlowRules {
    uint64_t kept_ns[kKept] = {};
    uint32_t midstream = 0;  ///< TCP connections may be met in their midst
    uint32_t reserved = 0;
};

/// A packet in its flow.
struct InFlow {
    uint16_t flags = RuleHeader::kNotEstablished;  ///< of RuleHeader::kFlow
    bool begins = false;                           ///< the flow begins with it
    bool is_valid = false;                         ///< a segment of TCP that the connection has taken in
};

namespace detail {

MILLRACE_DEVICE Kept kept_of(uint32_t protocol, const Flow& flow) {
    const bool both = flow.seen == 3;
    if (protocol == ip::kProtocolTcp) {
        if (flow.tcp.state >= flows::Tcp::last_ack) return Kept::tcp_closed;
        return flow.established != 0 ? Kept::tcp_established : Kept::tcp_new;
    }
    if (protocol == ip::kProtocolUdp) return both ? Kept::udp_established : Kept::udp_new;
    if (protocol == ip::kProtocolIcmp || protocol == ip::kProtocolIcmpv6)
        return both ? Kept::icmp_established : Kept::icmp_new;
    return both ? Kept::other_established : Kept::other_new;
}

/// Takes a segment in, whose sender is the client or not. Whether its connection was established before it.
MILLRACE_DEVICE bool follow_tcp(const Packet& packet, bool from_low, bool midstream, Flow& flow, InFlow& in) {
    const Layers& layers = packet.layers();
    const flows::TcpSegment segment = flows::read_segment(
        packet.l4(), layers.payload_offset - uint32_t{layers.l4_offset}, packet.payload_bytes());
    const bool syn = segment.has(tcp::kSyn), ack = segment.has(tcp::kAck);
    // What comes before the handshake says little of who is the client.
    if (flow.tcp.state == flows::Tcp::none && syn && (!ack || midstream)) flow.low_began = from_low != ack;
    bool from_client = (flow.low_began != 0) == from_low;
    const flows::Taken taken = flow.tcp.take(segment, from_client, midstream, true);
    in.is_valid = taken != flows::Taken::invalid;
    if (taken == flows::Taken::reopens) {
        in.begins = true;
        flow.low_began = from_low;
        flow.seen = flow.established = 0;
    }
    const bool before = flow.established != 0;
    if (flow.tcp.state >= flows::Tcp::established && flow.tcp.state < flows::Tcp::close) flow.established = 1;
    return before;
}

}  // namespace detail

/// Takes a packet into its flow, if it has one.
MILLRACE_DEVICE_CALL InFlow follow(const Packet& packet, const FlowRules& rules, const KeyedEntry<Flow>& entry) {
    InFlow in;
    if (!entry) {
        // An ICMP message that belongs to nothing stands for itself.
        if (packet.layers().is_icmp()) in.flags |= RuleHeader::kToServer;
        return in;
    }
    flows::FlowKey key{};
    const flows::Named named = flows::name_flow(packet, true, key);
    Flow& flow = *entry;
    in.begins = entry.is_new();
    if (in.begins) flow.low_began = named.from_low;
    bool established;
    if (named.is_error) {
        entry.do_not_count();
        established = flow.established != 0 || flow.seen == 3;
    } else if (packet.layers().is_tcp()) {
        established = detail::follow_tcp(packet, named.from_low, rules.midstream != 0, flow, in);
    } else {
        flow.seen |= (flow.low_began != 0) == named.from_low ? 1 : 2;
        established = flow.seen == 3;
    }
    const bool from_client = (flow.low_began != 0) == named.from_low;
    in.flags = static_cast<uint16_t>((from_client ? RuleHeader::kToServer : RuleHeader::kToClient) |
                                     (established ? RuleHeader::kEstablished : RuleHeader::kNotEstablished));
    if (!named.is_error)
        entry.expire_after(rules.kept_ns[static_cast<uint32_t>(detail::kept_of(key.kind & 0xff, flow))]);
    return in;
}

}  // namespace millrace::nf::nids
