// How many bytes a batch of equal frames takes across the bus.
#pragma once

#include "millrace/exec/transfer/transfer.hpp"

namespace millrace::exec {

struct BatchBytes {
    size_t in = 0, back = 0;
};

/// Of the functions' state, as it comes back with each batch.
uint64_t state_bytes(const chain::Program& program);

/// Of `packets` frames of `frame` bytes, as the offload engine lays them out.
BatchBytes batch_bytes(const chain::Program& program, Prefixes prefixes, uint32_t frame, size_t packets);

}  // namespace millrace::exec
