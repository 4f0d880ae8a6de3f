#include "millrace/cli/process/run_guard.hpp"

#include <unistd.h>

#include <chrono>
#include <iostream>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/process/signals.hpp"

namespace millrace::cli {

RunGuard::RunGuard(Guarded guarded) : guarded_(std::move(guarded)), thread_([this] { watch(); }) {}

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
        for (const Stuck& stuck : finder.update()) {
            const StuckAction action = action_for(stuck.looks, stop_asked(), guarded_.end_after);
            if (action == StuckAction::nothing) continue;
            std::cerr << "\nmillrace: the network function '" << stuck.function << "' " << guarded_.where << " '"
                      << stuck.chain << "' has not come back for " << stuck.looks << " s: "
                      << (action == StuckAction::end ? "the process ends without its packets"
                                                     : "is there an endless loop in it?")
                      << std::endl;
            if (action != StuckAction::end) continue;
            if (guarded_.before_end) guarded_.before_end();
            _exit(kFailed);
        }
    }
}

}  // namespace millrace::cli
