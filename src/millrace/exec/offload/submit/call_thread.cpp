#include "millrace/exec/offload/submit/call_thread.hpp"

#include <poll.h>
#include <rte_cycles.h>
#include <rte_pause.h>

#include <algorithm>
#include <stdexcept>

#include "millrace/exec/runtime/thread.hpp"

namespace millrace::exec {

CallThread::CallThread(bool polls) : polls_(polls), thread_(start_thread(std::nullopt, [this] { work(); })) {}

CallThread::~CallThread() {
    stopping_ = true;
    called_.wake();
    thread_.join();
}

/// One of each queue in turn; whether there was any.
bool CallThread::run_all() {
    bool any = false;
    for (size_t i = 0, used = used_.load(std::memory_order_acquire); i < used; ++i)
        if (SubmissionQueue* const queue = queues_[i].load(std::memory_order_acquire); queue != nullptr)
            any |= queue->run_next();
    rounds_.fetch_add(1, std::memory_order_release);
    return any;
}

void CallThread::work() {
    const uint64_t awake_for = rte_get_tsc_hz() / 5000;  // 200 us
    uint64_t idle_since = 0;
    while (!stopping_.load(std::memory_order_relaxed)) {
        if (run_all()) {
            idle_since = 0;
            continue;
        }
        rte_pause();
        const uint64_t now = rte_rdtsc();
        if (idle_since == 0) idle_since = now;
        else if (!polls_ && now - idle_since > awake_for) sleep();
    }
}

void CallThread::sleep() {
    constexpr int kLongestMs = 100;
    pollfd called{called_.prepare(), POLLIN, 0};
    // What was put there before this wakes nobody.
    if (!run_all() && !stopping_.load(std::memory_order_acquire)) poll(&called, 1, called.fd < 0 ? 1 : kLongestMs);
    called_.done();
}

CallThread::SubmissionQueue::SubmissionQueue(std::shared_ptr<CallThread> thread, Call call, const void* run)
    : thread_(std::move(thread)), call_(call), run_(run) {
    for (place_ = 0; place_ < kMaxQueues; ++place_) {
        SubmissionQueue* none = nullptr;
        if (thread_->queues_[place_].compare_exchange_strong(none, this)) break;
    }
    if (place_ == kMaxQueues)
        throw std::runtime_error("one thread makes the calls of " + std::to_string(kMaxQueues) + " workers at most");
    size_t used = thread_->used_.load();
    while (used <= place_ && !thread_->used_.compare_exchange_weak(used, place_ + 1)) {
    }
}

CallThread::SubmissionQueue::~SubmissionQueue() {
    wait();
    thread_->queues_[place_].store(nullptr);
    // A round that began before may still look here.
    for (const uint64_t round = thread_->rounds_.load();
         thread_->rounds_.load(std::memory_order_acquire) < round + 2;) {
        thread_->called_.wake();
        rte_pause();
    }
}

void CallThread::SubmissionQueue::submit(void* work) {
    const uint64_t next = put_.load(std::memory_order_relaxed);
    while (next - done_.load(std::memory_order_acquire) == kMax) rte_pause();
    ring_[next % kMax] = work;
    thread_->waiting_.fetch_add(1, std::memory_order_relaxed);
    put_.store(next + 1, std::memory_order_release);
    thread_->called_.wake();
}

void CallThread::SubmissionQueue::wait() const {
    while (busy()) rte_pause();
}

bool CallThread::SubmissionQueue::run_next() {
    const uint64_t next = done_.load(std::memory_order_relaxed);
    if (next == put_.load(std::memory_order_acquire)) return false;
    thread_->waiting_.fetch_sub(1, std::memory_order_relaxed);
    call_(run_, ring_[next % kMax]);
    done_.store(next + 1, std::memory_order_release);
    return true;
}

}  // namespace millrace::exec
