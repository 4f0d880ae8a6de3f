// Longest-prefix match by looking at one route after the other (UCL thesis, section 3.2): for comparison. Longer
// prefixes stand first, so the first that matches decides.
#pragma once

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::prefixes {

/// A route; the address has zeros where the mask has. Words of the address in network order have their value in host
/// order.
struct LinearIpv4 {
    uint32_t address, mask;
    uint32_t target;
};
struct LinearIpv6 {
    uint32_t address[4], mask[4];
    uint32_t target;
};

/// The target of the first route that covers an address in host order, `none` when there is none.
MILLRACE_DEVICE uint32_t search_linear(View<LinearIpv4> routes, uint32_t address, uint32_t none) {
    for (uint64_t i = 0; i < routes.size(); ++i)
        if (((address ^ routes[i].address) & routes[i].mask) == 0) return routes[i].target;
    return none;
}

/// The same for 16 bytes in network order.
MILLRACE_DEVICE uint32_t search_linear(View<LinearIpv6> routes, const uint8_t* address, uint32_t none) {
    if (routes.empty()) return none;
    uint32_t words[4];
    load_be32s(address, words);
    for (uint64_t i = 0; i < routes.size(); ++i) {
        const LinearIpv6& route = routes[i];
        uint32_t different = (words[0] ^ route.address[0]) & route.mask[0];
        for (unsigned word = 1; word < 4; ++word) different |= (words[word] ^ route.address[word]) & route.mask[word];
        if (different == 0) return route.target;
    }
    return none;
}

}  // namespace millrace::nf::prefixes
