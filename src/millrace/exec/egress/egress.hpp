// How packets of one worker leave by ports: as they are, in fragments, in segments.
#pragma once

#include <rte_mbuf.h>

#include <memory>
#include <span>
#include <vector>

#include "millrace/chain/program.hpp"
#include "millrace/exec/egress/copy_buffers.hpp"
#include "millrace/exec/egress/send_queues.hpp"
#include "millrace/exec/fragments/reassembler.hpp"
#include "millrace/io/kernel/offload.hpp"
#include "millrace/io/port.hpp"

namespace millrace::exec {

class Split;

/// Makes packets what the wire carries, and puts them in the ports' queues in their order. One thread.
class Egress {
public:
    /// `locks`: as SendQueues wants them. `whole_packets` is asked for when there are chains that put fragments
    /// together, and not before.
    Egress(const std::vector<std::unique_ptr<io::Port>>& ports, const std::vector<std::unique_ptr<SpinLock>>& locks,
           const std::unique_ptr<WholePackets>& whole_packets, unsigned worker, size_t burst);

    SendQueues& queues() { return queues_; }
    const SendQueues& queues() const { return queues_; }
    CopyBuffers& buffers() { return buffers_; }
    /// Frames may come from now on that are yet to be cut into those of the wire.
    void expect_uncut();

    /// Packets of a chain leave by a port. `sender` counts those that the port takes; null: nobody does. Returns how
    /// many packets they are now, as some may have been cut.
    size_t leave(uint16_t port, const chain::Program& program, ChainCounters& counters,
                 std::span<rte_mbuf* const> mbufs, ChainCounters* sender);
    /// Keeps frames that a port has not taken for later, in packets of their own; or drops them by name, if it is one
    /// that takes nothing any more.
    void hold_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames,
                     ChainCounters& sender);

private:
    /// Pieces of a packet: the longest, by the least MTU of IPv4.
    static constexpr size_t kMaxPieces = 1408;
    size_t leave_in_fragments(uint16_t port, ChainCounters& counters, rte_mbuf* mbuf, ChainCounters* sender);
    size_t leave_uncut(uint16_t port, const chain::Program& program, ChainCounters& counters, rte_mbuf* mbuf,
                       ChainCounters* sender);
    bool cut_into_fragments(const Split& split, const rte_mbuf& whole);
    bool cut_into_segments(const rte_mbuf& whole, const io::OffloadHeader& offload);

    const std::vector<std::unique_ptr<io::Port>>& ports_;
    const std::unique_ptr<WholePackets>& whole_packets_;
    SendQueues queues_;
    CopyBuffers buffers_;
    std::vector<rte_mbuf*> fragments_, segments_;  // of one packet
    bool has_uncut_ = false;
};

}  // namespace millrace::exec
