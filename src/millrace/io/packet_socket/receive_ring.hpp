// Receiving from a kernel's interface: a packet socket with memory that it shares with the kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/kernel/offload.hpp"

namespace millrace::io {

struct ReceiveRingOptions {
    int interface = 0;            ///< its index
    uint32_t frame_bytes = 1522;  ///< frames up to this length come in that memory
    uint32_t slots = 4096;        ///< of so many frames
    bool promiscuous = true;
};

/// A frame in that memory, as the kernel left it.
struct RingFrame {
    const uint8_t* data = nullptr;
    uint32_t bytes = 0;         ///< there
    uint32_t whole_bytes = 0;   ///< of the frame: more than `bytes` when it did not fit
    bool is_set_aside = false;  ///< a frame that did not fit waits as a whole, see ReceiveRing::fetch
    bool is_outgoing = false;   ///< this machine sends it
    uint32_t vlan_tag = 0;      ///< what the kernel has taken out behind the addresses (type and tag); 0: nothing
    uint64_t timestamp_ns = 0;
    OffloadHeader offload{};  ///< what was left to a NIC: the checksum, cutting into segments
};

/// One thread at a time, but for `join`, `listen` and `missed`.
class ReceiveRing {
public:
    virtual ~ReceiveRing();
    ReceiveRing(const ReceiveRing&) = delete;
    ReceiveRing& operator=(const ReceiveRing&) = delete;

    /// Shares flows out among the sockets of the group `group`, by a hash of addresses and ports which is the same both
    /// ways; kNewGroup makes one. Returns the group's number, from 0 to 65535: the kernel begins with 0. Fragments go
    /// by their addresses and are not put together. Negative: not now, as the interface is down.
    int join(int group);
    static constexpr int kNewGroup = -1;
    /// From here on frames come.
    void listen();
    /// Whether the socket is at an interface still.
    bool is_bound() const;

    /// How many frames wait, up to `most`.
    virtual uint32_t ready(uint32_t most) = 0;
    /// The oldest frame that waits; there must be one.
    virtual RingFrame front() const = 0;
    /// Its memory is the kernel's again.
    virtual void pop() = 0;
    /// Reads a frame that was set aside, with what was left to a NIC; its length, or negative when it is gone. It is
    /// `front`. Behind its addresses so many bytes are left free, for a VLAN tag.
    int64_t fetch(std::span<uint8_t> to, OffloadHeader& offload, size_t gap = 0) const;

    /// Readable while frames wait, or there is an error.
    int descriptor() const { return socket_.get(); }
    void forget_error();

    /// Frames that the kernel has dropped since the last call as there was no room. Any thread.
    uint64_t missed() const;

protected:
    /// A socket of a version of packet sockets (TPACKET_V2, _V3), which has no memory yet, and leaves so much more free
    /// before each frame. Throws std::runtime_error with what the kernel says.
    ReceiveRing(int version, uint32_t reserve);
    /// Maps so many bytes, which the request asks for.
    template <class Request>
    void map(const Request& request, size_t bytes) {
        map(&request, sizeof request, bytes);
    }
    /// Hears the interface, once the memory is there; nothing passes before `listen`.
    void bind(const ReceiveRingOptions& options);
    /// Has frames that have no room in that memory kept whole.
    void keep_long_frames();

    uint8_t* memory_ = nullptr;
    size_t memory_bytes_ = 0;

private:
    void map(const void* request, size_t request_bytes, size_t bytes);
    Descriptor socket_;
};

}  // namespace millrace::io
