#include "millrace/exec/worker/sleeper.hpp"

#include <rte_cycles.h>

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"

namespace millrace::exec {

bool Sleeper::is_tired() {
    const uint64_t now = rte_rdtsc();
    if (idle_since_ == 0) {
        idle_since_ = now;
        look_ = kFirstLook;
        return false;
    }
    return to_nanoseconds(now - idle_since_) >= static_cast<uint64_t>(std::chrono::nanoseconds(kAwakeFor).count());
}

io::WakeUps& Sleeper::begin() {
    wake_ups_.clear();
    wake_ups_.on(called_.prepare());
    return wake_ups_;
}

void Sleeper::sleep() {
    std::chrono::nanoseconds time = std::min(kLongest, wake_ups_.within());
    if (wake_ups_.looks()) {
        time = std::min(time, look_);
        look_ = std::min(2 * look_, kLastLook);
    }
    // It would take longer to fall asleep and wake.
    if (time < std::chrono::microseconds(20)) return;
    waiting_.clear();
    for (const int descriptor : wake_ups_.descriptors()) waiting_.push_back({descriptor, POLLIN, 0});
    const timespec timeout{.tv_sec = 0, .tv_nsec = time.count()};
    ppoll(waiting_.data(), waiting_.size(), &timeout, nullptr);
}

}  // namespace millrace::exec
