// The anti-replay window (RFC 4303, section 3.4.3), kept as a ring of bits (RFC 6479).
#pragma once

#include "millrace/nf/ipsec/model.hpp"

namespace millrace::nf::ipsec {

/// Takes in a sequence number whose ICV was right. False when it was taken in before, or is so far
/// behind that this is not known any more. `state` holds kWindowWords words, all 0 at first.
MILLRACE_DEVICE bool accept_sequence(uint64_t* state, uint32_t window, uint64_t sequence) {
    uint64_t& top = state[0];
    uint64_t* ring = state + 1;
    // Sequence numbers start at 1 (RFC 4303, section 2.2).
    if (sequence == 0) return false;
    const uint64_t word = sequence / 64;
    const uint64_t bit = uint64_t{1} << (sequence % 64);
    if (sequence > top) {
        const uint64_t last = top / 64;
        const uint64_t steps = smaller<uint64_t>(word - last, kRingWords);
        for (uint64_t i = 1; i <= steps; ++i) ring[(last + i) % kRingWords] = 0;
        top = sequence;
    } else {
        if (top - sequence >= window) return false;
        if (ring[word % kRingWords] & bit) return false;
    }
    ring[word % kRingWords] |= bit;
    return true;
}

}  // namespace millrace::nf::ipsec
