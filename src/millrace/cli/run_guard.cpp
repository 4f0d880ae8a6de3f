#include "millrace/cli/run_guard.hpp"

#include <unistd.h>

#include <chrono>
#include <iostream>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/signals.hpp"

namespace millrace::cli {
namespace {

// No vector of packets takes a function so long, whatever else the machine has to do.
constexpr unsigned kTellAfter = 5, kEndAfter = 30, kEndAfterStop = 3;

}  // namespace

StuckAction action_for(unsigned seconds, bool stop_asked) {
    if (seconds >= kEndAfter || (stop_asked && seconds >= kEndAfterStop)) return StuckAction::end;
    return seconds == kTellAfter ? StuckAction::tell : StuckAction::nothing;
}

RunGuard::RunGuard() : thread_([this] { watch(); }) {}

RunGuard::~RunGuard() {
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void RunGuard::watch() {
    StuckFinder finder;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) {
        for (const Stuck& stuck : finder.look()) {
            const StuckAction action = action_for(stuck.looks, stop_asked());
            if (action == StuckAction::nothing) continue;
            std::cerr << "\nmillrace: the network function '" << stuck.function << "' of chain '" << stuck.chain
                      << "' has not come back for " << stuck.looks << " s: "
                      << (action == StuckAction::end ? "the process ends without its packets"
                                                     : "is there an endless loop in it?")
                      << std::endl;
            if (action == StuckAction::end) _exit(kFailed);
        }
    }
}

}  // namespace millrace::cli
