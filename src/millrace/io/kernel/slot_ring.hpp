// Receiving from a kernel's interface: a packet socket with a ring of slots that it shares with the kernel.
#pragma once

#include <linux/if_packet.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/kernel/offload.hpp"

namespace millrace::io {

struct SlotRingOptions {
    int interface = 0;            ///< its index
    uint32_t frame_bytes = 1522;  ///< frames up to this length fit into a slot
    uint32_t slots = 4096;
    bool promiscuous = true;
};

/// A frame in a slot, as the kernel left it.
struct SlotFrame {
    const uint8_t* data = nullptr;
    uint32_t bytes = 0;         ///< in the slot
    uint32_t whole_bytes = 0;   ///< of the frame: more than `bytes` when it did not fit
    bool is_set_aside = false;  ///< a frame that did not fit waits as a whole, see SlotRing::fetch
    bool is_outgoing = false;   ///< this machine sends it
    uint32_t vlan_tag = 0;      ///< what the kernel has taken out behind the addresses (type and tag); 0: nothing
    uint64_t timestamp_ns = 0;
    OffloadHeader offload{};  ///< what was left to a NIC: the checksum, cutting into segments
};

/// Packet socket of version 2, whose slots are handed over one by one at once; the blocks of version 3 come when they
/// are full or after a millisecond or more, which is longer than chains want to wait. Frames that no slot holds, such
/// as those whose cutting into segments was left to a NIC, come by the socket's own queue, in order. One thread at a
/// time, but for `join`, `listen` and `missed`.
class SlotRing {
public:
    /// Hears nothing before `listen`. Throws std::runtime_error with what the kernel says.
    explicit SlotRing(const SlotRingOptions& options);
    ~SlotRing();
    SlotRing(const SlotRing&) = delete;
    SlotRing& operator=(const SlotRing&) = delete;

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
    uint32_t ready(uint32_t most) const;
    /// The oldest frame that waits; there must be one.
    SlotFrame front() const;
    /// Reads a frame that was set aside, with what was left to a NIC; its length, or negative when it is gone. The
    /// frame's slot is `front`.
    int64_t fetch(std::span<uint8_t> to, OffloadHeader& offload) const;
    /// The slot is the kernel's again.
    void pop();

    /// Readable while frames wait, or there is an error.
    int descriptor() const { return socket_.get(); }
    void forget_error();

    /// Frames that the kernel has dropped since the last call as no slot was free. Any thread.
    uint64_t missed() const;

private:
    tpacket2_hdr* slot(uint32_t index) const;
    void map(const SlotRingOptions& options);

    Descriptor socket_;
    uint8_t* memory_ = nullptr;
    size_t memory_bytes_ = 0;
    uint32_t slot_bytes_ = 0, slots_ = 0;
    uint32_t head_ = 0;
};

}  // namespace millrace::io
