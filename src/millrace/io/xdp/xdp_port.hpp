// A kernel's interface as a port, by AF_XDP sockets.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/io/kernel/followed_interface.hpp"
#include "millrace/io/port.hpp"
#include "millrace/io/wake_event.hpp"
#include "millrace/io/xdp/redirect_program.hpp"
#include "millrace/io/xdp/xdp_receiver.hpp"
#include "millrace/io/xdp/xdp_sender.hpp"

namespace millrace::io {

struct XdpOptions {
    std::string interface;
    bool promiscuous = true;
    XdpMode mode = XdpMode::automatic;
    uint32_t descriptors = 0;      ///< frames that each queue of the interface may have; 0: 16 MiB of them for a worker
    bool queues_given = false;     ///< else there are no more than the interface has
    uint32_t max_frame_bytes = 0;  ///< 0: as the MTU is at start
    uint32_t interface_queues = 1;  ///< that the interface has at start for receiving
    bool may_lose_tags = false;     ///< its driver keeps VLAN tags beside frames
    bool leaves_checksums = true;   ///< its frames come from senders on this machine
    uint32_t room_bytes = 2048;     ///< that a frame lies in
};

/// Frames come where the kernel or the card has put them, with their VLAN tags and finished checksums. Each of the
/// port's queues has some of the interface's; who spreads flows over these is the card, or the other end of a virtual
/// cable. What `send` takes is copied to memory of the socket's, and is `sent` when the kernel has taken it. The
/// interface may go down, change its MTU, or vanish and come back while the port is at work.
class XdpPort : public InterfacePort {
public:
    /// Throws std::runtime_error with what is wrong with the interface or the rights.
    XdpPort(const PortInfo& info, const XdpOptions& options, const PoolOptions& pool);
    ~XdpPort() override { close(); }

    /// Completes both by what the interface is. Throws std::runtime_error when it is none that AF_XDP can be had at.
    static void describe(PortInfo& info, XdpOptions& options);

    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    bool receives_blocks() const override { return true; }
    ReceiveBlock receive_block(uint16_t queue, uint32_t most) override;
    void give_back(uint16_t queue, uint32_t count) override;
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override;
    void end_sleep(uint16_t queue) override;

    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    bool sends_frames() const override { return true; }
    bool sends_uncut() const override { return false; }
    size_t send_frames(uint16_t queue, const ReceiveBlock& block, std::span<const FramePieces> frames) override;

    PortCounters counters() const override;
    void close() override;
    std::vector<const PacketPool*> pools() const override { return {&pool_}; }
    std::vector<std::span<uint8_t>> memory() const override;

    /// Whether VLAN tags that the sender's kernel or the card has put beside a frame are known.
    bool tells_tags() const { return tells_tags_; }

private:
    /// Memory for the frames of one of the interface's queues.
    struct Memory {
        explicit Memory(size_t bytes);
        ~Memory();
        Memory(const Memory&) = delete;
        Memory& operator=(const Memory&) = delete;
        std::span<uint8_t> all;
    };
    /// One of the interface's queues.
    struct Channel {
        Memory memory;
        XdpReceiver receiver;
        XdpSender sender;
        Channel(const XdpOptions& options, uint32_t receive_rooms, uint32_t send_rooms);
    };
    /// Frames that are out, all of one channel.
    struct OutRun {
        XdpReceiver* from;
        const FrameSpot* spots;
        uint32_t frames;
    };
    struct alignas(64) Queue {
        std::vector<Channel*> channels;  // for receiving
        size_t next = 0;                 // of these, to be looked at first
        Channel* sends_by = nullptr;
        WakeEvent has_next;            // its sockets are others
        std::vector<OutRun> out_runs;  // a ring of as many as frames can be out
        size_t oldest_run = 0, run_count = 0;
        uint64_t received = 0;
        std::atomic<uint64_t> starved{0};
    };

    void open(int interface);
    void update(const Interface& now);
    void free_left_sockets();
    XdpReceiver* receiver_with_frames(Queue& queue);
    bool takes(uint16_t queue, const FrameSpot& spot);
    template <class Frames>
    uint32_t send_all(uint16_t queue, uint32_t count, const Frames& frames);
    void count(uint16_t queue, const SendResult& result);

    const XdpOptions options_;
    PacketPool pool_;
    uint32_t receive_rooms_, send_rooms_;  // of each channel
    std::vector<std::unique_ptr<Channel>> channels_;
    std::vector<std::unique_ptr<Queue>> queues_;
    std::atomic<bool> tells_tags_{false};

    // Of `followed_`, and of whoever asks for counters; never of a worker.
    int interface_ = 0;
    std::optional<Descriptor> promiscuous_;
    std::vector<std::unique_ptr<XdpSocket>> sockets_;  // the last ones are at work, those before are left or will be
    std::unique_ptr<RedirectProgram> program_;
    XdpCounts left_;  // what was counted of sockets that are no more
};

}  // namespace millrace::io
