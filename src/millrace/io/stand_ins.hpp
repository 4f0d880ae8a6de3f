// Keeps Linux interfaces as the ports that they stand for.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/io/port.hpp"

namespace millrace::io {

/// Taps that stand for ports have the link, MTU and MAC address of these, now and as they change, by a thread that
/// sleeps in between. The ports live longer.
class StandIns {
public:
    explicit StandIns(const std::vector<std::unique_ptr<Port>>& ports);
    ~StandIns();
    StandIns(const StandIns&) = delete;
    StandIns& operator=(const StandIns&) = delete;

    /// From now on these, in place of those of before; returns when they are as their ports. Interfaces that are no
    /// tap of the ports' stay as they are.
    void follow(const std::vector<StandIn>& stand_ins);

private:
    struct Pair {
        Port* tap;
        Port* port;
    };
    void run();
    void listen(bool listens);

    const std::vector<std::unique_ptr<Port>>& ports_;
    std::mutex following_;  // of who calls `follow`, and of the thread while it works
    std::vector<Pair> pairs_;
    bool all_tell_ = true;
    std::mutex mutex_;  // what is below
    std::condition_variable woken_;
    bool has_news_ = false, stopping_ = false, looks_ = false;
    std::thread thread_;
};

}  // namespace millrace::io
