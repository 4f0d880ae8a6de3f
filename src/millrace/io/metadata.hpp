// What travels with a packet besides its bytes: when it was seen and which packet of its input it is.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>

namespace millrace::io {

namespace detail {
/// What a port writes into the mbuf's dynamic field. One field, so that both land with one cache line.
struct PacketMetadata {
    uint64_t timestamp_ns;
    uint64_t number;
};
/// Offset of the field in every mbuf; 0 until `register_metadata` has run.
inline int metadata_offset = 0;

inline PacketMetadata* metadata(const rte_mbuf* mbuf) {
    return RTE_MBUF_DYNFIELD(const_cast<rte_mbuf*>(mbuf), metadata_offset, PacketMetadata*);
}
}  // namespace detail

/// Reserves the field in all mbufs. EAL must run; packet pools and ports call it themselves. Safe to
/// call again. Throws std::runtime_error when other libraries have taken all room in the mbuf.
void register_metadata();

/// When the packet was captured or received, in ns since the epoch; 0 when its port does not know.
inline uint64_t packet_timestamp_ns(const rte_mbuf* mbuf) { return detail::metadata(mbuf)->timestamp_ns; }

/// Which packet of its input it is, from 1. Inputs with several queues count on each queue for itself:
/// queue q of n gives q+1, q+1+n, q+1+2n, …
inline uint64_t packet_number(const rte_mbuf* mbuf) { return detail::metadata(mbuf)->number; }

inline void set_packet_metadata(rte_mbuf* mbuf, uint64_t timestamp_ns, uint64_t number) {
    *detail::metadata(mbuf) = {timestamp_ns, number};
}

/// Whether a packet belongs to the sample that sources and sinks keep for checks: an input's first 256, and behind them
/// one in 65,536, told by a hash so that every queue has some.
inline bool in_sample(uint64_t number) {
    return number <= 256 || static_cast<uint32_t>(number * 0x9e3779b97f4a7c15ull >> 32) < 1u << 16;
}

}  // namespace millrace::io
