// What a packet costs the CPU on its way through a device that takes no time.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::lab {

struct OffloadPath {
    unsigned workers = 1;
    std::string size = "64";                         ///< of frames, in bytes; or imix
    uint32_t batch_packets = 4096, buffers = 16384;  ///< buffers of each worker
    bool contiguous = false;                         ///< frames, in place of each in a buffer of its own
    double seconds = 0.5;
};
/// Time stamp cycles of a worker's own CPU time for a packet, from the source over batches and results into the sink.
/// Throws std::runtime_error when packets are lost.
double measure_offload_path(const OffloadPath& path);

}  // namespace millrace::lab
