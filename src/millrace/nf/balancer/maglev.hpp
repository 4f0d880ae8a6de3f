// The consistent hash of a service: which back end stands in which slot.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace::nf::balancer {

/// A back end's part in a table.
struct Share {
    std::string identity;  ///< places it: the same in every run and on every machine
    unsigned weight = 1;   ///< 0: it gets no slot
};

/// How many slots `back_ends` want: a prime, a hundred for each of them where that is to be had, so that their shares
/// differ by a percent at most (Maglev, section 5.3).
uint32_t slots_for(size_t back_ends);

/// The slots' back ends by their numbers in `shares`; none when nobody has a weight. Each back end takes slots in an
/// order of its own, in turns (Maglev, section 3.4); one of half the weight leaves out every second turn. The order of
/// `shares` has no influence on who gets which slot. `slots` is a prime, and there are no more back ends than that.
std::vector<uint32_t> fill_slots(std::span<const Share> shares, uint32_t slots);

}  // namespace millrace::nf::balancer
