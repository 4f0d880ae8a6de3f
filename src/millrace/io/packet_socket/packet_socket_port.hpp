// A kernel's interface as a port, by packet sockets.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "millrace/io/kernel/followed_interface.hpp"
#include "millrace/io/kernel/ingress_drop.hpp"
#include "millrace/io/kernel/offload.hpp"
#include "millrace/io/memory/frame_log.hpp"
#include "millrace/io/packet_socket/block_ring.hpp"
#include "millrace/io/packet_socket/send_queue.hpp"
#include "millrace/io/packet_socket/slot_ring.hpp"
#include "millrace/io/port.hpp"
#include "millrace/io/wake_event.hpp"

namespace millrace::io {

struct PacketSocketOptions {
    /// What frames are received in.
    enum class Layout : uint8_t {
        buffers,     ///< slots of the kernel's, from which they are copied to mbufs
        contiguous,  ///< the same, copied to receive blocks
        blocks,      ///< blocks of the kernel's, which are receive blocks as they are
    };
    std::string interface;
    bool promiscuous = true;
    bool past_queueing = false;  ///< frames go to the driver, and not to the interface's queueing discipline
    Layout layout = Layout::buffers;
    bool is_hidden = false;        ///< Linux itself sees nothing of what comes in
    bool keeps_uncut = true;       ///< frames that are yet to be cut stay so where they are wanted so
    uint32_t slots = 0;            ///< in each queue's ring; 0: 16 MiB of them, 4096 at most
    uint32_t max_frame_bytes = 0;  ///< 0: as the MTU is at start
};

/// Frames come with the kernel's time, their VLAN tags and finished checksums, and those that a sender on this machine
/// left to a network card to cut are cut. What is sent is with the kernel when `send` returns, or was dropped by name.
/// With several queues flows are spread by a hash of addresses and ports. The interface may go down, change its MTU, or
/// vanish and come back while the port is at work.
class PacketSocketPort : public InterfacePort {
public:
    /// Throws std::runtime_error with what is wrong with the interface or the rights.
    PacketSocketPort(const PortInfo& info, const PacketSocketOptions& options, const PoolOptions& pool);
    ~PacketSocketPort() override { close(); }

    /// Completes `info` and `pool` by what the interface is. Throws std::runtime_error when there is none, or no
    /// Ethernet on it.
    static void describe(PortInfo& info, PacketSocketOptions& options, PoolOptions& pool);

    /// Why Linux sees what comes in though it was not to, when the port was made; empty: it does not.
    const std::string& not_hidden() const { return not_hidden_; }

    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override;
    void end_sleep(uint16_t queue) override;
    bool receives_blocks() const override { return options_.layout != PacketSocketOptions::Layout::buffers; }
    ReceiveBlock receive_block(uint16_t queue, uint32_t most) override;
    void give_back(uint16_t queue, uint32_t count) override;
    bool sends_frames() const override { return true; }
    size_t send_frames(uint16_t queue, const ReceiveBlock& block, std::span<const FramePieces> frames) override;

    void give_uncut(uint16_t queue, bool uncut) override {
        queues_[queue]->gives_uncut = uncut && options_.keeps_uncut;
    }
    const PacketPool* uncut_pool() const override { return uncut_pool_.get(); }

    bool linux_hears() const override { return !is_hidden_; }
    PortCounters counters() const override;
    void close() override;
    std::vector<const PacketPool*> pools() const override { return {&pool_}; }
    std::vector<std::span<uint8_t>> memory() const override;

private:
    /// A ring, and how far its owner has come with it.
    struct Ring {
        std::unique_ptr<ReceiveRing> frames;
        BlockRing* blocks = nullptr;       // it, where frames are taken where they lie
        bool is_joined = true;             // the group of queues
        std::atomic<bool> is_left{false};  // its worker has gone over to the next
    };
    /// Frames that are out, of a ring's blocks or (null) of the log.
    struct OutRun {
        Ring* ring;
        uint32_t frames;
    };
    struct alignas(64) Queue {
        Ring* ring = nullptr;              // the worker's
        std::atomic<Ring*> next{nullptr};  // for when the interface came back: from the watch to the worker
        WakeEvent has_next;                // which is told so in its sleep
        std::unique_ptr<FrameLog> log;     // where receive blocks are given out
        std::vector<OutRun> out_runs;      // a ring of them, where some lie in blocks
        size_t oldest_run = 0, run_count = 0;
        std::unique_ptr<SendQueue> out;
        Segmenter segments;  // of the frame in `whole`
        std::unique_ptr<uint8_t[]> whole;
        uint64_t whole_ns = 0;
        uint64_t received = 0;
        bool gives_uncut = false;
        std::atomic<uint64_t> cut{0}, finished{0}, starved{0};
        std::atomic<uint64_t> uncut_in{0}, segments_in{0}, uncut_out{0}, segments_out{0};
    };

    // A frame that is to be cut, with room before it for a VLAN tag. IP's lengths end at 64 KiB.
    static constexpr size_t kWholeBytes = size_t{1} << 17, kWholeFront = 64;
    // Of a frame that is yet to be cut: longer ones are a sender's who wants to do harm.
    static constexpr uint32_t kMaxSegments = 1024;
    // That are taken at once of such frames: more would not stay in a core's cache until they are sent.
    static constexpr size_t kUncutAtOnce = size_t{1} << 20;
    static constexpr size_t kOutRuns = 4096;

    void open_rings(int interface, bool first);
    std::string hide(int interface);
    ReceiveBlock take_blocks(uint16_t queue, uint32_t most);
    static void note_out(Queue& queue, Ring* ring, uint32_t frames);
    void update(const Interface& now);
    void free_left_rings();
    bool take_next_ring(Queue& queue);
    template <class Place>
    uint32_t take(uint16_t queue, uint32_t most, Place& place);
    template <class Place>
    bool take_plain(uint16_t queue, const RingFrame& frame, Place& place);
    void take_whole(uint16_t queue, const RingFrame& frame);
    std::optional<OffloadHeader> stays_uncut(const Queue& queue, const RingFrame& frame) const;
    template <class Place>
    bool take_uncut(uint16_t queue, const RingFrame& frame, const OffloadHeader& offload, Place& place);
    template <class FrameOf, class Release>
    uint32_t send_all(uint16_t queue, uint32_t count, const FrameOf& frame_of, const Release& release);

    const PacketSocketOptions options_;
    PacketPool pool_;
    std::unique_ptr<PacketPool> uncut_pool_;  // null without `keeps_uncut`
    std::vector<std::unique_ptr<Queue>> queues_;
    std::atomic<bool> is_hidden_{false};

    // Of `followed_`, and of whoever asks for counters; never of a worker.
    std::vector<std::unique_ptr<Ring>> rings_;  // the last ones are at work, those before are left or will be
    int group_ = ReceiveRing::kNewGroup;
    IngressDrop hiding_;
    std::string not_hidden_;  // why
    mutable uint64_t missed_ = 0;
};

}  // namespace millrace::io
