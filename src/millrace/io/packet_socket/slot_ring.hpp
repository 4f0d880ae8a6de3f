// A packet socket whose memory is slots, a frame in each.
#pragma once

#include <linux/if_packet.h>

#include "millrace/io/packet_socket/receive_ring.hpp"

namespace millrace::io {

/// Version 2: slots are handed over one by one at once. Frames that no slot holds, such as those whose cutting into
/// segments was left to a NIC, come by the socket's own queue, in order.
class SlotRing : public ReceiveRing {
public:
    /// Hears nothing before `listen`. Throws std::runtime_error with what the kernel says.
    explicit SlotRing(const ReceiveRingOptions& options);
    uint32_t ready(uint32_t most) override;
    RingFrame front() const override;
    void pop() override;

private:
    tpacket2_hdr* slot(uint32_t index) const;
    uint32_t slot_bytes_ = 0, slots_ = 0;
    uint32_t head_ = 0;
};

}  // namespace millrace::io
