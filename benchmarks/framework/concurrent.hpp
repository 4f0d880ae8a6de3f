// Bare loops on many cores at once: the most that the CPU's libraries make of the chain on a machine.
#pragma once

#include <string>
#include <vector>

#include "lab/workload.hpp"

namespace millrace::lab {

struct Concurrent {
    double packets_per_second = 0;  ///< of all loops together, received
    double frame_bytes = 0;         ///< of a received frame
};

/// `threads` loops, each on a core of its own from `first_core` on, over shares of the same flows and with the same
/// tables.
Concurrent measure_concurrent(const Workload& workload, const Traffic& traffic, unsigned threads, unsigned first_core,
                              double seconds);

}  // namespace millrace::lab
