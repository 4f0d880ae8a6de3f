// Fragments of IP packets, put together before their chain sees them.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <array>
#include <cstdint>
#include <vector>

#include "millrace/chain/reassembly.hpp"
#include "millrace/exec/fragments/fragment.hpp"
#include "millrace/exec/fragments/fragment_drop.hpp"
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
/// set aside when it is made. A fragment costs a look into two hash chains and a search among at most kMaxPieces
/// others.
///
/// rte_ip_frag would hold the fragments' own buffers, knows at most 8 fragments of a packet, no overlaps, no limit for
/// a source, and one kind of failure.
class Reassembler {
public:
    static constexpr uint32_t kMaxPieces = 128;

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
    static constexpr uint32_t kNone = UINT32_MAX;
    struct Piece {
        uint16_t begin, end;
    };
    /// A packet of which not all has come; without a buffer: one that was given up, so that what comes late goes, too.
    struct Partial {
        FragmentKey key;
        rte_mbuf* packet = nullptr;
        uint64_t since_ns = 0;
        uint64_t bytes = 0;  ///< of all its fragments' frames
        uint32_t next_of_key = kNone, next_of_source = kNone, older = kNone, newer = kNone;
        FragmentDrop reason = FragmentDrop::timeout;
        uint8_t ecn_seen = 0;     ///< a bit for each value
        uint8_t next = 0;         ///< of the first fragment
        uint16_t next_at = 0;     ///< of the first fragment, from the start of its frame
        uint16_t l3_at = 0;       ///< the same
        uint16_t head_bytes = 0;  ///< 0: it has not come
        uint16_t total = 0;       ///< payload bytes; 0: the last has not come
        uint16_t filled = 0;      ///< of them
        uint16_t pieces = 0;
        uint16_t largest = 0;              ///< IP bytes of the longest fragment
        uint16_t largest_df = 0;           ///< of those that say "don't fragment"
        std::array<Piece, kMaxPieces> at;  ///< by their place
    };
    /// Packets of one port, by age, and its clock.
    struct Line {
        uint64_t now_ns = 0, last_ns = 0;
        uint32_t oldest = kNone, newest = kNone;
    };

    uint32_t& key_bucket(const FragmentKey& key);
    uint32_t& source_bucket(const FragmentKey& key);
    Line& line_of(uint16_t port) { return lines_[std::min<size_t>(port, lines_.size() - 1)]; }
    uint32_t find(const FragmentKey& key);
    uint32_t begin(const FragmentKey& key);
    void make_room(const FragmentKey& key);
    void remove(uint32_t index);
    void give_up(uint32_t index, FragmentDrop reason);
    void expire(Line& line);
    bool place(Partial& partial, const uint8_t* frame, const Fragment& fragment, FragmentDrop& why);
    rte_mbuf* finish(uint32_t index);
    void drop(rte_mbuf* mbuf, FragmentDrop reason);
    uint8_t* payload_of(const Partial& partial) const {
        return static_cast<uint8_t*>(partial.packet->buf_addr) + buffers_.payload_at();
    }
    uint64_t hash(const FragmentKey& key, bool source_only) const;

    const chain::Reassembly limits_;
    WholePackets& buffers_;
    ChainCounters& counters_;
    const uint64_t seed_;
    std::vector<Partial> partials_;
    std::vector<uint32_t> by_key_, by_source_;  // heads of hash chains, newest first
    std::vector<Line> lines_;                   // by port; the last one of those that came by none
    uint32_t free_ = 0;                         // first of those not in use, linked by next_of_key
    size_t held_ = 0;
};

}  // namespace millrace::exec
