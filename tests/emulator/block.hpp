// Runs the threads of one block of an emulated kernel, each on a stack of its own, until they meet.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "calls.hpp"

namespace emulator {

class Memory;

/// A kernel to run, with its library's functions.
struct Code {
    const char* name = nullptr;
    const KernelEntry* entry = nullptr;
    Enter enter = nullptr;
};

/// What a kernel's thread did that no GPU goes on after. `result` is the driver's number for it.
struct KernelFault {
    int result;
    std::string what;
    const void* instruction = nullptr;  ///< null: none in particular
    const void* address = nullptr;      ///< that it reached for
};

/// Where a block lies in its grid, and what the launch gives it.
struct BlockLaunch {
    Index block, block_size, grid;
    size_t block_bytes = 0;
    void** parameters = nullptr;
    const std::atomic<bool>* abandoned = nullptr;  ///< ends it where its threads pause, or get kGiveUpSignal
    Memory* memory = nullptr;                      ///< the GPU's
};
/// For threads that run blocks which are abandoned: to be sent until they end.
inline constexpr int kGiveUpSignal = SIGURG;

/// The functions that kernels call.
extern const Calls kCalls;

/// Runs one block to its end, on the thread that calls; several threads may each run one. Threads of the block run one
/// at a time, until they meet at a barrier or in a warp, in an order that changes from block to block and from barrier
/// to barrier: so a barrier that is missing shows. Throws KernelFault: an address that is not there or misaligned, a
/// stack overrun, threads that wait for each other in vain.
void run_block(const Code& code, const BlockLaunch& launch);

/// To be called once, before the first block: has faults of kernels end in KernelFault, and others go where they went.
void catch_faults();

}  // namespace emulator
