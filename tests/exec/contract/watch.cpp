#include "exec/contract/watch.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <rte_lcore.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <mutex>

#include "millrace/base/spin_lock.hpp"

namespace millrace::test {
namespace {

constexpr size_t kTraces = 6;  // that are kept, each of another place
constexpr int kFrames = 14;    // of each
constexpr int kOwnFrames = 2;  // of them, at the front

struct Trace {
    Deed deed{};
    int frames = 0;
    std::array<void*, kFrames> calls{};
    /// Whether both were done in the same place.
    bool same_place(const Trace& other) const {
        constexpr auto kFirst = kOwnFrames, kLast = kOwnFrames + 4;
        return deed == other.deed &&
               std::equal(calls.begin() + kFirst, calls.begin() + kLast, other.calls.begin() + kFirst);
    }
};

std::atomic<bool> watching{false};
std::array<std::atomic<uint64_t>, kDeeds> counts;
std::array<Trace, kTraces> traces;
size_t traces_taken = 0;
SpinLock traces_sequence;  // of both
thread_local int exempt = 0;

/// Threads of `exec::start_thread` are DPDK's, too; so is the main one, which is no worker.
bool is_worker() { return rte_lcore_id() != LCORE_ID_ANY && rte_lcore_id() != rte_get_main_lcore(); }

/// Called before the deed is done. Does none itself that would count.
void note(Deed deed) {
    if (!watching.load(std::memory_order_relaxed) || exempt > 0 || !is_worker()) return;
    const Exempt self;
    counts[static_cast<size_t>(deed)].fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard turn(traces_sequence);
    if (traces_taken == kTraces) return;
    Trace trace{.deed = deed};
    trace.frames = backtrace(trace.calls.data(), kFrames);
    const auto end = traces.begin() + static_cast<ptrdiff_t>(traces_taken);
    if (std::none_of(traces.begin(), end, [&](const Trace& other) { return trace.same_place(other); }))
        traces[traces_taken++] = trace;
}

/// The C library's own function of that name.
template <class Function>
Function* own(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// The function that a call lies in, for people.
std::string name_of(const void* call) {
    Dl_info info{};
    if (dladdr(call, &info) == 0 || info.dli_sname == nullptr) return info.dli_fname != nullptr ? info.dli_fname : "?";
    int status = 0;
    char* const plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    const std::string name = plain != nullptr ? plain : info.dli_sname;
    std::free(plain);
    constexpr size_t kLongest = 140;
    return name.substr(0, kLongest);
}

/// Found before main begins: to look for a name may allocate and lock.
struct Originals {
    decltype(pthread_mutex_lock)* mutex_lock = own<decltype(pthread_mutex_lock)>("pthread_mutex_lock");
    decltype(pthread_mutex_timedlock)* mutex_timedlock = own<decltype(pthread_mutex_timedlock)>(
        "pthread_mutex_timedlock");
    decltype(pthread_mutex_clocklock)* mutex_clocklock = own<decltype(pthread_mutex_clocklock)>(
        "pthread_mutex_clocklock");
    decltype(pthread_rwlock_rdlock)* read_lock = own<decltype(pthread_rwlock_rdlock)>("pthread_rwlock_rdlock");
    decltype(pthread_rwlock_wrlock)* write_lock = own<decltype(pthread_rwlock_wrlock)>("pthread_rwlock_wrlock");
    decltype(pthread_cond_wait)* cond_wait = own<decltype(pthread_cond_wait)>("pthread_cond_wait");
    decltype(pthread_cond_timedwait)* cond_timedwait = own<decltype(pthread_cond_timedwait)>("pthread_cond_timedwait");
    decltype(pthread_cond_clockwait)* cond_clockwait = own<decltype(pthread_cond_clockwait)>("pthread_cond_clockwait");
    decltype(sem_wait)* semaphore_wait = own<decltype(sem_wait)>("sem_wait");
    decltype(sem_timedwait)* semaphore_timedwait = own<decltype(sem_timedwait)>("sem_timedwait");
    decltype(sem_clockwait)* semaphore_clockwait = own<decltype(sem_clockwait)>("sem_clockwait");
    decltype(nanosleep)* sleep = own<decltype(nanosleep)>("nanosleep");
    decltype(clock_nanosleep)* clock_sleep = own<decltype(clock_nanosleep)>("clock_nanosleep");
    decltype(usleep)* micro_sleep = own<decltype(usleep)>("usleep");
    decltype(poll)* poll_files = own<decltype(poll)>("poll");
    decltype(ppoll)* poll_files_masked = own<decltype(ppoll)>("ppoll");
    decltype(select)* select_files = own<decltype(select)>("select");
    decltype(epoll_wait)* wait_for_events = own<decltype(epoll_wait)>("epoll_wait");
    decltype(epoll_pwait)* wait_for_events_masked = own<decltype(epoll_pwait)>("epoll_pwait");
    decltype(write)* write_bytes = own<decltype(write)>("write");
    decltype(writev)* write_pieces = own<decltype(writev)>("writev");
    decltype(pwrite)* write_bytes_at = own<decltype(pwrite)>("pwrite");
    decltype(pwritev)* write_pieces_at = own<decltype(pwritev)>("pwritev");
    decltype(mmap)* map = own<decltype(mmap)>("mmap");
    decltype(munmap)* unmap = own<decltype(munmap)>("munmap");
    decltype(syscall)* call = own<decltype(syscall)>("syscall");
};
const Originals& originals() {
    static const Originals found;
    return found;
}
[[maybe_unused]] const Originals& found_early = originals();

}  // namespace

Watch::Watch() {
    // The first trace makes the C library load what it unwinds with.
    std::array<void*, 2> calls;
    backtrace(calls.data(), static_cast<int>(calls.size()));
    for (auto& count : counts) count = 0;
    traces_taken = 0;
    watching = true;
}

void Watch::end() { watching = false; }

uint64_t Watch::count(Deed deed) const { return counts[static_cast<size_t>(deed)]; }

uint64_t Watch::all() const {
    uint64_t sum = 0;
    for (const auto& count : counts) sum += count;
    return sum;
}

std::string Watch::text() const {
    std::string text;
    for (unsigned deed = 0; deed < kDeeds; ++deed)
        if (counts[deed] > 0) text += std::to_string(counts[deed]) + " " + kDeedNames[deed] + "\n";
    for (size_t i = 0; i < traces_taken; ++i) {
        text += std::string("one of the ") + kDeedNames[static_cast<size_t>(traces[i].deed)] + ":\n";
        for (int k = kOwnFrames; k < traces[i].frames; ++k)
            text += "    " + name_of(traces[i].calls[static_cast<size_t>(k)]) + "\n";
    }
    return text;
}

Exempt::Exempt() { ++exempt; }
Exempt::~Exempt() { --exempt; }

void count_log_call() { note(Deed::log); }

}  // namespace millrace::test

using millrace::test::Deed;
using millrace::test::note;
using millrace::test::originals;

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept {
    note(Deed::allocation);
    return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
    note(Deed::allocation);
    return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) noexcept {
    note(Deed::allocation);
    return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
    note(Deed::allocation);
    return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
    *memory = memalign(alignment, bytes);
    return *memory == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    note(Deed::lock);
    return originals().mutex_lock(mutex);
}
int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept {
    note(Deed::lock);
    return originals().mutex_timedlock(mutex, until);
}
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* until) noexcept {
    note(Deed::lock);
    return originals().mutex_clocklock(mutex, clock, until);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
    note(Deed::lock);
    return originals().read_lock(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
    note(Deed::lock);
    return originals().write_lock(lock);
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
    note(Deed::lock);
    return originals().cond_wait(condition, mutex);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
    note(Deed::lock);
    return originals().cond_timedwait(condition, mutex, until);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
    note(Deed::lock);
    return originals().cond_clockwait(condition, mutex, clock, until);
}

int sem_wait(sem_t* semaphore) {
    note(Deed::lock);
    return originals().semaphore_wait(semaphore);
}
int sem_timedwait(sem_t* semaphore, const timespec* until) {
    note(Deed::lock);
    return originals().semaphore_timedwait(semaphore, until);
}
int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) {
    note(Deed::lock);
    return originals().semaphore_clockwait(semaphore, clock, until);
}

int nanosleep(const timespec* time, timespec* left) {
    note(Deed::sleep);
    return originals().sleep(time, left);
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
    note(Deed::sleep);
    return originals().clock_sleep(clock, flags, time, left);
}
int usleep(useconds_t time) {
    note(Deed::sleep);
    return originals().micro_sleep(time);
}
int poll(pollfd* files, nfds_t count, int most) {
    note(Deed::sleep);
    return originals().poll_files(files, count, most);
}
int ppoll(pollfd* files, nfds_t count, const timespec* most, const sigset_t* mask) {
    note(Deed::sleep);
    return originals().poll_files_masked(files, count, most, mask);
}
int select(int count, fd_set* in, fd_set* out, fd_set* other, timeval* most) {
    note(Deed::sleep);
    return originals().select_files(count, in, out, other, most);
}
int epoll_wait(int file, epoll_event* events, int count, int most) {
    note(Deed::sleep);
    return originals().wait_for_events(file, events, count, most);
}
int epoll_pwait(int file, epoll_event* events, int count, int most, const sigset_t* mask) {
    note(Deed::sleep);
    return originals().wait_for_events_masked(file, events, count, most, mask);
}
long syscall(long number, ...) noexcept {
    if (number == SYS_futex) note(Deed::sleep);
    va_list arguments;
    va_start(arguments, number);
    long all[6];
    for (long& argument : all) argument = va_arg(arguments, long);
    va_end(arguments);
    return originals().call(number, all[0], all[1], all[2], all[3], all[4], all[5]);
}

ssize_t write(int file, const void* bytes, size_t count) {
    note(Deed::write);
    return originals().write_bytes(file, bytes, count);
}
ssize_t writev(int file, const iovec* pieces, int count) {
    note(Deed::write);
    return originals().write_pieces(file, pieces, count);
}
ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) {
    note(Deed::write);
    return originals().write_bytes_at(file, bytes, count, at);
}
ssize_t pwrite64(int file, const void* bytes, size_t count, off_t at) { return pwrite(file, bytes, count, at); }
ssize_t pwritev(int file, const iovec* pieces, int count, off_t at) {
    note(Deed::write);
    return originals().write_pieces_at(file, pieces, count, at);
}
ssize_t pwritev64(int file, const iovec* pieces, int count, off_t at) { return pwritev(file, pieces, count, at); }

void* mmap(void* where, size_t bytes, int access, int flags, int file, off_t at) noexcept {
    note(Deed::allocation);
    return originals().map(where, bytes, access, flags, file, at);
}
void* mmap64(void* where, size_t bytes, int access, int flags, int file, off_t at) noexcept {
    return mmap(where, bytes, access, flags, file, at);
}
int munmap(void* where, size_t bytes) noexcept {
    note(Deed::allocation);
    return originals().unmap(where, bytes);
}

}  // extern "C"
