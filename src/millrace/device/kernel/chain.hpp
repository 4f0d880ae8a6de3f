// What every kernel of a chain does to a packet besides calling its NFs: the same on simulated and real GPUs.
#pragma once

#include "millrace/chain/kernel/entry.hpp"
#include "millrace/device/kernel/batch.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/plain_layout.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::device {

/// Takes packet `i` into the batch: attaches the frame, parses it, and sends it to its first node, or says at once what
/// becomes of it. `inner`: tunnels that it is judged within. `stages` is how many stages the program has;
/// `entry_of(packet)` says where a parsed packet goes first, as an Entry.
template <class EntryOf>
MILLRACE_DEVICE void begin_packet(const BatchView& batch, uint32_t i, uint32_t stages, bool parses, uint32_t inner,
                                  EntryOf&& entry_of) {
    const FrameDescriptor& frame = batch.descriptors[i];
    Packet packet;
    uint8_t* const data = batch.in_place ? reinterpret_cast<uint8_t*>(batch.source_of(i)) : batch.frames + frame.offset;
    packet.attach(data, frame.length, frame.present, batch.headroom, batch.tailroom);
    packet.set_in_port(frame.in_port);
    packet.set_segment_bytes(frame.segment_bytes);
    packet.set_index(i);
    if (batch.times != nullptr) packet.set_time_ns(batch.times[i]);
    if (parses) packet.parse();
    if (inner != 0) enter_tunnels(packet, inner);
    batch.packets[i] = packet;
    PacketResult result;
    batch.at[i] = kNowhere;
    const Malformed malformed = packet.layers().malformed;
    // Where only heads go back, what an NF writes behind them would be lost.
    const bool behind_the_head = batch.prefix_bytes != 0 && malformed == Malformed::no && !has_plain_layout(packet) &&
                                 packet.layers().payload_offset > batch.prefix_bytes;
    if (malformed == Malformed::beyond_present || behind_the_head) {
        result.decided = PacketResult::by(kHostDecides, 0);
    } else {
        const chain::Entry entry = entry_of(packet);
        if (entry.chain == chain::kNoChain) {
            result.decided = PacketResult::by(kNoChainNode, 0);
        } else if (malformed != Malformed::no && entry.drop_malformed) {
            result.decided = PacketResult::by(kParserNode, static_cast<uint32_t>(malformed));
        } else if (entry.node != kNowhere) {
            batch.at[i] = entry.node;
        }
        result.detail = entry.chain;
    }
    batch.results[i] = result;
    if (batch.visits != nullptr)
        for (uint32_t stage = 0; stage < stages; ++stage)
            batch.visits[static_cast<uint64_t>(stage) * batch.count + i] = Decision{kNoDetail, kNotVisited};
}

/// The same for a program of one chain.
MILLRACE_DEVICE void begin_packet(const BatchView& batch, uint32_t i, uint32_t nodes, bool drop_malformed,
                                  uint32_t inner) {
    // A chain without NFs looks into no packet, so none is malformed to it; nor need a header be here.
    begin_packet(batch, i, nodes, nodes > 0, inner,
                 [&](const Packet&) { return chain::Entry{0, nodes > 0 ? uint16_t{0} : kNowhere, drop_malformed}; });
}

/// The nodes of a stage (chain::Stage), and where they lead.
struct StageNodes {
    uint32_t stage = 0;             ///< its number
    uint32_t first = 0, count = 1;  ///< its nodes in the program
    const void* tables = nullptr;   ///< of the first node; the next one's lie `table_bytes` behind it
    uint32_t table_bytes = 0;
    const Target* targets = nullptr;  ///< by outcome, of the first node
    uint32_t outcomes = 0;            ///< that they have declared
    uint32_t counters = 0;            ///< of each of the program's nodes: device::counters_of_node

    MILLRACE_DEVICE bool has(uint32_t node) const { return node - first < count; }
    MILLRACE_DEVICE const void* tables_of(uint32_t node) const {
        return count == 1 ? tables : static_cast<const uint8_t*>(tables) + size_t{node - first} * table_bytes;
    }
};

/// Sends packet `i` where the outcome of a stage's node leads. `counts` is laid out as BatchView::outcome_counts.
MILLRACE_DEVICE void route_packet(const BatchView& batch, uint32_t* counts, uint32_t i, const StageNodes& own,
                                  uint32_t node, Decision decision) {
    // An outcome that the NF did not declare would index past its targets.
    const bool declared = decision.outcome < own.outcomes;
    const uint32_t counter = node * own.counters + (declared ? decision.outcome : own.counters - 1);
    if (!declared) decision.outcome = kUndeclaredOutcome;
    const Target target = declared ? own.targets[decision.outcome] : Target{Target::Kind::drop, 0};
#if MILLRACE_GPU
    atomicAdd(&counts[counter], 1u);
#else
    ++counts[counter];
#endif
    PacketResult& result = batch.results[i];
    result.decided = PacketResult::by(node, decision.outcome);
    result.detail = static_cast<uint16_t>(decision.detail);
    batch.at[i] = target.kind == Target::Kind::node ? static_cast<uint16_t>(target.value + (node - own.first))
                                                    : kNowhere;
    if (batch.visits != nullptr) batch.visits[static_cast<uint64_t>(own.stage) * batch.count + i] = decision;
}

/// Writes down what has become of packet `i`'s frame.
MILLRACE_DEVICE void end_packet(const BatchView& batch, uint32_t i) {
    const Packet& packet = batch.packets[i];
    PacketResult& result = batch.results[i];
    result.offset = static_cast<uint32_t>(packet.data() - batch.frames);
    result.length = static_cast<uint16_t>(packet.length());
    result.out_port = packet.out_port();
}

/// Copies those of the states whose bits are set for the host, word by word: `threads` of one block share the work.
MILLRACE_DEVICE void snapshot_states(const BatchView& batch, uint32_t which, uint32_t thread, uint32_t threads) {
    uint32_t* to = batch.snapshot;
    for (const StateWords& state : batch.states) {
        const bool wanted = (which & 1) != 0;
        which >>= 1;
        for (uint32_t i = thread; wanted && i < state.count; i += threads) {
            const uint32_t word = state.words[i];
            to[i] = word;
            if (state.shared != nullptr) state.shared[i] = word;
        }
        to += state.count;
    }
}

/// Brings the states that devices share up to what the batch before has left, wherever it ran.
MILLRACE_DEVICE void take_states(const BatchView& batch, uint32_t thread, uint32_t threads) {
    for (const StateWords& state : batch.states)
        if (state.shared != nullptr)
            for (uint32_t i = thread; i < state.count; i += threads) state.words[i] = state.shared[i];
}

/// Copies the head of packet `i`'s frame to its place among the heads that go back.
template <class Lanes>
MILLRACE_DEVICE void pack_packet(const BatchView& batch, uint32_t i, Lanes lanes) {
    const PacketResult& result = batch.results[i];
    const uint32_t present = smaller<uint32_t>(result.length, batch.descriptors[i].present);
    uint8_t* to = batch.prefixes + static_cast<uint64_t>(i) * batch.prefix_bytes;
    const uint8_t* from = batch.frames + result.offset;
    lanes.for_each(smaller(batch.prefix_bytes, present), [&](uint32_t k) { to[k] = from[k]; });
}

}  // namespace millrace::device
