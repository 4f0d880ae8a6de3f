#include "millrace/io/stand_ins.hpp"

#include <pthread.h>

#include <algorithm>

namespace millrace::io {
namespace {

/// How often ports are looked at that do not tell of changes.
constexpr auto kLookAgain = std::chrono::milliseconds(100);

}  // namespace

StandIns::StandIns(const std::vector<std::unique_ptr<Port>>& ports) : ports_(ports) {}

StandIns::~StandIns() {
    listen(false);
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    woken_.notify_one();
    if (thread_.joinable()) thread_.join();
}

/// Has the ports of the pairs, and the taps, tell of changes, or no more.
void StandIns::listen(bool listens) {
    all_tell_ = true;
    for (const Pair& pair : pairs_)
        for (Port* const port : {pair.tap, pair.port})
            all_tell_ &= port->on_change(!listens ? std::function<void()>() : [this] {
                {
                    const std::lock_guard lock(mutex_);
                    has_news_ = true;
                }
                woken_.notify_one();
            });
}

void StandIns::follow(const std::vector<StandIn>& stand_ins) {
    const std::lock_guard following(following_);
    listen(false);
    pairs_.clear();
    for (const auto& [interface, port] : stand_ins) {
        const auto tap = std::ranges::find_if(ports_, [&](const auto& other) {
            return other->info().kind == "tap" && other->info().detail == interface;
        });
        const auto is_known = [&](const Pair& pair) { return pair.tap == tap->get(); };
        if (tap == ports_.end() || port >= ports_.size() || std::ranges::any_of(pairs_, is_known)) continue;
        pairs_.push_back({tap->get(), ports_[port].get()});
    }
    listen(true);
    for (const Pair& pair : pairs_) pair.tap->stand_for(*pair.port);
    {
        const std::lock_guard lock(mutex_);
        looks_ = !all_tell_;
    }
    woken_.notify_one();
    if (pairs_.empty() || thread_.joinable()) return;
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "stand-ins");
}

void StandIns::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        const auto is_woken = [this] { return has_news_ || stopping_; };
        if (looks_) woken_.wait_for(lock, kLookAgain, is_woken);
        else woken_.wait(lock, [&] { return is_woken() || looks_; });
        if (stopping_) return;
        has_news_ = false;
        lock.unlock();
        {
            const std::lock_guard following(following_);
            for (const Pair& pair : pairs_) pair.tap->stand_for(*pair.port);
        }
        lock.lock();
    }
}

}  // namespace millrace::io
