// The packets of which some fragments have come.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "millrace/exec/fragments/fragment.hpp"
#include "millrace/exec/fragments/fragment_drop.hpp"

namespace millrace::exec {

/// A packet of which not all has come; without a buffer: one that was given up, so that what comes late goes, too.
struct Partial {
    static constexpr uint32_t kMaxPieces = 128;
    static constexpr uint32_t kNone = UINT32_MAX;
    struct Piece {
        uint16_t begin, end;
    };

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

/// Finds such packets by their key, by their source, and by their age. All its memory is set
/// aside when it is made. Whoever sends fragments does not know the seed of its hash, and can't choose those that share
/// a hash chain.
class Partials {
public:
    static constexpr uint32_t kNone = Partial::kNone;

    /// Room for `packets`, of so many ports and of none.
    Partials(uint32_t packets, size_t ports);

    Partial& operator[](uint32_t index) { return partials_[index]; }
    bool is_full() const { return free_ == kNone; }
    /// The packet of a key; kNone: there is none.
    uint32_t find(const FragmentKey& key);
    /// A packet of which nothing has come yet. There must be room.
    uint32_t begin(const FragmentKey& key, uint64_t now_ns);
    void remove(uint32_t index);
    struct OfSource {
        uint32_t packets = 0;
        uint32_t oldest = kNone;
    };
    /// The packets that come from where `key` comes from.
    OfSource of_source(const FragmentKey& key);
    /// Each port has a line of packets by their age; what came by no port has the last one.
    size_t lines() const { return ages_.size(); }
    size_t line_of(uint16_t port) const { return std::min<size_t>(port, ages_.size() - 1); }
    /// The packet of a line that has waited longest; kNone: there is none.
    uint32_t oldest(size_t line) const { return ages_[line].oldest; }
    /// The same of the first line that has one.
    uint32_t oldest_of_any() const;

private:
    struct Ages {
        uint32_t oldest = kNone, newest = kNone;
    };
    uint64_t hash(const FragmentKey& key, bool source_only) const;
    uint32_t& key_bucket(const FragmentKey& key) { return by_key_[hash(key, false) & (by_key_.size() - 1)]; }
    uint32_t& source_bucket(const FragmentKey& key) { return by_source_[hash(key, true) & (by_source_.size() - 1)]; }

    const uint64_t seed_;
    std::vector<Partial> partials_;
    std::vector<uint32_t> by_key_, by_source_;  // heads of hash chains, newest first
    std::vector<Ages> ages_;                    // by line
    uint32_t free_ = 0;                         // first of those not in use, linked by next_of_key
};

}  // namespace millrace::exec
