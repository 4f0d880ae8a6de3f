// A network function that says which build of it runs, and that can be asked to misbehave.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <chrono>
#include <thread>
#endif

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace probe {

struct Probe {
    enum Outcome : uint32_t { kSeen };
    static constexpr millrace::Fields reads = millrace::field::none;
    static constexpr millrace::Fields writes = millrace::field::none;
    static constexpr unsigned lanes = 1;
    struct Tables {
        uint32_t build = 0;
        uint32_t outcome = 0;
        uint32_t loops = 0;
        uint32_t naps = 0;    ///< loops, and leaves the core to others
        uint32_t looks = 0;   ///< at the TTL, undeclared
        uint32_t writes = 0;  ///< to it
        uint32_t beyond = 0;  ///< writes behind the packet
        millrace::MutableView<uint32_t> kept;
    };

    template <class Lanes>
    MILLRACE_DEVICE static millrace::Decision process(millrace::Packet& packet, const Tables& tables, Lanes) {
        for (volatile uint32_t i = 0; tables.loops != 0;) i = i + 1;
#if !defined(__CUDACC_RTC__)
        while (tables.naps != 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
#endif
        const bool ip = packet.layers().is_ipv4();
        if (tables.writes != 0 && ip) packet.l3()[8] = 7;
        if (tables.beyond != 0) packet.data()[packet.length()] = 1;
        if (tables.looks != 0 && ip && packet.l3()[8] > 200) return {tables.build + 1, tables.outcome};
        return {tables.build, tables.outcome};
    }
};

}  // namespace probe
