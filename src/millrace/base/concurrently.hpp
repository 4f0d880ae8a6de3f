// Work that is shared out among the cores, outside of the packet path.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace millrace {

/// Calls `work(i)` for every `i` below `count`, those in front first, as many at a time as there are cores, and returns
/// when all have ended. What one throws is thrown then: the first that did; those behind it may not have been called.
template <class Work>
void for_each_concurrently(size_t count, const Work& work) {
    std::atomic<size_t> next{0};
    std::mutex mutex;
    std::exception_ptr trouble;
    const auto run = [&] {
        for (size_t i = next++; i < count; i = next++) {
            try {
                work(i);
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (trouble == nullptr) trouble = std::current_exception();
                next = count;
            }
        }
    };
    const size_t threads = std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
    {
        std::vector<std::jthread> others;
        for (size_t i = 1; i < threads; ++i) others.emplace_back(run);
        run();
    }
    if (trouble != nullptr) std::rethrow_exception(trouble);
}

}  // namespace millrace
