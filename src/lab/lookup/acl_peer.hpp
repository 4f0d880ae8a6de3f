// rte_acl on the same rules and headers, on all cores: what a GPU has to beat.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lab/lookup/lookup_set.hpp"

namespace millrace::lab {

struct AclRate {
    std::string refusal;  ///< why there is no figure
    std::string method;
    double build_seconds = 0;
    double one_core = 0, all_cores = 0;  ///< lookups a second
    unsigned cores = 0;
    size_t checked = 0, mistakes = 0;
};

/// Compiles each set's rules in a process of its own, concurrently, as that may take minutes and gigabytes and cannot
/// be stopped otherwise.
class AclPeers {
public:
    /// Begins. Make it before other threads run and before a device is opened. `seconds` is for each measurement.
    /// Throws std::logic_error once DPDK runs: its processes would write into this one's memory, which DPDK shares.
    AclPeers(const std::vector<std::shared_ptr<LookupSet>>& sets, double seconds);
    ~AclPeers();
    /// Gives up what is not compiled `limit_seconds` after the beginning, and measures the others one after the other,
    /// headers in the form that rte_acl reads. Call it once.
    std::vector<AclRate> measure(double limit_seconds);

private:
    class Child;
    std::vector<std::unique_ptr<Child>> children_;
    double seconds_;
    std::chrono::steady_clock::time_point begin_;
};

}  // namespace millrace::lab
