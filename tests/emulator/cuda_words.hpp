// CUDA's words for a compiler of the host: put before every source that is compiled for an emulated GPU. As in the CUDA
// C++ Programming Guide and the PTX ISA, as far as this project's device code goes; what is not here does not compile.
#pragma once

#include "calls.hpp"

#define __CUDACC_RTC__ 1
#define __device__
#define __global__
#define __constant__ static
// All threads of a block are run by one thread of the host.
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
#ifdef __OPTIMIZE__
#define __forceinline__ inline __attribute__((always_inline))
#else
// A copy at every place takes long to make.
#define __forceinline__ inline
#endif
#define __noinline__ __attribute__((noinline))

namespace emulator {

// Of this library of kernels; emulated_connect and emulated_enter set them.
extern thread_local const ThreadView* self;
extern const Calls* calls;

template <unsigned...>
struct Places {};
template <class... Parameters, unsigned... Place>
void run(void (*kernel)(Parameters...), void** parameters, Places<Place...>) {
    kernel(*static_cast<Parameters*>(parameters[Place])...);
}
template <class... Parameters>
void run(void (*kernel)(Parameters...), void** parameters) {
    run(kernel, parameters, Places<__integer_pack(sizeof...(Parameters))...>{});
}
template <class... Parameters>
constexpr KernelEntry entry(void (*)(Parameters...), void (*run)(void**)) {
    return {run, sizeof...(Parameters), {sizeof(Parameters)...}};
}

/// The values that the lanes of `mask` bring, by lane.
struct Exchanged {
    unsigned long long values[32];
    Exchanged(unsigned mask, unsigned long long own) { calls->exchange(mask, own, values); }
};
template <class T>
unsigned long long bits_of(T value) {
    static_assert(sizeof(T) <= sizeof(unsigned long long));
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T>
T shuffled(unsigned mask, T own, unsigned from) {
    const Exchanged all(mask, bits_of(own));
    T value;
    __builtin_memcpy(&value, &all.values[from % 32], sizeof value);
    return value;
}
inline unsigned lane() { return self->thread.x % 32; }

}  // namespace emulator

#define threadIdx (emulator::self->thread)
#define blockIdx (emulator::self->block)
#define blockDim (emulator::self->block_size)
#define gridDim (emulator::self->grid)

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (by & 31));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned pick = selector >> (4 * i), byte = static_cast<unsigned>(bytes >> (8 * (pick & 7))) & 255;
        result |= ((pick & 8) != 0 ? (byte & 128) != 0 ? 255 : 0 : byte) << (8 * i);
    }
    return result;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (unsigned i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
    return c;
}

/// Loads that differ in what they leave in which cache.
template <class T>
T __ldcv(const T* from) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return *from;
}
template <class T>
T __ldcg(const T* from) {
    return __ldcv(from);
}
template <class T>
T __ldcs(const T* from) {
    return *from;
}

inline unsigned atomicAdd(unsigned* at, unsigned v) { return __atomic_fetch_add(at, v, __ATOMIC_RELAXED); }
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long v) {
    return __atomic_fetch_add(at, v, __ATOMIC_RELAXED);
}
template <class T>
T atomicMax(T* at, T v) {
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < v && !__atomic_compare_exchange_n(at, &old, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
inline unsigned atomicMin(unsigned* at, unsigned v) {
    unsigned old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old > v && !__atomic_compare_exchange_n(at, &old, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
inline unsigned atomicSub(unsigned* at, unsigned v) { return __atomic_fetch_sub(at, v, __ATOMIC_RELAXED); }
inline unsigned atomicOr(unsigned* at, unsigned v) { return __atomic_fetch_or(at, v, __ATOMIC_RELAXED); }
inline unsigned atomicCAS(unsigned* at, unsigned expected, unsigned v) {
    __atomic_compare_exchange_n(at, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long expected, unsigned long long v) {
    __atomic_compare_exchange_n(at, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline long long clock64() { return static_cast<long long>(__builtin_ia32_rdtsc()); }

extern "C" void* memcpy(void* to, const void* from, unsigned long bytes);
inline void __syncthreads() { emulator::calls->barrier(0); }
inline int __syncthreads_count(int holds) { return static_cast<int>(emulator::calls->barrier(holds != 0)); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::Exchanged(mask, 0); }
inline unsigned __ballot_sync(unsigned mask, int holds) {
    const emulator::Exchanged all(mask, holds != 0);
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < 32; ++lane) ballot |= (mask >> lane & 1 && all.values[lane] != 0 ? 1u : 0u) << lane;
    return ballot;
}
inline int __any_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) != 0; }
inline unsigned __reduce_or_sync(unsigned mask, unsigned own) {
    const emulator::Exchanged all(mask, own);
    unsigned any = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        any |= (mask >> lane & 1) != 0 ? static_cast<unsigned>(all.values[lane]) : 0;
    return any;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
    const unsigned long long own = emulator::bits_of(value);
    const emulator::Exchanged all(mask, own);
    unsigned same = 0;
    for (unsigned lane = 0; lane < 32; ++lane) same |= (mask >> lane & 1 && all.values[lane] == own ? 1u : 0u) << lane;
    return same;
}
template <class T>
T __shfl_sync(unsigned mask, T own, int from, int width = 32) {
    const unsigned group = static_cast<unsigned>(width);
    return emulator::shuffled(mask, own, emulator::lane() / group * group + static_cast<unsigned>(from) % group);
}
template <class T>
T __shfl_up_sync(unsigned mask, T own, unsigned by, int width = 32) {
    const unsigned lane = emulator::lane(), within = lane % static_cast<unsigned>(width);
    return emulator::shuffled(mask, own, within < by ? lane : lane - by);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T own, int with, int = 32) {
    return emulator::shuffled(mask, own, emulator::lane() ^ static_cast<unsigned>(with));
}

/// An address of the block's own memory as PTX has it: from the memory's beginning.
inline unsigned long long __cvta_generic_to_shared(const void* address) {
    return static_cast<unsigned long long>(static_cast<const unsigned char*>(address) - emulator::self->block_memory);
}

/// PTX instructions that sources write out, each by its name with _ for what no name of C++ has: results first, then
/// operands.
namespace ptx {
template <class T>
void ld_shared_u32(T& to, unsigned address) {
    if (address % 4 != 0) emulator::calls->fault("a misaligned load of a block's memory");
    __builtin_memcpy(&to, emulator::self->block_memory + address, sizeof to);
}
inline void prefetch_global_L1(unsigned long long) {}
inline void prefetch_global_L2(unsigned long long) {}
template <class T>
void ld_acquire_gpu_u64(T& to, const T* from) {
    emulator::calls->pause();
    to = __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
template <class T>
void ld_acquire_gpu_u32(T& to, const T* from) {
    ld_acquire_gpu_u64(to, from);
}
template <class T>
void st_release_gpu_u64(T* to, T value) {
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
template <class T>
void st_release_gpu_u32(T* to, T value) {
    st_release_gpu_u64(to, value);
}
template <class T>
void st_release_sys_u64(T* to, T value) {
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
template <class T>
void st_release_sys_u32(T* to, T value) {
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
template <class T>
void mov_u64_globaltimer(T& to) {
    to = static_cast<T>(emulator::calls->time_ns());
}
}  // namespace ptx
