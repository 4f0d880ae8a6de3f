// State per key where the CPU runs the function: many packets' memory is asked for before the first is decided on.
#pragma once

#include <array>
#include <mutex>
#include <span>

#include "millrace/nf/state/key_locks.hpp"
#include "millrace/nf/state/keyed_state.hpp"

namespace millrace::nf {
namespace detail {

/// Reads what another worker may be changing, which has the bucket: this only says which memory to ask for.
template <class State>
[[gnu::no_sanitize("thread")]] void approach(const State& state, uint64_t hash) {
    state.approach(hash);
}

/// Counts for a table what a burst does, and tells the table once: workers that all count new keys there would wait for
/// each other at each of them.
template <class State>
class BurstCounts {
public:
    explicit BurstCounts(const State& state) : state_(state) { counts_of_burst = counts_; }
    ~BurstCounts() {
        counts_of_burst = nullptr;
        for (uint32_t what = 0; what < kCounts; ++what)
            if (counts_[what] != 0) state_.add(static_cast<KeyedCount>(what), static_cast<uint32_t>(counts_[what]));
    }
    BurstCounts(const BurstCounts&) = delete;
    BurstCounts& operator=(const BurstCounts&) = delete;

private:
    static constexpr uint32_t kCounts = static_cast<uint32_t>(KeyedCount::count);
    const State& state_;
    uint64_t counts_[kCounts] = {};
};

}  // namespace detail

/// Decides on `packets` by an `Nf` with state per key, one after the other; or, where it decides in `commit`, ends what
/// `decisions` says. Other workers have the same state.
///
/// Before a packet is decided on, its bucket's tags are asked for, and later what these say of where its entry is. Few
/// packets lie between: a core that is asked for more memory than it can wait for forgets some of it.
template <class Nf, bool kCommits>
void run_keyed_burst(std::span<Packet* const> packets, const typename Nf::Tables& tables, Decision* decisions) {
    using State = decltype(Nf::Tables::state);
    constexpr size_t kHashed = 2, kAsked = kHashed + 12, kDecided = kAsked + 6, kRing = 32;  // packets behind the first
    static_assert(kDecided < kRing);
    const State& state = tables.state;
    const detail::BurstCounts<State> counted(state);
    std::array<Wanted<Nf>, kRing> ring;
    for (size_t i = 0; i < packets.size() + kDecided; ++i) {
        if (i < packets.size()) State::ask(*packets[i], tables, ring[i % kRing]);
        if (const size_t k = i - kHashed; k < packets.size()) {
            Wanted<Nf>& wanted = ring[k % kRing];
            wanted.hash = state.hash(wanted.key);
            const uint32_t bucket = state.bucket_of(wanted.hash);
            state.prefetch_bucket(bucket);
            __builtin_prefetch(&key_lock(bucket), 1);
        }
        if (const size_t k = i - kAsked; k < packets.size()) detail::approach(state, ring[k % kRing].hash);
        if (const size_t k = i - kDecided; k < packets.size()) {
            const Wanted<Nf>& wanted = ring[k % kRing];
            std::unique_lock<SpinLock> alone;
            if (wanted.lookup != Lookup::none) alone = std::unique_lock(key_lock(state.bucket_of(wanted.hash)));
            if constexpr (kCommits)
                decisions[k] = State::decide_on(wanted, *packets[k], tables, InBatch(), decisions[k]);
            else decisions[k] = State::decide_on(wanted, *packets[k], tables, InBatch());
        }
    }
}

}  // namespace millrace::nf
