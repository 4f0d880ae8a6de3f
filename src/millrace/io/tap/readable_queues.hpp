// Telling workers that poll which of their queues have something to read, without a system call for those that have
// not.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "millrace/io/kernel/interface.hpp"

namespace millrace::io {

/// Queues that are read by system calls. One thread waits for all of them, and notes those that became readable. It
/// hears of a queue once, until the queue's reader has found it empty: while frames come as fast as they are read, it
/// sleeps.
class ReadableQueues {
public:
    /// Of these descriptors, which outlive it. Throws std::runtime_error when there is no room for more.
    explicit ReadableQueues(const std::vector<int>& descriptors);
    ~ReadableQueues();
    ReadableQueues(const ReadableQueues&) = delete;
    ReadableQueues& operator=(const ReadableQueues&) = delete;

    // The queue's reader alone.
    /// Whether something came since `is_empty`. Then the queue is to be read until it is empty.
    bool take(size_t queue) { return noted_[queue].load(std::memory_order_relaxed) && noted_[queue].exchange(false); }
    /// It has been read until nothing was left.
    void is_empty(size_t queue);

private:
    void run();

    std::vector<int> descriptors_;
    std::unique_ptr<std::atomic<bool>[]> noted_;
    Descriptor all_, stop_;
    std::thread thread_;
};

}  // namespace millrace::io
