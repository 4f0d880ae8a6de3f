// `inner:` of a chain: tunnels that its network functions judge packets within.
#pragma once

#include "millrace/base/text/config.hpp"
#include "millrace/chain/program.hpp"

namespace millrace::chain {

/// Reads it, once the network functions are there. Throws ConfigError, also where one of them changes packets: it would
/// change what is in the tunnel, and leave the tunnel's lengths and checksums as they were.
void read_inner(const Config& kinds, Program& program);

/// What its functions read besides their own fields: inner headers lie anywhere in the payload.
Fields fields_of_inner(const Program& program);

/// "vxlan, gre".
std::string inner_text(uint32_t kinds);

}  // namespace millrace::chain
