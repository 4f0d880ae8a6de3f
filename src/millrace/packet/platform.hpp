// What lets one source compile with g++ for the host and with NVRTC for a GPU.
#pragma once

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using uintptr_t = unsigned long long;
using size_t = decltype(sizeof(0));
#define MILLRACE_DEVICE __device__ __forceinline__
/// For what is seldom called: a copy of it at every place would only push more frequent code out of the instruction
/// caches.
#define MILLRACE_DEVICE_CALL inline __device__ __noinline__
#define MILLRACE_GPU 1
#else
#include <cstddef>
#include <cstdint>
#define MILLRACE_DEVICE inline __attribute__((always_inline))
#define MILLRACE_DEVICE_CALL inline __attribute__((noinline))
#define MILLRACE_GPU 0
#endif

namespace millrace {

/// Smaller and larger of two values, for code that may not include <algorithm>.
template <class T>
MILLRACE_DEVICE constexpr T smaller(T a, T b) {
    return b < a ? b : a;
}
template <class T>
MILLRACE_DEVICE constexpr T larger(T a, T b) {
    return a < b ? b : a;
}

}  // namespace millrace
