// The host's side of a communication list.
#pragma once

#include <algorithm>
#include <atomic>

#include "millrace/device/kernel/resident.hpp"

namespace millrace::device {

/// Batches by number, from 0; batch n has place n % depth. `put`, `done` and `release` are one thread's, one at a time.
class CommunicationList {
public:
    /// `entries` is memory that the kernel sees, too; `teams`, kMaxTeams at most, work on it.
    CommunicationList(ResidentEntry* entries, unsigned depth, unsigned teams)
        : entries_(entries), depth_(depth), teams_(std::min(depth, teams)) {
        for (unsigned i = 0; i < depth; ++i) entries[i].state = ResidentEntry::free;
    }

    uint64_t submit(const ResidentBatch& batch) {
        const uint64_t number = posted_.load(std::memory_order_relaxed);
        entries_[number % depth_].batch = batch;
        state(number).store(ResidentEntry::ready, std::memory_order_release);
        posted_.store(number + 1, std::memory_order_release);
        return number;
    }
    /// Of a batch that has not been released.
    bool done(uint64_t number) const { return state(number).load(std::memory_order_acquire) == ResidentEntry::done; }
    void release(uint64_t number) { state(number).store(ResidentEntry::free, std::memory_order_relaxed); }

    /// Batches that have been put on the list so far. Any thread.
    uint64_t posted() const { return posted_.load(std::memory_order_acquire); }
    unsigned teams() const { return teams_; }
    /// The first batch of a team that is not done, or its next one to come. Any thread, while no kernel runs and none
    /// is put.
    uint64_t first_of(unsigned team) const {
        const uint64_t posted = this->posted();
        uint64_t first = posted + (team + teams_ - posted % teams_) % teams_;
        while (first >= teams_ && first - teams_ + depth_ >= posted && is_ready(first - teams_, posted))
            first -= teams_;
        return first;
    }

private:
    bool is_ready(uint64_t number, uint64_t posted) const {
        return number < posted && state(number).load(std::memory_order_acquire) == ResidentEntry::ready;
    }
    std::atomic_ref<uint32_t> state(uint64_t number) const { return std::atomic_ref(entries_[number % depth_].state); }

    ResidentEntry* const entries_;
    const unsigned depth_, teams_;
    std::atomic<uint64_t> posted_{0};
};

}  // namespace millrace::device
