// Sending by a kernel's interface: a packet socket, many frames a call, and what became of each.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/kernel/offload.hpp"
#include "millrace/io/port.hpp"

namespace millrace::io {

/// What became of the first frames of some.
struct SendResult {
    uint32_t done = 0;  ///< so many were sent or dropped; the next ones may be tried again
    uint64_t sent = 0, sent_bytes = 0;
    uint64_t uncut = 0, uncut_segments = 0;  ///< of these, frames that the kernel is to cut, and into how many
    std::array<uint32_t, kPortDrops> drops{};
    void drop(PortDrop reason, uint32_t n = 1) {
        drops[static_cast<size_t>(reason)] += n;
        done += n;
    }
};

/// Frames are handed to the kernel at once, which says of each whether it took it: nothing stays behind to leave later.
/// One thread at a time, but for `bind`.
class SendQueue {
public:
    static constexpr uint32_t kMaxFrames = 64;
    static constexpr uint32_t kMaxPieces = 64;  ///< of one frame

    /// Throws std::runtime_error with what the kernel says. `past_queueing`: frames go to the driver and not to the
    /// queueing discipline.
    SendQueue(int interface, bool past_queueing);
    /// Sends by this interface from now on. Any thread; false when it is gone.
    bool bind(int interface);

    /// Adds a frame of these pieces to those that `send` sends, with what is left to a network card; false when that
    /// many pieces have no room any more. A frame may have kMaxPieces when it is the first.
    bool add(std::span<const iovec> pieces, uint32_t bytes, const OffloadHeader& offload = {});
    bool is_full() const { return frames_ == kMaxFrames; }
    uint32_t frames() const { return frames_; }
    /// Sends what was added, in order, and forgets it. Never waits.
    void send(SendResult& result);

private:
    struct Messages {
        std::array<mmsghdr, kMaxFrames> headers{};
        std::array<OffloadHeader, kMaxFrames> offloads{};
        std::array<iovec, size_t{4} * kMaxFrames> pieces{};  // each frame's begin with its OffloadHeader
        std::array<uint32_t, kMaxFrames> bytes{};
    };
    static_assert(std::tuple_size_v<decltype(Messages::pieces)> > kMaxPieces);
    bool handle(int error, uint32_t left, SendResult& result) const;
    void count_sent(uint32_t frame, SendResult& result) const;

    Descriptor socket_;
    std::unique_ptr<Messages> messages_;
    uint32_t frames_ = 0, pieces_ = 0;
};

}  // namespace millrace::io
