#include "lab/apart.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/chain/promises/shared_device.hpp"

namespace millrace::lab {

ApartPlan share_out(chain::Configuration& configuration, const std::vector<schedule::ChainProfile>& profiles,
                    const schedule::Gpu& gpu, const Apart& apart) {
    std::vector<schedule::Tenant> tenants;
    for (size_t i = 0; i < profiles.size(); ++i)
        tenants.push_back(
            chain::load_of(*configuration.chains[i], profiles[i].model, {1, apart.latency_us * 1000, apart.workers}));
    const schedule::CommonPlan common = schedule::make_common_plan(tenants, gpu, apart.sharing);
    if (common.rate == 0)
        throw NoPlan(fmt::format("no plan lets each function do its packets within {} us, sharing {}", apart.latency_us,
                                 schedule::name_of(apart.sharing)));
    ApartPlan plan{common.rate, {}};
    for (size_t i = 0; i < tenants.size(); ++i) {
        const schedule::Assignment& own = *common.plan.assignments[i];
        auto program = std::make_shared<chain::Program>(*configuration.chains[i]);
        program->gpu_share = common.plan.share_of(i);
        if (apart.batches) {
            program->max_batch = std::clamp(own.batch, 1u, program->max_batch);
            program->max_delay = std::chrono::nanoseconds(static_cast<int64_t>(own.wait_ns));
        }
        plan.parts.push_back({program->name, program->gpu_share.sms.count, program->max_batch,
                              static_cast<double>(program->max_delay.count()) * 1e-3});
        configuration.chains[i] = std::move(program);
    }
    return plan;
}

}  // namespace millrace::lab
