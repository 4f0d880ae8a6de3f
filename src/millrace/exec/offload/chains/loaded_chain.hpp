// A chain as an engine's device has it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "millrace/device/batch_work.hpp"
#include "millrace/device/device.hpp"
#include "millrace/exec/cpu/teller.hpp"
#include "millrace/exec/offload/offload_options.hpp"
#include "millrace/exec/offload/finish/verdict_table.hpp"
#include "millrace/nf/state/keeps_journal.hpp"

namespace millrace::exec {

/// Room for a batch's journal of state per key (nf/state/journal.hpp), in bytes.
struct JournalNeeds {
    uint32_t of_packet = 0;  ///< at most
    uint32_t of_sweep = 0;   ///< of what is swept with each batch
    uint32_t bytes(size_t packets) const { return static_cast<uint32_t>(of_packet * packets + of_sweep); }
    bool covers(const JournalNeeds& other) const { return other.of_packet <= of_packet && other.of_sweep <= of_sweep; }
    JournalNeeds with(const JournalNeeds& other) const {
        return {std::max(of_packet, other.of_packet), std::max(of_sweep, other.of_sweep)};
    }
};

/// What pieces of the packet ring have room for besides frames and what all batches have.
struct RingNeeds {
    size_t state_bytes = 0;  ///< of the NFs
    unsigned emitters = 1;   ///< NFs of a chain that emit events
    unsigned keepers = 0;    ///< those of them whose packets others have changed
    size_t counters = 0;     ///< of outcomes, of all NFs
    device::WorkNeeds work = {};
    JournalNeeds journal = {};

    bool covers(const RingNeeds& other) const {
        return other.state_bytes <= state_bytes && other.emitters <= emitters && other.keepers <= keepers &&
               other.counters <= counters && work.covers(other.work) && journal.covers(other.journal);
    }
    RingNeeds with(const RingNeeds& other) const;
};

/// One generation of a chain, loaded: all about it that its batches need again and again. Batches in flight keep it
/// when the next generation has taken its place.
struct LoadedChain {
    /// Throws device::DeviceError when the device can't run the chain.
    LoadedChain(std::shared_ptr<const chain::Program> of, ChainCounters& its_counters,
                const std::shared_ptr<device::Device>& device, device::OrderGate& gate, const OffloadOptions& options);

    const std::shared_ptr<const chain::Program> program;
    ChainCounters* const counters;
    std::shared_ptr<device::LoadedProgram> loaded;
    std::shared_ptr<device::Resident> resident;  ///< what runs its batches; null: launches
    Prefixes prefixes;                           ///< at most; of each batch: BatchInput::prefixes
    Prefixes plain_prefixes;                     ///< of a batch whose packets all have a plain layout
    nf::Growth growth;                           ///< most bytes that a packet grows on its way
    bool reads_time = false;                     ///< an NF looks at when packets came
    /// Steps that have an order, with all between them: from the first one to behind the last one; none: both are the
    /// number of steps.
    size_t ordered_from = 0, ordered_to = 0;
    /// By sequence of the steps (device::Step::first_sequence).
    std::vector<std::shared_ptr<device::StateSequence>> sequences;
    std::vector<uint32_t*> shared_states;     ///< where other devices find each state; null: there are none
    size_t counters_of_node = 0;              ///< device::counters_of_node
    RingNeeds needs;                          ///< of them, the state comes back with each batch
    std::vector<nf::KeepsJournal*> journals;  ///< by node: whose state outlives the device; null: of no such one
    std::unique_ptr<Teller> teller;           ///< where an NF emits events
    std::unique_ptr<VerdictTable> verdicts;   ///< of frames without mbufs
    const std::string* name = nullptr;        ///< for the timeline, and the steps'
    std::vector<const std::string*> step_names;
};

/// The steps that an engine with such options runs of a program.
std::vector<device::Step> steps_of(const chain::Program& program, const OffloadOptions& options);

}  // namespace millrace::exec
