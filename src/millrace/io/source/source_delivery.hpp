// How traffic sources hand out their frames.
#pragma once

#include <cstdint>

namespace millrace::io {

/// What a source writes into a buffer when it comes back into use. NFs change packets, so something must be.
enum class Restore {
    all,      ///< the whole frame
    headers,  ///< the first 112 bytes; the payload stays as its last use left it
    nothing,  ///< only lengths and metadata, as by a NIC: frames are written into the buffers at start
};

/// No option of a port: who compares ways to receive sets it for all sources that it makes (PortEnvironment).
struct SourceDelivery {
    /// Captures' frames can't have `headers`, for their payloads differ.
    Restore restore = Restore::all;
    /// Frames are contiguous, and given out as receive blocks to those who take them so; nobody writes them, so that
    /// nothing is to be restored, whatever `restore` says. Others get them in buffers, each written anew.
    bool contiguous = false;
    /// Of sources with a rate: packets that may wait in a queue to be received; what comes beyond is lost as `missed`,
    /// as by a NIC with so many descriptors. 0: none is lost, and 10 ms worth may wait.
    uint32_t descriptors = 0;
};

}  // namespace millrace::io
