// Tenants made up, and what becomes of them when a plan runs: an oracle that knows none of the scheduler's equations.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "millrace/schedule/plan.hpp"

namespace millrace::schedule::test {

/// `count` tenants that each would take about `share` of `gpu`, times 1/8 to 1, and wait for as long as
/// `patience` of their own empty batches, times 1.1 to 20.
std::vector<Tenant> random_tenants(std::mt19937& random, size_t count, const Gpu& gpu, double share,
                                   double patience = 1);

/// Packets come evenly, and each partition does a batch of each tenant in turn, of what is there. What the longest
/// packet of each tenant took in `cycles` turns, in ns, and whether its queue stayed bounded.
struct Lived {
    double longest_ns = 0;
    bool kept_up = true;
};
std::vector<Lived> live(const std::vector<Tenant>& tenants, const Plan& plan, int cycles);

}  // namespace millrace::schedule::test
