#include "millrace/exec/offload/submit/call_thread.hpp"

#include <rte_pause.h>

#include <algorithm>
#include <stdexcept>

#include "millrace/exec/worker/thread.hpp"

namespace millrace::exec {

CallThread::CallThread() : thread_(start_thread(std::nullopt, [this] { work(); })) {}

CallThread::~CallThread() {
    stopping_ = true;
    thread_.join();
}

void CallThread::work() {
    while (!stopping_.load(std::memory_order_relaxed)) {
        bool any = false;
        // One of each in turn.
        for (size_t i = 0, used = used_.load(std::memory_order_acquire); i < used; ++i)
            if (SubmissionQueue* const queue = queues_[i].load(std::memory_order_acquire); queue != nullptr)
                any |= queue->run_next();
        rounds_.fetch_add(1, std::memory_order_release);
        if (!any) rte_pause();
    }
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
    for (const uint64_t round = thread_->rounds_.load(); thread_->rounds_.load(std::memory_order_acquire) < round + 2;)
        rte_pause();
}

void CallThread::SubmissionQueue::submit(void* work) {
    const uint64_t next = put_.load(std::memory_order_relaxed);
    while (next - done_.load(std::memory_order_acquire) == kMax) rte_pause();
    ring_[next % kMax] = work;
    thread_->waiting_.fetch_add(1, std::memory_order_relaxed);
    put_.store(next + 1, std::memory_order_release);
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
