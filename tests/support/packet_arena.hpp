// Memory for the packets of a test: nftest/packets/packet_arena.hpp.
#pragma once

#include "millrace/nftest/packets/packet_arena.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

using nftest::PacketArena;

}  // namespace millrace::test
