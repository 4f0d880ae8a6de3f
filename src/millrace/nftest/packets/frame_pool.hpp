// Buffers for frames that go through an engine.
#pragma once

#include "millrace/nftest/packets/packet_builder.hpp"
#include "millrace/io/memory/pool.hpp"

namespace millrace::nftest {

/// One pool for a program, made at the first call. Starts DPDK's environment.
io::PacketPool& frame_pool();
/// A buffer that holds `frame`, as received on port 0 as packet `number`. Throws std::runtime_error when none is left.
rte_mbuf* make_mbuf(const Frame& frame, uint64_t number);

}  // namespace millrace::nftest
