// Lines of log about what somebody else decides how often it happens.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace millrace::openflow {

/// Lets some lines through at once and then one every few seconds; the next one tells how many were left out.
class LogLimit {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr unsigned kAtOnce = 10;
    static constexpr auto kInterval = std::chrono::seconds(6);

    /// Whether a line may be written now.
    bool allows(Clock::time_point now) {
        const auto due = static_cast<unsigned>(std::min<int64_t>((now - since_) / kInterval, kAtOnce));
        since_ = due == kAtOnce ? now : since_ + due * kInterval;
        allowed_ = std::min(allowed_ + due, kAtOnce);
        if (allowed_ == 0) {
            ++left_out_;
            return false;
        }
        --allowed_;
        return true;
    }
    /// What belongs behind the line that `allows` has let through.
    std::string left_out() {
        const uint64_t count = std::exchange(left_out_, 0);
        return count == 0 ? std::string{} : " (" + std::to_string(count) + " lines like this one were left out)";
    }

private:
    unsigned allowed_ = kAtOnce;
    uint64_t left_out_ = 0;
    Clock::time_point since_{};
};

}  // namespace millrace::openflow
