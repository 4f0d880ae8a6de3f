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

/// Bytes of payload in each segment of a frame that is yet to be cut into those of the wire, as its sender left that to
/// a network card, or somebody has put received segments together; 0 of all other frames. With it the checksum of TCP
/// or UDP is that of the pseudo header only.
inline uint16_t segment_bytes(const rte_mbuf* mbuf) {
    return (mbuf->ol_flags & RTE_MBUF_F_RX_LRO) != 0 ? static_cast<uint16_t>(mbuf->tso_segsz) : uint16_t{0};
}
inline void set_segment_bytes(rte_mbuf* mbuf, uint16_t bytes) {
    if (bytes == 0) {
        mbuf->ol_flags &= ~(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_NONE);
        return;
    }
    mbuf->ol_flags |= RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_NONE;
    mbuf->tso_segsz = bytes;
}

/// What a port has to say of the metadata of packets that it gives out at once.
struct BurstNotes {
    bool written = true;  ///< into each of them; else the numbers below say it, and someone may have to write it yet
    uint64_t first_number = 0;  ///< as `packet_number`; each following packet's is `number_step` more
    uint64_t number_step = 1;
    uint64_t first_ns = 0;  ///< as `packet_timestamp_ns`; each following packet's is `interval_ns` more
    uint64_t interval_ns = 0;

    uint64_t number(size_t i) const { return first_number + i * number_step; }
    uint64_t timestamp_ns(size_t i) const { return first_ns + i * interval_ns; }
    /// Whether `behind` says of the packets behind the first `count` what this would. Times may shift by kMaxShiftNs.
    bool goes_on(const BurstNotes& behind, size_t count) const {
        if (written || behind.written) return written == behind.written;
        const uint64_t next_ns = timestamp_ns(count);
        const uint64_t shift_ns = next_ns > behind.first_ns ? next_ns - behind.first_ns : behind.first_ns - next_ns;
        return behind.first_number == number(count) && behind.number_step == number_step &&
               behind.interval_ns == interval_ns && shift_ns <= kMaxShiftNs;
    }
    /// Those of the packets from `first` on.
    BurstNotes from(size_t first) const {
        BurstNotes rest = *this;
        rest.first_number = number(first);
        rest.first_ns = timestamp_ns(first);
        return rest;
    }
    static constexpr uint64_t kMaxShiftNs = 1000;
};

/// Whether a packet belongs to the sample that sources and sinks keep for checks: an input's first 256, and behind them
/// one in 65,536, told by a hash so that every queue has some.
inline bool in_sample(uint64_t number) {
    return number <= 256 || static_cast<uint32_t>(number * 0x9e3779b97f4a7c15ull >> 32) < 1u << 16;
}

}  // namespace millrace::io
