// What each worker counts for each chain. One writer (the worker), any number of readers.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/histogram.hpp"
#include "millrace/exec/fragments/fragment_drop.hpp"
#include "millrace/exec/verdict.hpp"
#include "millrace/exec/transfer/transfer.hpp"

namespace millrace::exec {

/// What a batch of a device goes through, one after the other.
enum class BatchStage : uint8_t {
    waiting,     ///< its oldest packet has been received
    layout,      ///< the worker decides where its frames go
    in_line,     ///< it waits for the thread that makes the calls, where there is one
    calls,       ///< the device is told what to do
    round_trip,  ///< until the worker finds it back
    results,     ///< the worker hands its packets on
};
inline constexpr const char* kBatchStageNames[] = {"waiting", "layout", "in-line", "calls", "round-trip", "results"};
/// Whether a CPU works on it meanwhile.
constexpr bool takes_cpu(BatchStage stage) {
    return stage == BatchStage::layout || stage == BatchStage::calls || stage == BatchStage::results;
}
using BatchStages = std::array<Counter, std::size(kBatchStageNames)>;

/// What batches spent in their stages, by the names of these.
struct StageMeans {
    std::map<std::string, double> us;                 ///< of one batch
    std::map<std::string, double> cycles_per_packet;  ///< of those that take a CPU
};
/// TSC cycles in all, by BatchStage, of so many batches with so many packets.
using StageCycles = std::array<uint64_t, std::size(kBatchStageNames)>;
/// Nothing where no time was spent in any, as on the cpu.
StageMeans means_of(const StageCycles& cycles, uint64_t batches, uint64_t packets);

/// One NF of a chain.
struct NodeCounters {
    explicit NodeCounters(const chain::Node& node);
    std::string name, kind;
    std::vector<std::string> outcomes;  ///< their names; the last is kUndeclaredOutcomeName
    std::vector<Target> targets;        ///< where they lead
    Counter packets, bytes;             ///< that came in
    Counter cycles;                     ///< of the CPU, spent in it (TSC)
    std::vector<Counter> by_outcome;    ///< packets by what it decided
};

/// One chain, on one worker. Conservation: received + injected + copied + split = sent + dropped + punted +
/// passed_on + joined + in_flight.
struct ChainCounters {
    explicit ChainCounters(const chain::Program& program);
    /// Of a program that classifies packets: they count as passed on to their chains, and there as received. `of_parts`
    /// are the chains' counters, by number (null: packets are not classified into it); they must outlive it.
    ChainCounters(const chain::Program& program, std::vector<ChainCounters*> of_parts);
    /// Whether it can go on counting for another generation of the chain: one with the same NFs and outcomes.
    bool fits(const chain::Program& program) const;

    std::string chain;
    std::vector<std::shared_ptr<NodeCounters>> nodes;
    std::vector<ChainCounters*> parts;    ///< of a program that classifies packets, by chain
    std::vector<ChainCounters*> by_node;  ///< then: whose each node is
    Counter unclassified;                 ///< packets for no chain; they count as passed on
    Counter received_packets, received_bytes;
    Counter sent_packets, sent_bytes;
    Counter injected;               ///< put in at the chain's end, to be sent
    Counter submitted;              ///< put in at its start; they count as received, too
    Counter copied;                 ///< besides the packet itself, for those that leave by several ports
    Counter punted_copies;          ///< of these; they count as punted, too
    Counter passed_on;              ///< to other chains
    Counter reassembled;            ///< packets that were put together from fragments
    Counter joined;                 ///< fragments of these, but for one of each
    Counter split;                  ///< fragments that packets were cut into, but for one of each
    Counter dropped_by_nf, punted;  ///< as the nodes' outcomes say
    std::vector<Counter> malformed = std::vector<Counter>(kMalformedCount);
    std::vector<Counter> exit_drops = std::vector<Counter>(kExitDropCount);
    std::vector<Counter> fragment_drops = std::vector<Counter>(kFragmentDropCount);
    Counter events, events_lost;
    Counter retold_on_cpu;  ///< packets of which an NF was asked again, as their events found no room
    Counter batches, retried_on_cpu;
    Counter kept_on_cpu;  ///< packets that came so few at a time that no batch was made of them
    std::array<Counter, std::size(kTransfersIn)> batches_in;     ///< those of them that came in by each way
    std::array<Counter, std::size(kTransfersOut)> batches_back;  ///< and went back
    Counter bytes_to_device, bytes_to_host;
    BatchStages stages;  ///< TSC cycles of all batches in each
    Histogram latency;   ///< from receive to send, ns

    /// Those of the chain that a packet has been classified into; these where nothing is classified.
    ChainCounters& of_chain(size_t chain_number) { return parts.empty() ? *this : *parts[chain_number]; }
    ChainCounters& of_node(size_t node) { return by_node.empty() ? *this : *by_node[node]; }
    /// Counts packets that have been classified.
    void classified(uint16_t chain_number, uint64_t packets, uint64_t bytes) {
        passed_on.add(packets);
        if (chain_number == chain::kNoChain) return unclassified.add(packets);
        parts[chain_number]->received_packets.add(packets);
        parts[chain_number]->received_bytes.add(bytes);
    }
    /// Counts packets that were dropped; what the parser drops is counted where it is.
    void count_drops(const Verdict& verdict, uint64_t packets) {
        if (verdict.node == kNoNode) exit_drops[std::min(verdict.decision.outcome, kExitDropCount - 1)].add(packets);
        else if (verdict.node != kParserNode) dropped_by_nf.add(packets);
    }
    void add(BatchStage stage, uint64_t cycles) { stages[static_cast<size_t>(stage)].add(cycles); }

    uint64_t dropped() const {
        uint64_t total = dropped_by_nf.get();
        for (const Counter& c : malformed) total += c.get();
        for (const Counter& c : exit_drops) total += c.get();
        for (const Counter& c : fragment_drops) total += c.get();
        return total;
    }
    /// Packets that came in and have not gone out in any way.
    uint64_t in_flight() const {
        return received_packets.get() + injected.get() + copied.get() + split.get() - sent_packets.get() - dropped() -
               punted.get() - passed_on.get() - joined.get();
    }
};

}  // namespace millrace::exec
