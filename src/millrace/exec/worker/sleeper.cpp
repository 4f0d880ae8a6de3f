#include "millrace/exec/worker/sleeper.hpp"

#include <rte_cycles.h>

#include "millrace/exec/cpu/cpu_engine.hpp"

namespace millrace::exec {

std::chrono::nanoseconds Sleeper::idle_for() const {
    return std::chrono::nanoseconds(to_nanoseconds(rte_rdtsc() - idle_since_));
}

bool Sleeper::is_tired() {
    if (idle_since_ != 0) return idle_for() >= awake_.time();
    idle_since_ = rte_rdtsc();
    look_ = kFirstLook;
    return false;
}

io::WakeUps& Sleeper::begin() {
    wake_ups_.clear();
    wake_ups_.on(called_.prepare());
    return wake_ups_;
}

void Sleeper::sleep() {
    std::chrono::nanoseconds time = std::min(kLongest, wake_ups_.within());
    if (wake_ups_.polls()) {
        time = std::min(time, look_);
        look_ = std::min(2 * look_, kLastLook);
    }
    // It would take longer to fall asleep and wake.
    if (time < std::chrono::microseconds(20)) return;
    waiting_.clear();
    for (const int descriptor : wake_ups_.descriptors()) waiting_.push_back({descriptor, POLLIN, 0});
    const timespec timeout{.tv_sec = 0, .tv_nsec = time.count()};
    ppoll(waiting_.data(), waiting_.size(), &timeout, nullptr);
    awake_.woken(idle_for());
}

}  // namespace millrace::exec
