// What the CPU runs of chains that are a device's: packets that it keeps, those that the device leaves to the host, and
// all of them once the device is gone.
#pragma once

#include <span>
#include <vector>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/exec/hybrid/placement.hpp"
#include "millrace/exec/offload/chains/chain_queue.hpp"
#include "millrace/exec/offload/finish/ordered_state.hpp"

namespace millrace::exec {

/// On the worker's thread. Packets are delivered before a call returns, where it doesn't say otherwise.
class CpuPath {
public:
    /// `frames`: whose receive blocks come here; null: there are none.
    CpuPath(Delivery& delivery, FrameDelivery* frames, const OffloadOptions& options);
    using ProgramPointer = std::shared_ptr<const chain::Program>;

    /// Before packets of that generation of a chain come.
    void prepare(const ProgramPointer& program);
    /// Packets that have just been received.
    void submit(const ProgramPointer& program, ChainCounters& counters, rte_mbuf* const* mbufs, size_t count) {
        engine_.submit(program, counters, mbufs, count);
    }
    /// Packets that were meant for the device.
    void run(const ProgramPointer& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs);
    /// Frames that were; their memory is given back.
    void run(const ProgramPointer& program, ChainCounters& counters, const io::ReceiveBlock& block);
    /// All that wait.
    void run_all(ChainQueue& queue);
    /// A packet that the device leaves to the host; the caller delivers it.
    Verdict decide(const ProgramPointer& program, ChainCounters& counters, rte_mbuf* mbuf);
    /// A frame that it does.
    void run_one(const ProgramPointer& program, ChainCounters& counters, const io::ReceiveBlock& block, uint32_t index);
    /// Some of those that wait, if the CPU is where chains are; how many. Before that `states` takes back what the
    /// device has of theirs, by `stream`.
    size_t run_some(ChainQueue& queue, Placement::Member& member, OrderedState& states, device::StreamId stream);

private:
    size_t copy_frames(const io::ReceiveBlock& block, ChainCounters& counters, rte_mbuf** copies);

    Delivery& delivery_;
    FrameDelivery* const frames_;
    const bool shares_;     // the CPU runs chains beside the device
    CpuEngine engine_;      // for many packets: makes its CPU halves with the first of them
    CpuEngine one_by_one_;  // for those that the device leaves to the host: by the device halves, whose tables are
                            // there
    std::vector<Verdict> verdicts_;
    std::vector<Burst> bursts_;  // of packets that it runs
};

}  // namespace millrace::exec
