// A network function for tests: its CPU half breaks the contract of the packet path.
#pragma once

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::test {

struct Hoarder {
    enum Outcome : uint32_t { kForward };

    static constexpr Fields reads = field::eth_dst;
    static constexpr Fields writes = {};
    static constexpr unsigned lanes = 1;

    struct Tables {
        uint64_t unused;
    };

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet&, const Tables&, Lanes) {
        return {kNoDetail, kForward};
    }
};

}  // namespace millrace::test
