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

/// Most outcomes that there may be, with the one that stands for those that an NF gave and did not declare. Packets of
/// that one are dropped, and counted under its name.
inline constexpr uint32_t kMaxOutcomes = 32;
inline constexpr uint32_t kUndeclaredOutcome = kMaxOutcomes - 1;
inline constexpr const char* kUndeclaredOutcomeName = "undeclared-outcome";

/// Most network functions that a program on a device may have: those of all chains together, where it classifies
/// packets.
inline constexpr uint32_t kMaxNodes = 2040;
/// Most stages of a program on a device (chain::Stage).
inline constexpr uint32_t kMaxStages = 16;

/// `detail` of a decision that no rule, route or SA led to.
inline constexpr uint32_t kNoDetail = 0xffffffffu;

/// Words that a device half in parts keeps of each packet between them; see nf::Parts.
inline constexpr uint32_t kKeptWords = 256;

/// The order key of a packet that needs no ticket; see nf/nf.hpp.
inline constexpr uint32_t kNoOrderKey = 0xffffffffu;

/// Something an NF tells the host about a packet besides its decision, such as an alert. It carries
/// the addresses as they were when the NF saw the packet: a later NF may have encrypted them.
/// `code` is the NF's own (a rule's index, say). Events of one packet keep the order in which they came.
struct Event {
    uint8_t src[16] = {};  ///< network order; IPv4 in the first four bytes
    uint8_t dst[16] = {};
    uint16_t src_port = 0;  ///< host order; of ICMP the type
    uint16_t dst_port = 0;  ///< of ICMP the code
    uint8_t protocol = 0;
    uint8_t ip_version = 0;  ///< 4, 6, or 0 when not IP
    uint16_t vlan_id = 0;
    uint32_t length = 0;  ///< bytes of the frame when the NF saw it
    uint32_t packet = 0;  ///< index of the packet in its batch
    uint32_t code = 0;
    uint16_t node = 0;   ///< index of the NF in its program
    uint16_t order = 0;  ///< 0, 1, … of this NF on this packet

    /// An event that is a piece of a note (Packet::emit_note) has this many bytes of it in place of what stands before
    /// `packet`, and the number of the piece as its code.
    static constexpr uint32_t kNoteBytes = 44;
};
static_assert(sizeof(Event) == 56);

/// A packet on which an NF had more to tell than there was room for. The executor throws away what was stored of it,
/// and asks the NF again on the CPU, where there is room for all; or counts it as lost.
struct LeftEvents {
    uint32_t packet = 0;  ///< as in Event
    uint16_t node = 0;
    uint16_t length = 0;   ///< bytes of the frame when the NF saw it
    uint32_t offset = 0;   ///< of the frame in EventBuffer::kept; kNotKept: it is as it was received
    uint16_t present = 0;  ///< bytes of its front that the NF could see
    uint16_t lost = 0;     ///< not 0: the NF can't be asked again, and what was stored is all that is told

    static constexpr uint32_t kNotKept = 0xffffffffu;
};
static_assert(sizeof(LeftEvents) == 16);

/// The events of one batch. Where `capacity` is spent, packets are put down in `left`, each once for each NF.
struct EventBuffer {
    Event* events = nullptr;
    uint32_t capacity = 0;
    uint32_t count = 0;  ///< were emitted; those at `capacity` and beyond are not stored
    LeftEvents* left = nullptr;
    uint32_t left_capacity = 0;
    uint32_t left_count = 0;
    uint8_t* kept = nullptr;  ///< takes the frames of packets in `left`, one behind the other
    uint32_t kept_capacity = 0;
    uint32_t kept_bytes = 0;           ///< that they take, each a multiple of 16
    uint32_t keep_from = 0xffffffffu;  ///< of this node on: others before it have changed frames
    uint32_t reserved = 0;
};

}  // namespace millrace
