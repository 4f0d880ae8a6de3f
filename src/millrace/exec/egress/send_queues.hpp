// One worker's packets on their way to ports.
#pragma once

#include <rte_mbuf.h>

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "millrace/base/spin_lock.hpp"
#include "millrace/exec/report/counters.hpp"
#include "millrace/io/port.hpp"

namespace millrace::exec {

/// What waits until a port takes it, in order, a queue for each port. One thread.
class SendQueues {
public:
    /// `locks`: by port, where several workers share its queue; null: the queue is the worker's own. A port with at
    /// least `burst` packets is offered them by `send_full`.
    SendQueues(const std::vector<std::unique_ptr<io::Port>>& ports, const std::vector<std::unique_ptr<SpinLock>>& locks,
               unsigned worker, size_t burst);
    /// Drops what no port has taken, by name.
    ~SendQueues();
    SendQueues(const SendQueues&) = delete;
    SendQueues& operator=(const SendQueues&) = delete;

    /// Sets memory aside for so many packets for each port.
    void reserve(size_t packets);
    size_t ports() const { return queues_.size(); }
    bool is_empty(uint16_t port) const { return queues_[port].mbufs.empty(); }
    /// Packets that wait for the port that has most, after the last `send_all`.
    size_t unsent() const { return unsent_; }

    /// Puts packets in a queue. `sender` counts those that the port takes; null: nobody does.
    void add(uint16_t port, std::span<rte_mbuf* const> mbufs, ChainCounters* sender);
    /// Offers ports that have a burst what waits for them. What they do not take stays, and is dropped by name when a
    /// port has taken nothing for too long.
    void send_full();
    /// The same of all ports.
    void send_all();
    /// Sends frames without mbufs, behind what waits for the port. Returns how many it has taken, the first ones.
    size_t send_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames);
    /// Whether a port that has just taken nothing is one that will not.
    bool gives_up(uint16_t port);

private:
    struct Queue {
        struct Run {
            ChainCounters* sender;
            size_t count;
        };
        std::vector<rte_mbuf*> mbufs;
        std::vector<Run> runs;     ///< of packets of one sender
        uint64_t stuck_since = 0;  ///< when the port was first offered packets and took none (TSC); 0: it takes some

        /// The first `count` have gone.
        void remove(size_t count);
        /// Drops all.
        void drop();
    };
    void send(uint16_t port);
    size_t offer(io::Port& port, std::span<rte_mbuf* const> mbufs, ChainCounters* sender) const;
    std::unique_lock<SpinLock> lock(uint16_t port) const;
    uint16_t send_queue(const io::Port& port) const;

    const std::vector<std::unique_ptr<io::Port>>& ports_;
    const std::vector<std::unique_ptr<SpinLock>>& locks_;
    const unsigned worker_;
    const size_t burst_;
    std::vector<Queue> queues_;  // by port
    size_t unsent_ = 0;
};

}  // namespace millrace::exec
