// What the driver's functions have in common: the GPU that a thread's calls go to, calls that are refused, and what is
// put on streams.
#pragma once

#include "gpu.hpp"

namespace emulator {

/// The GPU of the calling thread's context; null where it has none.
extern thread_local Gpu* current;

/// What a function answers before it does anything: what the tests want of it, or the GPU's failure.
int trouble(const char* function);
#define ANSWER_TROUBLE \
    if (const int result = trouble(__func__); result != kSuccess) return result

/// The GPU's own stream for null.
Stream& of(Stream* stream);

/// CUmemorytype, as copies tell where they come from and go to.
inline constexpr unsigned kHost = 1, kDevice = 2;

struct Copy {
    unsigned char* to;
    const unsigned char* from;
    size_t bytes;
};

/// CUDA_KERNEL_NODE_PARAMS.
struct KernelCall {
    Kernel* function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void** parameters;
    void** extra;
    void* kernel;
    void* context;
};

Launch as_launch(const KernelCall& call);

void put_launch(Stream& stream, Launch launch);
void put_record(Stream& stream, Event* event);
void put_wait(Stream& stream, Event* event);
void put_copy(Stream& stream, const Copy& copy);

/// For those who ask on which multiprocessors kernels were launched.
void count_launch(const Stream& stream);

}  // namespace emulator
