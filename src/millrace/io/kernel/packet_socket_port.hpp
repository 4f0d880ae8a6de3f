// A kernel's interface as a port, by packet sockets.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/kernel/offload.hpp"
#include "millrace/io/kernel/send_queue.hpp"
#include "millrace/io/kernel/slot_ring.hpp"
#include "millrace/io/memory/frame_log.hpp"
#include "millrace/io/port.hpp"
#include "millrace/io/wake_event.hpp"

namespace millrace::io {

struct PacketSocketOptions {
    std::string interface;
    bool promiscuous = true;
    bool past_queueing = false;    ///< frames go to the driver, and not to the interface's queueing discipline
    bool contiguous = false;       ///< frames are given out in receive blocks
    uint32_t slots = 0;            ///< in each queue's ring; 0: 16 MiB of them, 4096 at most
    uint32_t max_frame_bytes = 0;  ///< 0: as the MTU is at start
};

/// Frames come with the kernel's time, their VLAN tags and finished checksums, and those that a sender on this machine
/// left to a network card to cut are cut. What is sent is with the kernel when `send` returns, or was dropped by name.
/// With several queues flows are spread by a hash of addresses and ports. The interface may go down, change its MTU, or
/// vanish and come back while the port is at work.
class PacketSocketPort : public Port {
public:
    /// Throws std::runtime_error with what is wrong with the interface or the rights.
    PacketSocketPort(PortInfo info, const PacketSocketOptions& options, const PoolOptions& pool);
    ~PacketSocketPort() override { close(); }

    /// Completes `info` and `pool` by what the interface is. Throws std::runtime_error when there is none, or no
    /// Ethernet on it.
    static void describe(PortInfo& info, PacketSocketOptions& options, PoolOptions& pool);

    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override;
    void end_sleep(uint16_t queue) override;
    bool receives_blocks() const override { return options_.contiguous; }
    ReceiveBlock receive_block(uint16_t queue, uint32_t most) override;
    void give_back(uint16_t queue, uint32_t count) override { queues_[queue]->log->give_back(count); }
    bool sends_frames() const override { return true; }
    size_t send_frames(uint16_t queue, const ReceiveBlock& block, std::span<const FramePieces> frames) override;

    bool exhausted() const override { return closed_; }
    LinkState link() const override;
    uint32_t mtu() const override { return mtu_.load(std::memory_order_relaxed); }
    PortCounters counters() const override;
    std::string trouble() const override;
    void close() override;
    std::vector<const PacketPool*> pools() const override { return {&pool_}; }
    std::vector<std::span<uint8_t>> memory() const override;

private:
    /// A ring, and how far its owner has come with it.
    struct Ring : SlotRing {
        using SlotRing::SlotRing;
        bool is_joined = true;             // the group of queues
        std::atomic<bool> is_left{false};  // its worker has gone over to the next
    };
    struct alignas(64) Queue {
        Ring* ring = nullptr;              // the worker's
        std::atomic<Ring*> next{nullptr};  // for when the interface came back: from the watch to the worker
        WakeEvent has_next;                // which is told so in its sleep
        std::unique_ptr<FrameLog> log;     // with `contiguous`
        std::unique_ptr<SendQueue> out;
        Segmenter segments;  // of the frame in `whole`
        std::unique_ptr<uint8_t[]> whole;
        uint64_t whole_ns = 0;
        uint64_t received = 0;
        std::atomic<uint64_t> cut{0}, finished{0}, starved{0};
    };

    // A frame that is to be cut, with room before it for a VLAN tag. IP's lengths end at 64 KiB.
    static constexpr size_t kWholeBytes = size_t{1} << 17, kWholeFront = 64;

    void open_rings(int interface);
    void update();
    void free_left_rings();
    bool take_next_ring(Queue& queue);
    template <class Place>
    uint32_t take(uint16_t queue, uint32_t most, const Place& place);
    template <class Place>
    bool take_plain(uint16_t queue, const SlotFrame& frame, const Place& place);
    void take_whole(uint16_t queue, const SlotFrame& frame);
    template <class PiecesOf, class Release>
    uint32_t send_all(uint16_t queue, uint32_t count, const PiecesOf& pieces_of, const Release& release);

    const PacketSocketOptions options_;
    PacketPool pool_;
    std::vector<std::unique_ptr<Queue>> queues_;
    std::atomic<bool> is_up_{false}, closed_{false};
    std::atomic<uint32_t> mtu_, speed_mbps_{0};

    // Of the watch, and of whoever asks for counters; never of a worker.
    mutable std::mutex control_;
    std::vector<std::unique_ptr<Ring>> rings_;  // the last ones are at work, those before are left or will be
    int group_ = SlotRing::kNewGroup;
    mutable uint64_t missed_ = 0;
    std::string trouble_;
    PortCounters last_;
    std::unique_ptr<InterfaceWatch> watch_;
};

}  // namespace millrace::io
