// What a network function says of a packet.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

/// One of the outcomes that the NF declares (by its index), and what led to it: a rule, a route, an
/// SA; the host half puts `detail` into words. Where the outcome leads (the next NF, another chain,
/// a port, a drop, a punt) is the chain's business, not the NF's.
struct Decision {
    uint32_t detail = 0;
    uint32_t outcome = 0;

    friend constexpr bool operator==(const Decision& a, const Decision& b) {
        return a.detail == b.detail && a.outcome == b.outcome;
    }
};

/// `detail` of a decision that no rule, route or SA led to.
inline constexpr uint32_t kNoDetail = 0xffffffffu;

/// The order key of a packet that needs no ticket; see nf/nf.hpp.
inline constexpr uint32_t kNoOrderKey = 0xffffffffu;

/// Something an NF tells the host about a packet besides its decision, such as an alert. It carries
/// the addresses as they were when the NF saw the packet: a later NF may have encrypted them.
/// `code` is the NF's own (a rule's index, say). Events of one packet keep the order in which they came.
struct Event {
    uint8_t src[16] = {};   ///< network order; IPv4 in the first four bytes
    uint8_t dst[16] = {};
    uint16_t src_port = 0;  ///< host order; of ICMP the type
    uint16_t dst_port = 0;  ///< of ICMP the code
    uint8_t protocol = 0;
    uint8_t ip_version = 0;  ///< 4, 6, or 0 when not IP
    uint16_t vlan_id = 0;
    uint32_t length = 0;    ///< bytes of the frame when the NF saw it
    uint32_t packet = 0;    ///< index of the packet in its batch
    uint32_t code = 0;
    uint16_t node = 0;      ///< index of the NF in its program
    uint16_t order = 0;     ///< 0, 1, … within this packet
};
static_assert(sizeof(Event) == 56);

/// The events of one batch: room for `capacity`, `count` were emitted. Those beyond the capacity are
/// counted and not stored; the executor reports them as `events-lost`.
struct EventBuffer {
    Event* events = nullptr;
    uint32_t capacity = 0;
    uint32_t count = 0;
};

}  // namespace millrace
