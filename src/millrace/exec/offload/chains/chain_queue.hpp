// Packets of one chain that wait for a batch, in order of arrival.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <span>
#include <vector>

#include "millrace/exec/offload/batch/batch_policy.hpp"
#include "millrace/exec/offload/chains/loaded_chain.hpp"
#include "millrace/io/receive_block.hpp"

namespace millrace::exec {

/// Packets that came at one time (TSC).
struct Burst {
    uint64_t arrival;
    size_t packets;
};

class ChainQueue {
public:
    /// What a batch has to know of a packet, taken down while the packet is in the CPU's caches.
    struct Waiting {
        rte_mbuf* mbuf;
        const uint8_t* data;
        uint16_t length, port;
    };

    /// `of_blocks`: for frames without mbufs. Sets memory aside for `most` that wait; more are taken all the same.
    ChainQueue(bool of_blocks, size_t most);
    bool of_blocks() const { return of_runs_; }

    /// Before so many packets are added.
    void expect(size_t count) {
        if (packets_.size() + count > packets_.capacity()) close_up(packets_, first_);
    }
    /// `arrived` follows for what was added.
    void add(rte_mbuf* mbuf) {
        packets_.push_back({mbuf, rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len, mbuf->port});
    }
    void add(const io::ReceiveBlock& block);
    /// Packets have come at `now` (TSC). Bursts that follow each other closely are one, of the time of the first.
    void arrived(uint64_t now, size_t count);

    size_t waiting() const { return of_runs_ ? run_packets_ : packets_.size() - first_; }
    /// When the first of them came; some must wait.
    uint64_t oldest() const { return bursts_.front().arrival; }
    std::span<const Waiting> packets() const { return std::span(packets_).subspan(first_); }
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
    uint64_t hand_overs = 0;  ///< Placement::hand_overs when the states were last known to be the device's

private:
    /// Moves those that wait to the list's start, over those that have gone.
    template <class Each>
    static void close_up(std::vector<Each>& list, size_t& first) {
        list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(first));
        first = 0;
    }
    void take_bursts(size_t count, std::vector<Burst>& taken);
    void take_runs(size_t count);

    const bool of_runs_;
    std::vector<Waiting> packets_;  // those from `first_` on wait
    size_t first_ = 0;
    std::vector<io::ReceiveBlock> runs_;  // or these do, from `first_run_` on
    size_t first_run_ = 0;
    size_t run_packets_ = 0;  // of them
    std::vector<Burst> bursts_;
};

}  // namespace millrace::exec
