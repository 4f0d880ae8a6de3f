// One thread that makes the calls of a device's driver for all workers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "millrace/io/wake_event.hpp"

namespace millrace::exec {

/// The driver of a GPU takes the calls of one thread at a time. Workers that make their own wait for each other, and
/// receive nothing meanwhile; here one thread makes those of all batches of a device. It looks for work all the time,
/// so that it takes a core; without work it sleeps after a while, unless it is to `poll`.
class CallThread {
public:
    explicit CallThread(bool polls = false);
    /// No queue may be left.
    ~CallThread();
    CallThread(const CallThread&) = delete;
    CallThread& operator=(const CallThread&) = delete;

    /// What one worker wants done, in that order.
    class SubmissionQueue {
    public:
        /// Most that may be under way.
        static constexpr size_t kMax = 64;
        /// The thread calls `run`, which must not throw, with all that is put there; it outlives the queue. Throws
        /// std::runtime_error when there are too many queues.
        template <class Run>
        SubmissionQueue(std::shared_ptr<CallThread> thread, const Run& run)
            : SubmissionQueue(
                  std::move(thread), [](const void* to_run, void* work) { (*static_cast<const Run*>(to_run))(work); },
                  &run) {}
        template <class Run>
        SubmissionQueue(std::shared_ptr<CallThread>, const Run&&) = delete;  // would not
        /// Waits until all is done.
        ~SubmissionQueue();
        SubmissionQueue(const SubmissionQueue&) = delete;
        SubmissionQueue& operator=(const SubmissionQueue&) = delete;
        /// By one thread at a time. What it has written before is seen by `run`.
        void submit(void* work);
        /// Waits until all is done; what `run` has written is seen from here on.
        void wait() const;
        /// Whether something of what was put there is still to be done.
        bool busy() const { return done_.load(std::memory_order_acquire) != put_.load(std::memory_order_relaxed); }
        /// Whether the thread has yet to come to something that a queue, this one or another, has put there.
        bool line() const { return thread_->waiting_.load(std::memory_order_relaxed) > 0; }

    private:
        friend class CallThread;
        using Call = void (*)(const void* run, void* work);
        SubmissionQueue(std::shared_ptr<CallThread> thread, Call call, const void* run);
        bool run_next();
        const std::shared_ptr<CallThread> thread_;
        const Call call_;
        const void* const run_;
        std::array<void*, kMax> ring_{};
        std::atomic<uint64_t> put_{0}, done_{0};
        size_t place_ = 0;  // among CallThread::queues_
    };

private:
    static constexpr size_t kMaxQueues = 256;
    void work();
    bool run_all();
    void sleep();
    const bool polls_;
    io::WakeEvent called_;
    std::array<std::atomic<SubmissionQueue*>, kMaxQueues> queues_{};
    std::atomic<size_t> used_{0};                 // places up to the last one that ever had a queue
    std::atomic<uint64_t> rounds_{0};             // looks at all queues
    alignas(64) std::atomic<size_t> waiting_{0};  // put into queues and not begun
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace millrace::exec
