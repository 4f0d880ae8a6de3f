// Asks a run that answers at a socket.
#pragma once

#include <chrono>
#include <string>

namespace millrace::show {

/// The line that the run answers to `request`. Throws std::runtime_error when none answers, or for `patience` nothing
/// comes of its answer.
std::string ask(const std::string& path, const std::string& request,
                std::chrono::seconds patience = std::chrono::seconds(10));

}  // namespace millrace::show
