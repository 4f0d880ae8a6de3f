// Compiles for a CPU and for no GPU.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cstring>
#endif

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace refused {

struct Refused {
    static constexpr millrace::Fields reads = millrace::field::none;
    static constexpr millrace::Fields writes = millrace::field::none;
    static constexpr unsigned lanes = 1;
    struct Tables {};
    template <class Lanes>
    MILLRACE_DEVICE static millrace::Decision process(millrace::Packet&, const Tables&, Lanes) {
        return {static_cast<uint32_t>(std::strlen("four")), 0};
    }
};

}  // namespace refused
