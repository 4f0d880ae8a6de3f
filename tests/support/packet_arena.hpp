// Memory for the packets of a test is the laboratory's.
#pragma once

#include "lab/packets/packet_arena.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

using lab::PacketArena;

}  // namespace millrace::test
