// Sending by one queue of an interface by AF_XDP: frames are copied to memory of the socket's, and what became of each
// is counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/io/packet_socket/send_queue.hpp"
#include "millrace/io/xdp/xdp_socket.hpp"

namespace millrace::io {

/// One thread, but for `go_over_to`, `nudge` and `is_stuck`. Frames lie in rooms behind those for receiving.
class XdpSender {
public:
    /// The rooms from `first` on of that memory.
    XdpSender(std::span<uint8_t> memory, uint32_t room_bytes, uint32_t first, uint32_t rooms)
        : memory_(memory), room_bytes_(room_bytes), first_(first), rooms_(rooms) {}

    /// The socket to send by from the next frame on. Any thread.
    void go_over_to(XdpSocket* socket);
    /// Does so, if there is another. What the former one has not taken is lost, and told as such.
    void take_next(SendResult& result);

    /// The longest frame that goes.
    uint32_t most_bytes() const { return room_bytes_; }
    /// Where the next frame is to be written; null: nowhere now.
    uint8_t* place();
    /// It has been, and has so many bytes.
    void add(uint32_t bytes);
    /// Has what was added sent. Tells what was sent or dropped since the last call, which may be earlier frames:
    /// `result.done` has no meaning. False: frames are left that the kernel does not take now.
    bool send(SendResult& result);
    /// What the kernel has not taken is dropped for this reason. `is_unseen`: it knows of none.
    void drop_rest(PortDrop reason, SendResult& result, bool is_unseen = false);

    /// Whether frames wait for the kernel to take them.
    bool is_stuck() const { return is_stuck_.load(std::memory_order_relaxed); }
    /// Asks it to.
    void nudge() const;

private:
    void count(SendResult& result);

    const std::span<uint8_t> memory_;
    const uint32_t room_bytes_, first_, rooms_;
    XdpSocket* socket_ = nullptr;
    std::atomic<XdpSocket*> next_{nullptr};
    std::vector<uint64_t> free_;
    uint32_t counted_ = 0;  // the number of the first frame of which nothing was told yet
    uint32_t waiting_ = 0;  // frames from there on, without those that were taken back
    std::atomic<bool> is_stuck_{false};
    std::atomic<int> descriptor_{-1};
};

}  // namespace millrace::io
