// A network function for tests: right on a host, but on a GPU it writes outside of all memory for packets that ask for
// it.
#pragma once

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::test {

struct Wild {
    enum Outcome : uint32_t { kForward };

    static constexpr Fields reads = field::eth_dst | field::eth_src;
    static constexpr Fields writes = field::eth_src;
    static constexpr unsigned lanes = 1;

    /// The first byte of destinations that ask for it.
    static constexpr uint8_t kMark = 0x66;

    struct Tables {
        uint64_t target;  ///< the address that is then written to
        MutableView<uint32_t> state;
    };

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, [[maybe_unused]] const Tables& tables, Lanes lanes) {
        uint8_t* frame = packet.data();
        lanes.once([&] {
#if MILLRACE_GPU
            if (frame[0] == kMark) *reinterpret_cast<volatile uint32_t*>(tables.target) = 0x21212121u;
#endif
            frame[11] ^= 0x5a;
        });
        return {kNoDetail, kForward};
    }
};

}  // namespace millrace::test
