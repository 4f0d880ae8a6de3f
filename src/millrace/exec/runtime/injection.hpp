// Packets that came by no port: those that a controller sends.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "millrace/packet/packet.hpp"

namespace millrace::exec {

/// What becomes of a packet that is put in.
struct Injection {
    rte_mbuf* packet = nullptr;  ///< its port is the one it is said to have come in by, or kNoPort
    uint16_t chain = 0;          ///< index of the chain that it belongs to
    /// How it leaves: by a port or several (kPortSet); kNoPort: it goes through the chain from its start, as if it had
    /// come in.
    uint16_t out_port = kNoPort;
    uint32_t reserved = 0;
};
static_assert(sizeof(Injection) == 16);

}  // namespace millrace::exec
