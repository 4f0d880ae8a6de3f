// How threads on the packet path share what one of them may use at a time.
#pragma once

#include <atomic>
#include <thread>

namespace millrace {

/// A flag that one thread has at a time, for sections of a few instructions, one call of a driver or one vector of
/// packets. Who waits for it stays awake, as a worker has nothing else to do, and the kernel is not asked, unless the
/// section's owner has lost its core. Fits std::lock_guard and std::unique_lock.
class SpinLock {
public:
    void lock() noexcept {
        for (unsigned looks = 1; taken_.exchange(true, std::memory_order_acquire); ++looks)
            while (taken_.load(std::memory_order_relaxed)) {
                if (++looks % kLooksBeforeYield == 0) std::this_thread::yield();
                else pause();
            }
    }
    bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

private:
    static constexpr unsigned kLooksBeforeYield = 1024;
    static void pause() noexcept {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    std::atomic<bool> taken_{false};
};

}  // namespace millrace
