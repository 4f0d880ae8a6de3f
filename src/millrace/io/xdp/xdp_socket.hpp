// An AF_XDP socket: frames of one queue of an interface, in memory that the program shares with the kernel.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/xdp/xdp_ring.hpp"

namespace millrace::io {

/// How frames come into that memory and leave it.
enum class XdpMode : uint8_t {
    automatic,  ///< without a copy where the driver can do that
    copy,       ///< the kernel copies them
    zero_copy,  ///< the card writes and reads them
};

/// How what is received becomes what it was on the wire.
struct XdpFrameState {
    bool tells_tags = false;       ///< RedirectProgram::tells_tags
    bool leaves_checksums = true;  ///< senders on this machine may have left them to a card
};

struct XdpSocketOptions {
    int interface = 0;  ///< its index
    uint32_t queue = 0;
    std::span<uint8_t> memory;    ///< whole frame rooms
    uint32_t room_bytes = 2048;   ///< of each: 2048 or 4096
    uint32_t receive_frames = 0;  ///< rooms that may be out for receiving at once
    uint32_t send_frames = 0;     ///< and for sending
    XdpMode mode = XdpMode::automatic;
    XdpFrameState state;
};

/// What the kernel has counted of a socket.
struct XdpCounts {
    uint64_t lost = 0;        ///< frames that found no room, or that no room holds
    uint64_t no_room = 0;     ///< of these: all rooms were out
    uint64_t ring_full = 0;   ///< of these: the receive ring was full
    uint64_t bad_orders = 0;  ///< descriptors that the kernel refused
    void add(const XdpCounts& other) {
        lost += other.lost;
        no_room += other.no_room;
        ring_full += other.ring_full;
        bad_orders += other.bad_orders;
    }
};

/// One thread at a time for receiving, and one for sending; any for the rest. Rooms are told by the offset of their
/// first byte in the memory.
class XdpSocket {
public:
    /// Bytes of a room that the kernel keeps free before a frame.
    static constexpr uint32_t kHeadroom = 256;

    /// Throws std::runtime_error with what the kernel says, and what mends it.
    explicit XdpSocket(const XdpSocketOptions& options);

    /// Readable while frames wait.
    int descriptor() const { return socket_.get(); }
    bool is_zero_copy() const { return is_zero_copy_; }

    /// How many frames wait.
    uint32_t waiting() const { return received_.produced() - taken_; }
    /// The oldest of these: where it lies, and how long it is.
    const xdp_desc& front() { return received_.at(taken_); }
    void pop() { ++taken_; }
    /// Where the one lies that comes so many behind it; anywhere in the memory, where there is none.
    uint64_t address_ahead(uint32_t frames) { return received_.at(taken_ + frames).addr; }
    /// A room for a frame to come. There may be `receive_frames` of them.
    void give(uint64_t room) { free_.at(given_++) = room; }
    /// Tells the kernel of what was popped and given.
    void end_receiving();

    /// Has a frame sent that lies in a room; there may be `send_frames` of them. Its number.
    uint32_t put(uint64_t room, uint32_t bytes) {
        to_send_.at(put_) = {.addr = room, .len = bytes, .options = 0};
        return put_++;
    }
    /// Tells the kernel of what was put, if it is to be told. Returns an error number: EBUSY when it has dropped a
    /// frame, the last one that it took.
    int send();
    /// The first frame that the kernel has not taken yet. Before Linux 6.17 it may say so some frames late.
    uint32_t taken_to_send() const { return to_send_.consumed(); }
    uint32_t next_to_send() const { return put_; }
    uint32_t bytes_of(uint32_t number) { return to_send_.at(number).len; }
    /// Whether there is a place for one more.
    bool has_place() const { return put_ - taken_to_send() < to_send_.entries(); }
    /// A frame that was put, and that the kernel has not taken, is none: it will leave it out, and count a bad order.
    /// Returns its room.
    uint64_t take_back(uint32_t number) {
        const uint64_t room = to_send_.at(number).addr;
        to_send_.at(number) = {.addr = UINT64_MAX, .len = 0, .options = 0};
        return room;
    }
    /// Goes back to this number. The kernel has not been told of it, or could not look.
    void put_again_from(uint32_t number) { to_send_.produce_until(put_ = number); }
    /// Calls `done(room)` for rooms from which frames were sent.
    template <class Done>
    void finish_sent(const Done& done) {
        const uint32_t end = sent_.produced();
        if (end == finished_) return;
        for (; finished_ != end; ++finished_) done(sent_.at(finished_));
        sent_.consume_until(finished_);
    }

    XdpCounts counts() const;
    const XdpFrameState& state() const { return state_; }

    /// How many sides, receiving and sending, have not left it for another yet.
    std::atomic<uint32_t> users{2};

private:
    void make_rings(const XdpSocketOptions& options);
    void bind(const XdpSocketOptions& options);

    Descriptor socket_;
    const XdpFrameState state_;
    XdpRing<xdp_desc> received_, to_send_;
    XdpRing<uint64_t> free_, sent_;
    uint32_t taken_ = 0, given_ = 0, put_ = 0, finished_ = 0;
    bool is_zero_copy_ = false;
};

}  // namespace millrace::io
