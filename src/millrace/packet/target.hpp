// Where a packet goes when a network function has decided.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

/// What an outcome of an NF leads to. `value` is a node's index in its chain, a chain's, or a port's number.
struct Target {
    enum class Kind : uint8_t { node, output, port, chain, drop, punt };
    Kind kind = Kind::output;
    uint16_t value = 0;
    friend constexpr bool operator==(const Target& a, const Target& b) {
        return a.kind == b.kind && a.value == b.value;
    }
};

}  // namespace millrace
