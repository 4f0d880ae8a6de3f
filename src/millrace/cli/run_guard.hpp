// A way out of network functions that do not come back.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "millrace/base/running.hpp"

namespace millrace::cli {

/// While it lives, a thread looks every second whether one is stuck in a network function, says so, and ends the
/// process where an end was asked for or it has lasted too long.
class RunGuard {
public:
    RunGuard();
    ~RunGuard();
    RunGuard(const RunGuard&) = delete;
    RunGuard& operator=(const RunGuard&) = delete;

private:
    void watch();
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::thread thread_;
};

/// What is to be done about threads that are stuck.
enum class StuckAction { nothing, tell, end };
/// By how many seconds one has been, and whether an end was asked for.
StuckAction action_for(unsigned seconds, bool stop_asked);

}  // namespace millrace::cli
