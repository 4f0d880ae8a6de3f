// What the host half gives the device half of a tenant's function with each packet (nf/cpu_stages.hpp).
#pragma once

#include "millrace/packet/packet.hpp"

namespace millrace {

/// The argument that nf::BeforeDevice gave the packet; 0 for functions without. It stands in place of the ticket, which
/// such a function does not have.
MILLRACE_DEVICE uint32_t argument_of(const Packet& packet) { return static_cast<uint32_t>(packet.ticket()); }
MILLRACE_DEVICE void set_argument(Packet& packet, uint32_t argument) { packet.set_ticket(argument); }

}  // namespace millrace
