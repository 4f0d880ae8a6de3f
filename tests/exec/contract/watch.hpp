// Counts what threads of workers do that the packet path must not: allocate, lock, sleep, write, log.
//
// The program's own malloc, pthread_mutex_lock and so on stand before those of the C library, so that libraries are
// counted, too.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::test {

enum class Deed : uint8_t {
    allocation,  ///< malloc, calloc, realloc, posix_memalign, …, and so operator new; mmap, munmap
    lock,        ///< of a mutex or a read-write lock, free or not; waits for a condition or a semaphore
    sleep,       ///< nanosleep and its kind; poll, select, epoll_wait; futex calls, which std::atomic::wait makes
    write,       ///< to a file, a terminal or a pipe: write, pwrite, writev, pwritev
    log,         ///< through spdlog or DPDK, whatever the level
};
inline constexpr unsigned kDeeds = 5;
inline constexpr const char* kDeedNames[kDeeds] = {"allocations", "locks", "sleeps", "writes", "log calls"};

/// While one lives, the deeds of all threads count that `exec::start_thread` has started, those of Exempt scopes aside.
/// One at a time.
class Watch {
public:
    Watch();
    ~Watch() { end(); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    /// Counts no further.
    void end();
    uint64_t count(Deed deed) const;
    uint64_t all() const;
    /// What was done how often, with the first calls that led to it; empty when nothing was done.
    std::string text() const;
};

/// What this thread does counts not, as long as one lives.
class Exempt {
public:
    Exempt();
    ~Exempt();
    Exempt(const Exempt&) = delete;
    Exempt& operator=(const Exempt&) = delete;
};

/// A call that logs, for whoever stands in for a log.
void count_log_call();

}  // namespace millrace::test
