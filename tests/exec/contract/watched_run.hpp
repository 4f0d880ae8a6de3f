// Runs under steady traffic of which all is counted that workers do.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "exec/contract/watch.hpp"
#include "millrace/exec/runtime/runtime.hpp"

namespace millrace::test {

/// What a run did while it was watched.
struct Watched {
    uint64_t packets = 0, batches = 0, passed_on = 0, events = 0, dropped = 0;
    uint64_t reassembled = 0, deeds = 0;
    std::set<std::string> outcomes;  ///< that were met
    std::string text;
};

/// Runs until all is warm, and then for so many packets more, which its ports must give: these are watched. Expects
/// that it ends well, and by the work of its devices.
Watched watched_run(chain::Configuration configuration, exec::RuntimeOptions options, uint64_t packets);

}  // namespace millrace::test
