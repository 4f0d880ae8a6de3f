// A way out of network functions that do not come back.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "millrace/base/running.hpp"
#include "millrace/cli/process/stuck_action.hpp"

namespace millrace::cli {

/// What a guard says and does besides.
struct Guarded {
    std::string where = "of chain";         ///< stands before the name of what a function runs for
    Patience packets = kVectorPatience;     ///< with functions that have packets
    Patience otherwise = kMakingPatience;   ///< with those that do something else
    std::function<void()> before_end = {};  ///< clears away what would be left behind
};

/// While it lives, a thread looks every second whether one is stuck in a network function, says so, and ends the
/// process where an end was asked for or it has lasted too long.
class RunGuard {
public:
    explicit RunGuard(Guarded guarded = {});
    ~RunGuard();
    RunGuard(const RunGuard&) = delete;
    RunGuard& operator=(const RunGuard&) = delete;

private:
    void watch();
    const Guarded guarded_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace millrace::cli
