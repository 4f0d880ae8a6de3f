// Tenants that misbehave, for benchmarks of what that costs others.
#pragma once

#include <string>

namespace millrace::lab {

/// What they do.
inline constexpr const char* kMischiefs[] = {
    "loops",  ///< the function never ends: on a GPU its budget ends it, else its process never answers
    "slow",   ///< it takes long for each batch (some ms in a process), and answers rightly
    "floods"  ///< the process sends what nobody asked for, and attaches again when it is let go
};

/// Attaches as a tenant, and again whenever it was let go: a signal ends it. Throws std::invalid_argument for a word
/// that is none of kMischiefs.
[[noreturn]] void misbehave(const std::string& what, const std::string& manager, const std::string& name);

}  // namespace millrace::lab
