// rte_acl on the same rules and headers, on all cores: what a GPU has to beat.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/bench/lookup_set.hpp"

namespace millrace::bench {

struct AclRate {
    std::string refusal;            ///< why there is no figure
    std::string method;
    double build_seconds = 0;
    double one_core = 0, all_cores = 0;  ///< lookups a second
    unsigned cores = 0;
    size_t checked = 0, mistakes = 0;
};

/// Compiles each set's rules in a process of its own, side by side, as that may take minutes and gigabytes and cannot be stopped
/// otherwise. What is not done after `limit_seconds` is given up; the others are measured one after the other, `seconds` each,
/// headers in the form that rte_acl reads. Call it before other threads run and before a device is opened.
std::vector<AclRate> measure_acl(const std::vector<std::shared_ptr<LookupSet>>& sets, double limit_seconds, double seconds);

}  // namespace millrace::bench
