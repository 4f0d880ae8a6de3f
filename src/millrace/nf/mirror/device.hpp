// Ethernet mirror (UCL thesis, section 3.1): swaps the MAC addresses and sends the frame back.
#pragma once

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::mirror {

struct Mirror {
    enum Outcome : uint32_t { kForward };

    static constexpr Fields reads = field::eth_dst | field::eth_src;
    static constexpr Fields writes = field::eth_dst | field::eth_src;
    static constexpr unsigned lanes = 1;

    struct Tables {};

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables&, Lanes lanes) {
        uint8_t* frame = packet.data();
        lanes.for_each(6, [&](uint32_t i) {
            const uint8_t dst = frame[i];
            frame[i] = frame[6 + i];
            frame[6 + i] = dst;
        });
        return {kNoDetail, kForward};
    }
};

}  // namespace millrace::nf::mirror
