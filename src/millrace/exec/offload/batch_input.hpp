// What a batch takes of the packets that wait, and all of it that the host writes.
#pragma once

#include "millrace/exec/offload/batch.hpp"

namespace millrace::exec {

/// Places the frames of the chain's next batch and writes their descriptors, as many as fit, and chooses their ways.
/// The batch's piece of the packet ring has its layout then, but no address.
void lay_out(const ChainQueue& queue, const OffloadOptions& options, Batch& batch);

/// Once the piece has its address: writes what goes to the device besides the frames, and packs those that are to be
/// packed.
void write_input(Batch& batch);

}  // namespace millrace::exec
