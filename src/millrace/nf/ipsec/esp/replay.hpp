// The anti-replay window (RFC 4303, section 3.4.3), kept as a ring of bits (RFC 6479).
#pragma once

#include "millrace/nf/ipsec/model.hpp"

namespace millrace::nf::ipsec {

/// Takes in a sequence number whose ICV was right. False when it was taken in before, or is so far
/// behind that this is not known any more. `state` holds kWindowWords words, all 0 at first. `before`: see sequence_in.
MILLRACE_DEVICE bool accept_sequence(uint64_t* state, uint32_t window, uint64_t sequence, uint64_t before = 0) {
    uint64_t& top = state[0];
    uint64_t* ring = state + 1;
    // Sequence numbers start at 1 (RFC 4303, section 2.2).
    if (sequence == 0) return false;
    sequence += before;
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

// An SA may get the window of another one that is gone. Its sequence numbers then stand for higher ones in it, which
// differ by Sa::before: 0 in a window that is new.
/// What a sequence number of the window is to an SA; 0 for one of the SA before.
MILLRACE_DEVICE uint64_t sequence_in(uint64_t before, uint64_t number) { return number > before ? number - before : 0; }
/// The difference for the next SA of a window whose highest number is `top`: all its bits are behind then.
MILLRACE_DEVICE uint64_t window_base(uint64_t top) { return top == 0 ? 0 : top + 64 * kRingWords; }

/// The half of an extended sequence number that is not sent, of which the other one is `low`: that of the number
/// nearest to `top`, the highest so far. RFC 4303, appendix A2.2, takes what lies behind the window for a number to
/// come. Here it is what it is, refused by the window, so that it does not matter whether `top` is a little old: in a
/// batch whose packets are decrypted at the same time it is. Both follow a sender that skips fewer than 2^31 numbers.
MILLRACE_DEVICE uint32_t high_half(uint32_t low, uint64_t top) {
    const auto distance = static_cast<int32_t>(low - static_cast<uint32_t>(top));
    const auto top_high = static_cast<uint32_t>(top >> 32);
    if (distance >= 0) return top_high + (low < static_cast<uint32_t>(top));
    return low < static_cast<uint32_t>(top) || top_high == 0 ? top_high : top_high - 1;
}

/// The extended sequence number that `mark_verified` has noted: of its high half it has the lowest bits, and the rest
/// is that of the nearest one to `top`.
MILLRACE_DEVICE uint64_t noted_sequence(uint64_t ticket, uint64_t top) {
    const auto top_high = static_cast<uint32_t>(top >> 32);
    constexpr uint32_t kModulus = 1u << kHighBits;
    const uint32_t noted = static_cast<uint32_t>(ticket >> (32 + kSlotBits)) & (kModulus - 1);
    uint32_t ahead = (noted - top_high) & (kModulus - 1);
    if (ahead >= kModulus / 2) ahead -= kModulus;  // behind
    return static_cast<uint64_t>(top_high + ahead) << 32 | static_cast<uint32_t>(ticket);
}

}  // namespace millrace::nf::ipsec
