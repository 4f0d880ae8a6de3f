// Packets of one chain that wait for a batch, in order of arrival.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "millrace/exec/offload/batch/batch_policy.hpp"
#include "millrace/exec/offload/chains/loaded_chain.hpp"
#include "millrace/exec/offload/memory/frame_layout.hpp"
#include "millrace/io/receive_block.hpp"

namespace millrace::exec {

/// Packets that came at one time (TSC).
struct Burst {
    uint64_t arrival;
    size_t packets;
};

/// Mbufs that came one after the other, and what is known of them without a look at them.
struct MbufRun {
    size_t packets = 0;
    io::BurstNotes notes;
    /// Where their buffers go when nobody else has one of them; null: some may be shared, in other memory, in several
    /// pieces, yet to be cut or of several pools, or their frames lie anywhere.
    rte_mempool* pool = nullptr;
    ptrdiff_t data = 0;  ///< with a pool: from each mbuf to its frame

    /// Of the packets from `first` on.
    MbufRun from(size_t first) const { return {packets - first, notes.from(first), pool, data}; }
};

class ChainQueue {
public:
    /// `of_blocks`: for frames without mbufs. Sets memory aside for `most` that wait; more are taken all the same.
    ChainQueue(bool of_blocks, size_t most);
    bool of_blocks() const { return of_runs_; }

    /// Returns how many bytes they have. `arrived` follows for what was added.
    uint64_t add(std::span<rte_mbuf* const> mbufs, const io::BurstNotes& notes);
    void add(const io::ReceiveBlock& block);
    /// Packets have come at `now` (TSC). Bursts that follow each other closely are one, of the time of the first.
    void arrived(uint64_t now, size_t count);

    size_t waiting() const { return of_runs_ ? run_packets_ : behind_ - first_; }
    /// When the first of them came; some must wait.
    uint64_t oldest() const { return bursts_.front().arrival; }
    std::span<rte_mbuf* const> mbufs() const { return {mbufs_.get() + first_, behind_ - first_}; }
    std::span<const MbufShape> shapes() const { return {shapes_.get() + first_, behind_ - first_}; }
    /// The mbufs, in their order.
    std::span<const MbufRun> mbuf_runs() const { return mbuf_runs_; }
    /// Writes the metadata of the first `count` mbufs, as far as nobody has.
    void write_metadata(size_t count) const;
    /// Whether the first `count` frames all have their headers where most have them (packet/plain_layout.hpp).
    bool looks_plain(size_t count) const;
    std::span<const io::ReceiveBlock> runs() const { return std::span(runs_).subspan(first_run_); }
    /// Whether frames of that port wait.
    bool has_block_of(uint16_t port) const {
        return std::any_of(runs().begin(), runs().end(),
                           [&](const io::ReceiveBlock& block) { return block.port == port; });
    }
    /// Takes the first `count` packets out; `taken` gets their bursts.
    void take(size_t count, std::vector<Burst>& taken);

    std::shared_ptr<const LoadedChain> chain;  ///< that those who wait go through
    BatchPolicy policy;                        ///< when they go
    bool more = false;                         ///< the last burst was full
    uint64_t calls = 0;                        ///< what the worker has spent in the driver for a batch, lately (TSC)
    uint64_t hand_overs = 0;  ///< Placement::hand_overs when the states were last known to be the device's
    uint64_t returns = 0;     ///< Placement::returns when they were last known to be the host's

private:
    /// Moves those that wait to the list's start, over those that have gone.
    template <class Each>
    static void close_up(std::vector<Each>& list, size_t& first) {
        list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(first));
        first = 0;
    }
    void make_room(size_t count);
    void take_bursts(size_t count, std::vector<Burst>& taken);
    void take_runs(size_t count);
    void take_mbufs(size_t count);

    const bool of_runs_;
    std::unique_ptr<rte_mbuf*[]> mbufs_;   // those from `first_` to before `behind_` wait
    std::unique_ptr<MbufShape[]> shapes_;  // of these
    size_t first_ = 0, behind_ = 0, room_ = 0;
    std::vector<MbufRun> mbuf_runs_;      // of these
    std::vector<io::ReceiveBlock> runs_;  // or these do, from `first_run_` on
    size_t first_run_ = 0;
    size_t run_packets_ = 0;  // of them
    std::vector<Burst> bursts_;
};

}  // namespace millrace::exec
