// Buffers for packets that a worker makes from others.
#pragma once

#include <rte_mbuf.h>

#include <memory>
#include <vector>

#include "millrace/exec/egress/send_queues.hpp"
#include "millrace/io/port.hpp"

namespace millrace::exec {

/// Buffers for copies of frames, and for what frames are cut into. One thread.
class CopyBuffers {
public:
    /// Each port has buffers for `worker`. While packets wait in `queues`, buffers come free.
    CopyBuffers(const std::vector<std::unique_ptr<io::Port>>& ports, unsigned worker, SendQueues& queues);

    /// Where packets come from that a port received; null: it has no buffers, or there is no such port.
    const io::PacketPool* pool(uint16_t port) const { return port < pools_.size() ? pools_[port] : nullptr; }
    /// A buffer, waited for while others come free; null when there is none.
    rte_mbuf* allocate(const io::PacketPool& pool);
    /// A packet that holds a copy of a frame of `block`, from a buffer of the port that received it; null when there is
    /// none, or the frame has no room in it.
    rte_mbuf* copy(const io::ReceiveBlock& block, const io::FramePieces& frame);

private:
    const std::vector<std::unique_ptr<io::Port>>& ports_;
    SendQueues& queues_;
    std::vector<const io::PacketPool*> pools_;  // by port
    bool is_empty_ = false;                     // one was last wanted, and waited for in vain
};

}  // namespace millrace::exec
