// Receiving from one queue of an interface by AF_XDP: which frames are whose, and since when.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/io/receive_block.hpp"
#include "millrace/io/xdp/xdp_socket.hpp"

namespace millrace::io {

/// One thread, but for `go_over_to`. Frames lie in rooms at the beginning of the memory. It outlives the interface:
/// when that comes back, it goes over to the new one's socket, and what it has given out stays where it is.
class XdpReceiver {
public:
    XdpReceiver(std::span<uint8_t> memory, uint32_t room_bytes, uint32_t rooms)
        : memory_(memory), room_bytes_(room_bytes), rooms_(rooms), is_out_(rooms), spots_(size_t{2} * rooms) {}

    /// The socket to take frames from when those of the present one are through. Any thread.
    void go_over_to(XdpSocket* socket);
    /// Does so. False: there is no other.
    bool take_next();
    const XdpSocket& socket() const { return *socket_; }

    /// How many frames wait.
    uint32_t waiting() const { return socket_->waiting(); }
    /// The oldest of these, as it was on the wire. There must be one, and it must be popped or taken before the next
    /// call.
    FrameSpot front();
    const uint8_t* data(const FrameSpot& spot) const { return memory_.data() + spot.offset; }
    /// It is done with.
    void pop() { socket_->give(room_of(pop_taken())); }
    /// After a burst: the kernel learns what has become free.
    void end() { socket_->end_receiving(); }

    /// Takes `most` frames at most, where they lie; `takes(spot)` says of each whether it is wanted, else it is popped.
    template <class Takes>
    ReceiveBlock take(uint32_t most, const Takes& takes) {
        ReceiveBlock block;
        block.memory = memory_.data();
        const uint32_t waits = std::min({most, waiting(), rooms_ - out_});
        if (spot_ + waits > spots_.size()) spot_ = 0;
        block.spots = spots_.data() + spot_;
        for (uint32_t i = 0; i < waits; ++i) {
            // They rise, but where memory begins anew or the kernel has given a room out again.
            if (block.count != 0 && socket_->front().addr < block.spots[block.count - 1].offset) break;
            const FrameSpot spot = front();
            if (!takes(spot)) {
                pop();
                continue;
            }
            is_out_[pop_taken() / room_bytes_] = 1;
            spots_[spot_++] = spot;
            ++block.count;
        }
        out_ += block.count;
        end();
        return block;
    }
    /// Frames of a block that was taken are not needed any more.
    void give_back(const FrameSpot* spots, uint32_t count);
    /// So many frames are out.
    uint32_t out() const { return out_; }
    /// Frames whose checksum was finished here. Any thread.
    uint64_t finished() const { return finished_.load(std::memory_order_relaxed); }

private:
    uint64_t room_of(uint64_t address) const { return address & ~(uint64_t{room_bytes_} - 1); }
    uint64_t pop_taken() {
        const uint64_t address = socket_->front().addr;
        socket_->pop();
        return address;
    }
    void restore_tag(FrameSpot& spot, uint32_t tag);

    const std::span<uint8_t> memory_;
    const uint32_t room_bytes_, rooms_;
    XdpSocket* socket_ = nullptr;
    std::atomic<XdpSocket*> next_{nullptr};
    std::vector<uint8_t> is_out_;   // by room
    std::vector<FrameSpot> spots_;  // of frames that were taken, in a ring
    uint32_t spot_ = 0, out_ = 0;
    std::atomic<uint64_t> finished_{0};
};

}  // namespace millrace::io
