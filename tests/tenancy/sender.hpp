// A tenant that sends a device half of its choice, for tests.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <thread>

#include "millrace/tenancy/gpu/half.hpp"
#include "millrace/tenancy/member/member.hpp"

namespace millrace::tenancy::test {

/// A tenant that sends what it likes, and answers from its process that all packets go on as they are.
class Sender {
public:
    Sender(const std::string& manager, const std::string& name, const DeviceHalf& half)
        : thread_([this, manager, name, half](const std::stop_token& end) {
              Member member(manager, name);
              member.offer(sealed_memory(half_bytes(half))->get());
              while (!end.stop_requested() && member.attached()) {
                  if (const auto batch = member.next(std::chrono::milliseconds(5))) {
                      for (uint32_t i = 0; i < batch->count; ++i) {
                          batch->outcome(i) = 0;
                          std::ranges::copy(batch->in(i), batch->back(i).begin());
                      }
                      member.answer(*batch);
                  }
                  const std::lock_guard lock(mutex_);
                  if (const auto placed = member.placement()) text_ = placed->text;
              }
              const std::lock_guard lock(mutex_);
              parted_ = member.why();
          }) {}
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }
    std::string parted() {
        const std::lock_guard lock(mutex_);
        return parted_;
    }

private:
    std::mutex mutex_;
    std::string text_, parted_;
    std::jthread thread_;
};

}  // namespace millrace::tenancy::test
