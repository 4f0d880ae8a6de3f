// The sleep of a worker that has nothing to do.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "millrace/io/wake_event.hpp"

namespace millrace::exec {

/// For how long a worker polls behind the last packet before it sleeps.
class AwakeTime {
public:
    /// Between packets that come faster than this nobody falls asleep, so that none of them waits for a wake-up. Where
    /// they come by far not so fast, the worker stays awake for less and less behind each: others want the core.
    static constexpr std::chrono::nanoseconds kMax = std::chrono::microseconds(200),
                                              kMin = std::chrono::microseconds(25);

    std::chrono::nanoseconds time() const { return time_; }
    /// The worker has slept, and was idle for `idle` in all when it woke. Who is woken soon should not have slept.
    void woken(std::chrono::nanoseconds idle) {
        time_ = idle < kMax ? std::min(2 * time_, kMax) : std::max(time_ / 2, kMin);
    }

private:
    std::chrono::nanoseconds time_ = kMax;
};

/// A worker polls while packets come, and for a while behind the last. Then it sleeps until a port or somebody else
/// wakes it. All but `wake` is the worker's thread's.
class Sleeper {
public:
    /// Where nothing tells of packets: how long the first sleeps are, and how long they get as nothing comes.
    static constexpr std::chrono::nanoseconds kFirstLook = std::chrono::microseconds(50),
                                              kLastLook = std::chrono::milliseconds(2);
    /// No sleep is longer, whatever has been forgotten.
    static constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(100);

    /// `most` descriptors to sleep on.
    explicit Sleeper(size_t most) {
        waiting_.reserve(most);
        wake_ups_.reserve(most);
    }

    /// There was something to do.
    void busy() { idle_since_ = 0; }
    /// There was nothing to do: whether that has been so for long enough.
    bool is_tired();
    /// Then the worker asks its ports for what wakes it, looks once more for something to do, and calls `sleep` if
    /// there is nothing; `end` in any case.
    io::WakeUps& begin();
    void sleep();
    void end() { called_.done(); }

    /// Any thread, behind what the worker is to see.
    void wake() { called_.wake(); }

private:
    std::chrono::nanoseconds idle_for() const;

    uint64_t idle_since_ = 0;  // TSC; 0: not idle
    AwakeTime awake_;
    std::chrono::nanoseconds look_ = kFirstLook;
    io::WakeUps wake_ups_;
    io::WakeEvent called_;
    std::vector<pollfd> waiting_;
};

}  // namespace millrace::exec
