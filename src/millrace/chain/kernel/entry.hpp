// Where packets begin in a program.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace::chain {

/// In place of a chain's number: none.
inline constexpr uint16_t kNoChain = 0xffff;
/// In place of a node's number: none.
inline constexpr uint16_t kNowhere = 0xffff;

/// Where a packet goes first.
struct Entry {
    uint16_t chain = kNoChain;
    uint16_t node = kNowhere;  ///< the chain's first; kNowhere: the chain is empty
    uint16_t drop_malformed = 0;
};

}  // namespace millrace::chain
