// How threads on the packet path share what one of them may use at a time.
#pragma once

#include <atomic>
#include <thread>

namespace millrace {

/// How often a thread has found that it must wait. It stays awake, as a worker has nothing else to do, and the kernel
/// is not asked, unless what is waited for takes long: its owner may have lost its core.
class SpinWait {
public:
    void again() noexcept {
        if (++looks_ % kLooksBeforeYield == 0) std::this_thread::yield();
        else pause();
    }

private:
    static constexpr unsigned kLooksBeforeYield = 1024;
    static void pause() noexcept {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    unsigned looks_ = 0;
};

/// A flag that one thread has at a time, for sections of a few instructions, one call of a driver or one vector of
/// packets. Who waits for it stays awake (SpinWait). Fits std::lock_guard and std::unique_lock.
class SpinLock {
public:
    void lock() noexcept {
        for (SpinWait wait; taken_.exchange(true, std::memory_order_acquire);) do
                wait.again();
            while (taken_.load(std::memory_order_relaxed));
    }
    bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

private:
    std::atomic<bool> taken_{false};
};

}  // namespace millrace
