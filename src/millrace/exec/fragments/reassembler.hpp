// Fragments of IP packets, put together before their chain sees them.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <array>
#include <cstdint>
#include <vector>

#include "millrace/chain/frames/reassembly.hpp"
#include "millrace/exec/fragments/fragment.hpp"
#include "millrace/exec/fragments/fragment_drop.hpp"
#include "millrace/exec/fragments/partials.hpp"
#include "millrace/exec/report/counters.hpp"
#include "millrace/io/memory/pool.hpp"

namespace millrace::exec {

/// What is known of a packet that was put together, for who has to take it apart again. Lies in the mbuf.
struct WholeMark {
    uint32_t id = 0;       ///< of its fragments
    uint16_t largest = 0;  ///< IP bytes of the longest of them
    uint8_t version = 0;   ///< 4 or 6
    uint8_t next = 0;      ///< what the fragmented part begins with
};
static_assert(sizeof(WholeMark) == 8);

/// Buffers that packets are put together in, each for the longest there can be. Any thread.
class WholePackets {
public:
    /// Of IP headers, and of IPv6's extension headers before the fragment header.
    static constexpr uint32_t kMaxHead = 192;

    /// Room for `packets` at once, with so much free before and behind each. Throws std::runtime_error.
    WholePackets(uint32_t packets, uint32_t headroom_bytes, uint32_t tailroom_bytes);
    io::PacketPool& pool() { return pool_; }
    const io::PacketPool& pool() const { return pool_; }
    /// Most bytes that may follow the headers.
    uint32_t most_payload() const { return most_payload_; }
    /// Where they begin, from the start of the buffer.
    uint32_t payload_at() const { return pool_.headroom_bytes() + kMaxHead; }
    /// The mark of a packet; null of one that has not been put together.
    WholeMark* mark(rte_mbuf* mbuf) const {
        return mbuf->pool == pool_.mempool() ? RTE_MBUF_DYNFIELD(mbuf, mark_at_, WholeMark*) : nullptr;
    }

private:
    io::PacketPool pool_;
    uint32_t most_payload_;
    int mark_at_ = 0;
};

/// Puts together what one worker receives for one chain. Fragments are copied to their place as they come, and their
/// own buffers go back at once: what is held is `max_packets` buffers at most, whatever comes. All memory but these is
/// set aside when it is made. A fragment costs a look into two hash chains and a search among at most
/// Partial::kMaxPieces others.
///
/// rte_ip_frag would hold the fragments' own buffers, knows at most 8 fragments of a packet, no overlaps, no limit for
/// a source, and one kind of failure.
class Reassembler {
public:
    /// `ports`: how many there are; each has a clock of its own. Counts in `counters`.
    Reassembler(const chain::Reassembly& limits, WholePackets& buffers, size_t ports, ChainCounters& counters);
    ~Reassembler() { drop_all(FragmentDrop::chain_changed); }
    Reassembler(const Reassembler&) = delete;
    Reassembler& operator=(const Reassembler&) = delete;

    /// Takes a fragment, which `fragment` describes, at the time of its port (`advance`). The whole packet if it was
    /// the last one missing, else null. What comes whole is for the engine to count as received.
    rte_mbuf* add(rte_mbuf* mbuf, const Fragment& fragment);
    /// A port has received something at this time (ns since the epoch): drops what has waited for too long. Times may
    /// jump where a capture begins anew.
    void advance(uint16_t port, uint64_t timestamp_ns);
    /// Nothing has come for so long.
    void pass_time(uint64_t elapsed_ns);
    void drop_all(FragmentDrop reason);
    /// Fragments that it holds.
    size_t held() const { return held_; }
    const chain::Reassembly& limits() const { return limits_; }
    const ChainCounters& counters() const { return counters_; }

private:
    /// Of one port.
    struct Clock {
        uint64_t now_ns = 0, last_ns = 0;
    };

    void make_room(const FragmentKey& key);
    void give_up(uint32_t index, FragmentDrop reason);
    void expire(size_t line);
    bool place(Partial& partial, const uint8_t* frame, const Fragment& fragment, FragmentDrop& why);
    rte_mbuf* finish(uint32_t index);
    void drop(rte_mbuf* mbuf, FragmentDrop reason);
    uint8_t* payload_of(const Partial& partial) const {
        return static_cast<uint8_t*>(partial.packet->buf_addr) + buffers_.payload_at();
    }

    const chain::Reassembly limits_;
    WholePackets& buffers_;
    ChainCounters& counters_;
    Partials partials_;
    std::vector<Clock> clocks_;  // by the lines of `partials_`
    size_t held_ = 0;
};

}  // namespace millrace::exec
