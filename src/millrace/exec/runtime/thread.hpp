// Threads that work on packets.
#pragma once

#include <functional>
#include <optional>
#include <thread>

namespace millrace::exec {

/// Starts a thread on that core, or on any. `body` must not throw. Throws std::runtime_error when there is no such
/// core.
std::thread start_thread(std::optional<unsigned> core, std::function<void()> body);

}  // namespace millrace::exec
