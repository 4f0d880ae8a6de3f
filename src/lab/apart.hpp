// A chain whose functions stand apart: each has batches and multiprocessors of its own, as functions of tenants have.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/chain/configuration.hpp"
#include "millrace/schedule/profile.hpp"

namespace millrace::lab {

/// How functions stand apart.
struct Apart {
    schedule::Sharing sharing = schedule::Sharing::spatial;
    double latency_us = 2000;  ///< that each may take, with its wait for the batch
    unsigned workers = 1;      ///< that each have batches of their own
    bool batches = true;       ///< takes the plan's batches, too; else those of the configuration: for more than the
                               ///< plan reckons with (exec::PromiseWatch)
};

/// What the plan gives a function.
struct ApartPart {
    std::string chain;
    uint32_t sms = 0, batch = 0;  ///< 0 SMs: all of them
    double wait_us = 0;
};
struct ApartPlan {
    double rate = 0;  ///< packets a second that the plan reckons with for each
    std::vector<ApartPart> parts;
};

/// No batches let each function do its packets in time.
class NoPlan : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Gives each chain of a configuration that is cut apart the multiprocessors, batches and waits of the plan with the
/// highest rate for all. `profiles`: of these chains, in their order. Throws NoPlan.
ApartPlan share_out(chain::Configuration& configuration, const std::vector<schedule::ChainProfile>& profiles,
                    const schedule::Gpu& gpu, const Apart& apart);

}  // namespace millrace::lab
