// What hands an interface's frames to AF_XDP sockets: an XDP program of a few instructions, which is at the interface
// for as long as this process lives.
#pragma once

#include <cstdint>
#include <string>

#include "millrace/io/kernel/interface.hpp"

namespace millrace::io {

/// Frames of queues that have a socket go there, others to the kernel. The kernel takes the program off when its owner
/// or the process ends, however that is.
class RedirectProgram {
public:
    /// Attaches to an interface with so many receive queues; `name` is for messages. In the driver where that can do
    /// it, else in the kernel's stack. Throws std::runtime_error with what is in the way, and what mends it.
    RedirectProgram(int interface, const std::string& name, uint32_t queues);

    /// From here on frames of the queue go to the AF_XDP socket.
    void redirect(uint32_t queue, int socket);

    /// Whether the driver runs it. In the stack it sees what receivers have put together (GRO).
    bool is_in_driver() const { return is_in_driver_; }
    /// Whether each frame has its VLAN tag's type and tag, or 0, in the kTagBytes before it, as a 32-bit number: else
    /// tags that the card or the sender's kernel keeps beside the frame are lost.
    bool tells_tags() const { return tells_tags_; }
    static constexpr uint32_t kTagBytes = 4;

private:
    Descriptor map_, program_, link_;
    bool is_in_driver_ = true, tells_tags_ = false;
};

}  // namespace millrace::io
