// What network functions tell the host of packets: events, handed to their host halves in the packets' order.
//
// A batch has room for a few events a packet. Where that is not enough, nothing is lost: the NFs are asked once more on
// the CPU about just those packets (LeftEvents), each by itself, into a buffer that has room for all that one packet
// can bring about.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "millrace/exec/cpu/event_line.hpp"
#include "millrace/exec/verdict.hpp"
#include "millrace/exec/report/counters.hpp"

namespace millrace::exec {

/// The packets of a batch, as events name them.
struct EventPackets {
    const Verdict* verdicts = nullptr;                 ///< by packet
    std::function<Origin(uint32_t)> origin;            ///< of a packet
    std::function<Packet(const LeftEvents&)> as_seen;  ///< a packet as that NF saw it
};

/// Asks the NFs of one program again. One for each worker and generation, as they have scratch memory.
class Teller {
public:
    /// `line`: the worker's; null: the host halves are told at once, by one thread at a time.
    Teller(std::shared_ptr<const chain::Program> program, EventLine* line);
    ~Teller();
    /// Hands on what was stored, and all events of the packets in `left`; sorts both. What nobody
    /// had room for even now, as an NF emits more than it says or the line was full for too long, is counted as lost.
    void deliver(std::span<Event> stored, std::span<LeftEvents> left, ChainCounters& counters,
                 const EventPackets& packets);

private:
    void hand_on(std::span<const Event> events, ChainCounters& counters, const EventPackets& packets) const;
    void ask_again(const LeftEvents& left, ChainCounters& counters, const EventPackets& packets);

    const std::shared_ptr<const chain::Program> program_;
    EventLine* const line_;
    std::vector<std::unique_ptr<nf::CpuHalf>> by_node_;  // null: the device half
    std::vector<Event> storage_;                         // of one packet
};

}  // namespace millrace::exec
