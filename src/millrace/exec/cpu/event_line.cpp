#include "millrace/exec/cpu/event_line.hpp"

#include <poll.h>
#include <pthread.h>
#include <rte_pause.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace millrace::exec {

void tell(const chain::Program& program, const Event& event, const Origin& from, bool dropped) {
    nf::PacketInfo info;
    info.number = from.number;
    info.timestamp_ns = from.timestamp_ns;
    if (from.port < program.port_names->size()) info.in_port = (*program.port_names)[from.port];
    info.dropped = dropped;
    program.nodes[event.node].nf->on_event(event, info);
}

bool EventLine::put(const std::shared_ptr<const chain::Program>& program, std::span<const Event> events,
                    const Origin& from, bool dropped) {
    if (room() < events.size() && !wait_for_room(events.size())) return false;
    uint64_t number = put_.load(std::memory_order_relaxed);
    for (const Event& event : events) {
        Place& place = places_[number++ % kPlaces];
        place.program = program;
        place.event = event;
        place.from = from;
        place.dropped = dropped;
    }
    given_up_ = false;
    put_.store(number, std::memory_order_release);
    if (reader_ != nullptr && room() < kPlaces - kMany) reader_->wake();
    return true;
}

/// Packets that come in leave room; only what one batch has to tell can be too much for it.
bool EventLine::wait_for_room(size_t n) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (room() < n) {
        if (given_up_ || std::chrono::steady_clock::now() > until) {
            given_up_ = true;
            return false;
        }
        rte_pause();
    }
    return true;
}

void ToldFunctions::note(const std::shared_ptr<nf::NetworkFunction>& nf) {
    if (std::find(functions_.rbegin(), functions_.rend(), nf) == functions_.rend()) functions_.push_back(nf);
}

void ToldFunctions::show() {
    std::exception_ptr trouble;
    for (const auto& nf : std::exchange(functions_, {})) try {
            nf->events_told();
        } catch (...) {
            trouble = std::current_exception();
        }
    if (trouble) std::rethrow_exception(trouble);
}

bool EventLine::tell_all(ToldFunctions& told) {
    const uint64_t first = told_.load(std::memory_order_relaxed), put = put_.load(std::memory_order_acquire);
    for (uint64_t next = first; next < put; ++next) {
        Place& place = places_[next % kPlaces];
        const auto program = std::move(place.program);
        const Event event = place.event;
        const Origin from = place.from;
        const bool dropped = place.dropped;
        told_.store(next + 1, std::memory_order_release);
        told.note(program->nodes[event.node].nf);
        tell(*program, event, from, dropped);
    }
    return put != first;
}

EventLine& EventThread::add_line() {
    const std::lock_guard lock(mutex_);
    return *lines_.emplace_back(std::make_unique<EventLine>(&called_));
}

void EventThread::start() {
    if (thread_.joinable()) return;
    finishing_ = false;
    thread_ = std::thread([this] { work(); });
    pthread_setname_np(thread_.native_handle(), "events");
}

void EventThread::finish() {
    finishing_ = true;
    called_.wake();
    if (thread_.joinable()) thread_.join();
    // What has been put since, where there is no thread.
    tell_all();
    attempt("shown", [&] { told_.show(); });
}

void EventThread::work() {
    constexpr std::chrono::milliseconds kFirstPause{1}, kLastPause{16};
    auto pause = kFirstPause;
    auto shown = std::chrono::steady_clock::now();
    while (true) {
        const bool finishing = finishing_.load(std::memory_order_acquire);
        const bool any = tell_all();
        const auto now = std::chrono::steady_clock::now();
        if (!any || now - shown >= kShowEvery) {
            attempt("shown", [&] { told_.show(); });
            shown = now;
        }
        if (any) {
            pause = kFirstPause;
            continue;
        }
        if (finishing) return;
        rest(pause);
        pause = std::min(2 * pause, kLastPause);
    }
}

/// Until so much time has passed, or there is much to tell.
void EventThread::rest(std::chrono::milliseconds pause) {
    pollfd called{called_.prepare(), POLLIN, 0};
    // Who has put before this has called nobody.
    if (!finishing_.load(std::memory_order_acquire) && !tell_all()) poll(&called, 1, static_cast<int>(pause.count()));
    called_.done();
}

bool EventThread::tell_all() {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (const auto& line : lines_) {
        bool told = true;  // where it throws, there was an event, too
        attempt("told", [&] { told = line->tell_all(told_); });
        any |= told;
    }
    return any;
}

/// What goes wrong with an event keeps no other from being told; the first trouble is kept.
template <class Work>
void EventThread::attempt(const char* what, Work&& work) {
    try {
        work();
    } catch (const std::exception& e) {
        if (trouble_.empty()) trouble_ = std::string("an event could not be ") + what + ": " + e.what();
    }
}

}  // namespace millrace::exec
