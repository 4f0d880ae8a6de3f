#include "millrace/cli/process/run_guard.hpp"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <set>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/process/signals.hpp"

namespace millrace::cli {
namespace {

/// Which function it is, and what it is doing.
std::string text_of(const Stuck& stuck, const std::string& where) {
    const bool loading = stuck.call == Call::loading;
    const std::string whose = stuck.chain.empty() ? "" : " " + where + " '" + stuck.chain + "'";
    const char* const doing = stuck.call == Call::packets  ? "in the midst of packets"
                              : stuck.call == Call::making ? "while it is made"
                              : loading                    ? "while it is loaded"
                                                           : "while it tells of its tables";
    return (loading ? "the plugin '" : "the network function '") + stuck.function + "'" + whose +
           " has not come back for " + std::to_string(stuck.looks) + " s, " + doing;
}

}  // namespace

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
    std::set<std::string> told;  // once, however many threads wait in it
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) {
        const std::vector<Stuck> all = finder.update();
        if (all.empty()) told.clear();
        for (const Stuck& stuck : all) {
            const Patience& patience = stuck.call == Call::packets ? guarded_.packets : guarded_.otherwise;
            const StuckAction action = action_for(stuck.looks, stop_asked(), patience);
            if (action == StuckAction::nothing) continue;
            const std::string text = text_of(stuck, guarded_.where) + (action == StuckAction::end
                                                                           ? ": the process ends"
                                                                           : ": is there an endless loop in it?");
            if (told.insert(text).second) std::cerr << "\nmillrace: " << text << std::endl;
            if (action != StuckAction::end) continue;
            if (guarded_.before_end) guarded_.before_end();
            _exit(kFailed);
        }
    }
}

}  // namespace millrace::cli
