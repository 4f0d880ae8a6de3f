#include "millrace/exec/offload/chains/chain_queue.hpp"

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"

namespace millrace::exec {

ChainQueue::ChainQueue(bool of_blocks, size_t most) : of_runs_(of_blocks) {
    // Twice as many places as may wait: what has gone makes room for as many before the rest is moved.
    if (of_blocks) runs_.reserve(2 * most);
    else packets_.reserve(2 * most);
    bursts_.reserve(most);
}

void ChainQueue::add(const io::ReceiveBlock& block) {
    // A worker that polls often gets a frame or two at a time: each run costs as much as a few frames.
    if (runs().empty() || !runs_.back().join(block)) {
        if (runs_.size() == runs_.capacity()) close_up(runs_, first_run_);
        runs_.push_back(block);
    }
    run_packets_ += block.count;
}

void ChainQueue::arrived(uint64_t now, size_t count) {
    constexpr uint64_t kAtOnceNs = 1000;
    if (!bursts_.empty() && to_nanoseconds(now - bursts_.back().arrival) < kAtOnceNs) bursts_.back().packets += count;
    else bursts_.push_back({now, count});
}

void ChainQueue::take(size_t count, std::vector<Burst>& taken) {
    take_bursts(count, taken);
    if (of_runs_) return take_runs(count);
    first_ += count;
    if (first_ < packets_.size()) return;
    packets_.clear();
    first_ = 0;
}

void ChainQueue::take_bursts(size_t count, std::vector<Burst>& taken) {
    taken.clear();
    size_t whole = 0;
    for (size_t left = count; left > 0;) {
        Burst& burst = bursts_[whole];
        const size_t own = std::min(left, burst.packets);
        taken.push_back({burst.arrival, own});
        burst.packets -= own;
        left -= own;
        if (burst.packets == 0) ++whole;
    }
    bursts_.erase(bursts_.begin(), bursts_.begin() + static_cast<ptrdiff_t>(whole));
}

void ChainQueue::take_runs(size_t count) {
    run_packets_ -= count;
    while (count > 0) {
        io::ReceiveBlock& block = runs_[first_run_];
        if (block.count > count) {
            block = block.part(static_cast<uint32_t>(count), block.count - static_cast<uint32_t>(count));
            return;
        }
        count -= block.count;
        ++first_run_;
    }
    if (first_run_ < runs_.size()) return;
    runs_.clear();
    first_run_ = 0;
}

}  // namespace millrace::exec
