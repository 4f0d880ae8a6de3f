// The device half of a function that lets packets pass, and makes trouble in its stages on the CPU.
#pragma once

#include "millrace/packet/argument.hpp"
#include "millrace/packet/lanes.hpp"

namespace trouble {

using namespace millrace;

struct Trouble {
    enum Outcome : uint32_t { kPass };
    static constexpr Fields reads = field::ip_src;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 1;
    struct Tables {
        uint32_t unused = 0;
    };
    /// An argument that is an outcome of its own makes trouble on the device.
    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables&, Lanes) {
        return {kNoDetail, argument_of(packet)};
    }
};

}  // namespace trouble
