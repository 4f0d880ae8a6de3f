// A batch in a device's memory: what every kernel of a chain gets.
#pragma once

#include "millrace/chain/kernel/entry.hpp"
#include "millrace/nf/state/journal.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/target.hpp"

namespace millrace::device {

/// Where one frame lies in the device's packet buffer, and how much of it has been brought there.
struct FrameDescriptor {
    uint32_t offset = 0;  ///< of the frame's first byte, from BatchView::frames
    uint16_t length = 0;
    uint16_t present = 0;  ///< bytes of its front that are in the packet buffer
    uint16_t in_port = kNoPort;
    uint16_t segment_bytes = 0;  ///< see Packet
};
static_assert(sizeof(FrameDescriptor) == 12);

/// Frames that a kernel fetches may begin so far behind a multiple of 8, if there is as much room before them: what
/// follows an Ethernet header then begins at such a multiple.
inline constexpr uint32_t kSkew = 2;

/// Limits of a program on a device.
using millrace::kMaxNodes;
using millrace::kMaxOutcomes;
using millrace::kMaxStages;

/// `node` of packets that no NF decided on.
inline constexpr uint16_t kParserNode = 0x7fe;   ///< the parser refused it; `outcome` is a Malformed
inline constexpr uint16_t kNoNode = 0x7fd;       ///< the chain is empty
inline constexpr uint16_t kHostDecides = 0x7fc;  ///< headers lie behind the bytes that were brought: the host must
                                                 ///< decide
inline constexpr uint16_t kNoChainNode = 0x7fb;  ///< the classification has no line for it
static_assert(kMaxNodes <= kNoChainNode);

/// What the chain made of one packet: which node decided on it last, and how. Where that leads, the host knows.
struct PacketResult {
    uint32_t offset = 0;
    uint16_t length = 0;
    uint16_t out_port = kNoPort;
    uint16_t decided = by(kNoNode, 0);
    /// The lower bits of that decision's. Of a packet that no NF decided on, in a program that classifies: its chain.
    uint16_t detail = 0;

    static constexpr uint32_t kNodeBits = 11;
    /// `decided` of a node and an outcome.
    MILLRACE_DEVICE static constexpr uint16_t by(uint32_t node, uint32_t outcome) {
        return static_cast<uint16_t>(outcome << kNodeBits | node);
    }
    MILLRACE_DEVICE uint16_t node() const { return decided & ((1u << kNodeBits) - 1); }
    MILLRACE_DEVICE uint8_t outcome() const { return static_cast<uint8_t>(decided >> kNodeBits); }
    /// Whether the other packet goes the same way for the same reason.
    MILLRACE_DEVICE bool same_verdict(const PacketResult& other) const {
        return out_port == other.out_port && decided == other.decided && detail == other.detail;
    }
};
static_assert(kMaxOutcomes <= 1u << (16 - PacketResult::kNodeBits));
static_assert(sizeof(PacketResult) == 12);

/// `outcome` in BatchView::visits of a node that did not see the packet.
inline constexpr uint32_t kNotVisited = 0xffffffffu;

/// Most packets that a block of a GPU's threads takes.
inline constexpr uint32_t kMaxBlockPackets = 128;

/// State of an NF in the device's memory.
struct StateWords {
    uint32_t* words = nullptr;
    /// Where several devices share the state: the host's memory that one leaves it in for the next.
    uint32_t* shared = nullptr;
    uint32_t count = 0;
};
inline constexpr uint32_t kMaxStateArrays = 8;

/// In BatchView::keys: the packet does not wait for the stage with state per key that they are for.
inline constexpr uint32_t kNotGrouped = 0xfffffffeu;

/// Most NFs of a chain whose state batches change one after the other.
inline constexpr uint32_t kMaxSequences = 16;

/// A batch and a place in Sequencer::done, in one word: the batch's number and, in the lower bits, the place.
struct SequencePoint {
    static constexpr uint32_t kPlaceBits = 16;
    uint64_t word = 0;
    MILLRACE_DEVICE uint64_t number() const { return word >> kPlaceBits; }
    MILLRACE_DEVICE uint32_t place() const { return word & ((1u << kPlaceBits) - 1); }
};

/// By state of an NF: the number of the latest batch that has changed it and is through. In the device's memory.
struct Sequencer {
    static constexpr uint32_t kPlaces = 1u << SequencePoint::kPlaceBits;
    uint64_t done[kPlaces]{};
};

/// What of a timed step is told of besides its stages, which go by their numbers.
inline constexpr uint32_t kSortPart = kMaxStages;         ///< packets are put in order of their lengths
inline constexpr uint32_t kBeginPart = kMaxStages + 1;    ///< frames are parsed
inline constexpr uint32_t kEndPart = kMaxStages + 2;      ///< order keys and results are written
inline constexpr uint32_t kScatterPart = kMaxStages + 3;  ///< staged frames are scattered
inline constexpr uint32_t kPartCount = kMaxStages + 4;

/// The arrays of one batch, all in the device's memory, `count` elements each unless said otherwise.
struct BatchView {
    uint8_t* frames = nullptr;  ///< of the batch, in the packet buffer: what offsets count from
    /// Where the host keeps each frame, for the gather step and for batches in place: addresses that the device's
    /// kernels can read; or where they are staged, for the step that begins. Null where the frames lie `source_pitch`
    /// bytes apart from `source` on.
    const uint64_t* sources = nullptr;
    uint64_t source = 0;
    uint64_t source_pitch = 0;
    const FrameDescriptor* descriptors = nullptr;
    const uint64_t* times = nullptr;  ///< Packet::time_ns; null where no NF looks at it
    Packet* packets = nullptr;        ///< parsed packets, kept between the kernels of a batch
    uint16_t* at = nullptr;           ///< the node that each packet waits for
    Decision* decisions = nullptr;    ///< of the node that runs, where its commit comes later
    uint32_t* kept = nullptr;         ///< [packet][kKeptWords]: what functions in parts keep between them
    uint8_t* wanted = nullptr;        ///< [packet][Type::wanted_bytes]: nf::Wanted of the stage that `keys` are of
    uint32_t* keys = nullptr;         ///< order keys of the node that is being numbered
    uint16_t* ranks = nullptr;  ///< which packet of its key each is among a block's neighbours, see BlockPackets::rank;
                                ///< a multiple of 16
    uint64_t* bases = nullptr;  ///< of packets that lead their key there: their tickets, or where in `key_table` these
                                ///< are; of state per key the packets in groups (GroupedPacket)
    /// By order key, where many are in a batch: the key and how many packets have it, then the first one's ticket.
    /// Twice as many entries as packets, or more, a power of two.
    uint64_t* key_table = nullptr;
    PacketResult* results = nullptr;
    EventBuffer* events = nullptr;       ///< null when no NF emits any
    nf::Journal* journal = nullptr;      ///< of state per key; null where none is kept
    Decision* visits = nullptr;          ///< [stage][packet]; null unless asked for
    uint8_t* prefixes = nullptr;         ///< [packet][prefix_bytes], filled by the pack step; may be the host's memory
    uint32_t* outcome_counts = nullptr;  ///< [node][counters_of_node()] of the program: packets by what each decided
    uint32_t* snapshot = nullptr;        ///< takes the states, one behind the other, as the batch leaves them
    uint64_t* part_times = nullptr;  ///< [kPartCount] of a timed step: what each part has taken, in ticks of the device
    StateWords states[kMaxStateArrays];
    /// Its number among the device's ordered batches, growing. 0: it has none, and who launches them keeps them in
    /// order.
    uint64_t sequence = 0;
    /// By sequence of the chain (Step::first_sequence): the batch before it that has changed the same state (0: there
    /// is none, or it is not known yet), and the place of that state.
    SequencePoint after[kMaxSequences];
    Sequencer* sequencer = nullptr;      ///< the device's own business
    const uint32_t* given_up = nullptr;  ///< in the host's memory: not 0 when the device has failed, so that nobody
                                         ///< need wait any more; likewise
    uint32_t count = 0;
    uint32_t mean_bytes = 0;     ///< of the frames that were brought
    uint32_t block_packets = 0;  ///< that each block of a GPU's threads takes; the device chooses it
    uint32_t prefix_bytes = 0;
    uint16_t headroom = 0;  ///< free bytes before and behind each frame
    uint16_t tailroom = 0;
    bool in_place = false;  ///< no kernel writes to frames: they are read where the host keeps them
    bool numbered = false;  ///< the device's batches have numbers; its own may not be known yet
    bool staged = false;    ///< the sources are the device's own memory: the frames have been brought there contiguous,
                            ///< to be scattered

    /// When the batch's last packet came.
    MILLRACE_DEVICE uint64_t last_time() const { return times != nullptr && count > 0 ? times[count - 1] : 0; }
    MILLRACE_DEVICE uint32_t* kept_of(uint32_t i) const { return kept + uint64_t{i} * kKeptWords; }
    /// Where frame `i` is to be fetched from.
    MILLRACE_DEVICE uint64_t source_of(uint32_t i) const {
        return sources != nullptr ? sources[i] : source + i * source_pitch;
    }
};

/// `at` of a packet that no later node will see.
using chain::kNowhere;

/// Buckets of a KeyedState that are swept with each batch.
inline constexpr uint32_t kSweptBuckets = 256;

/// What takes the events of the `k`th bucket that is swept for `node`: they come behind those of the batch's last
/// packet.
MILLRACE_DEVICE Packet sweep_teller(const BatchView& batch, uint16_t node, uint32_t k) {
    constexpr uint32_t kBehind = 64, kOfBucket = 64;
    static_assert(kBehind + kSweptBuckets * kOfBucket < 0xffff);
    Packet teller;
    teller.set_index(batch.count - 1);
    teller.set_events(batch.events, node, static_cast<uint16_t>(kBehind + k * kOfBucket));
    return teller;
}

/// One kernel of a chain. A fused chain without ordered NFs is a single step with begin and end.
struct Step {
    enum class Kind : uint8_t {
        gather,    ///< brings the frames' present bytes from the host's memory into the packet buffer
        nodes,     ///< every packet through the stages [first, last), in any order of packets
        tickets,   ///< numbers the packets that wait for stage `first`, by their order keys, in order of arrival
        commit,    ///< ends stage `first` for one packet after the other, in order of arrival
        group,     ///< packets that wait for stage `first`, whose state is per key, by which block is to take them
        sequence,  ///< nothing but waiting until the batch may begin with the step behind it
        keyed,     ///< runs stage `first`, whose state is per key: packets of a key in order of arrival, keys
                   ///< concurrently; then frees some of the state that has timed out
        pack,      ///< the first `prefix_bytes` of every frame, contiguous, for the way back
        snapshot,  ///< nothing but the snapshot of the states, where NFs without an order change some
        confined,  ///< the stages [first, last), functions of tenants, each packet through one window after the other
    };
    Kind kind = Kind::nodes;
    uint16_t first = 0, last = 0;
    bool begin = false;         ///< attach and parse the frames first; before that, scatter them if they are staged
    bool end = false;           ///< write the results at last
    bool hold_last = false;     ///< keep the decisions of stage `last - 1` for its commit
    bool finds_last = false;    ///< of stage `last - 1`, a function in parts, `find` alone
    bool judges_first = false;  ///< of stage `first` what comes behind it
    bool take_states = false;   ///< the first step that changes state: begin with what another device has left
    /// Bits of BatchView::states that are complete behind it: it takes their snapshot, and leaves them for others.
    uint32_t snapshot = 0;
    /// The sequences of the chain that it belongs to, where it has an order: one of each NF whose state batches change
    /// one after the other, in the order of the steps.
    uint8_t first_sequence = 0, last_sequence = 0;
    bool awaits_sequence = false;    ///< the first step of these: batches begin with it in the order of their numbers
    bool releases_sequence = false;  ///< the last one: the next batch may begin with the first
    bool keys_of_next = false;       ///< write the order keys of the packets that wait for stage `last`
    bool timed = false;              ///< of kind `nodes`: add what each part takes to BatchView::part_times
    bool resident = false;           ///< a resident kernel runs it, with all others of the program
    /// Whether batches must do it one after the other.
    constexpr bool in_order() const {
        return kind != Kind::gather && kind != Kind::nodes && kind != Kind::group && kind != Kind::pack &&
               kind != Kind::confined;
    }
    friend constexpr bool operator==(const Step&, const Step&) = default;
};

}  // namespace millrace::device
