// What the plan gives to chains and tenants.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "millrace/chain/tenants/tenant.hpp"
#include "millrace/exec/promises/promise_watch.hpp"
#include "millrace/exec/worker/worker.hpp"

namespace millrace::exec {
namespace {

const chain::TenantFunction* function_of(const chain::Program& program) {
    return program.is_tenants ? chain::tenant_of(program.nodes.front()) : nullptr;
}

}  // namespace

/// Whether others run on the device than when it was asked last.
bool PromiseWatch::tenants_changed() {
    Tenants* const tenants = runtime_.options().tenants.get();
    chain::TenantsOnDevice now = tenants != nullptr ? tenants->on_device() : chain::TenantsOnDevice{};
    const bool same = std::ranges::equal(now.tenants, present_.tenants, {}, &chain::MeasuredTenant::name,
                                         &chain::MeasuredTenant::name);
    present_ = std::move(now);
    return !same;
}

/// All chains and tenants of which it is known what they take, with what comes now, and the plan for them.
chain::SharedDevice PromiseWatch::shared_by(const chain::Configuration& next) {
    chain::Demand demand = demand_of(next, profile_.get(), static_cast<unsigned>(runtime_.workers().size()));
    for (chain::Sharer& sharer : demand.chains) {
        schedule::Tenant& load = sharer.load;
        const auto chain = chains_.find(load.name);
        if (chain == chains_.end()) continue;
        load.offered = chain->second.report.offered;
        // Batches are bounded by what the file says, whatever the last plan has made of it.
        const chain::Program& program = *next.chains[sharer.chain];
        const Batching present{program.max_batch, program.max_delay};
        const auto ours = brought_.find(load.name);
        if (ours == brought_.end() || ours->second != present) written_[load.name] = present;
        load.load.max_batch = written_[load.name].first;
    }
    chain::SharedDevice shared = share_device(demand, present_);
    std::set<std::string> without;
    for (const schedule::Refusal& refusal : shared.plan.refusals) {
        const chain::Sharer& sharer = shared.sharers[refusal.tenant];
        if (!sharer.promise.made()) continue;
        without.insert(sharer.who);
        if (!without_room_.contains(sharer.who))
            spdlog::warn("{} shares all multiprocessors; {}", sharer.who, schedule::text_of(refusal, shared.gpu));
    }
    without_room_ = std::move(without);
    return shared;
}

/// Gives the promised chains of a configuration the batches and waits that what was measured of them and what comes now
/// ask for, and all chains and tenants their multiprocessors; false where they have these.
bool PromiseWatch::fit(chain::Configuration& next) {
    const chain::SharedDevice shared = shared_by(next);
    brought_.clear();
    bool any = false;
    const std::lock_guard lock(mutex_);
    for (auto& [name, chain] : chains_) chain.report.batch = chain.report.sms = 0;
    for (auto& [name, tenant] : tenants_) tenant.report.sms = 0;
    for (size_t number = 0; number < next.chains.size(); ++number) {
        auto& program = next.chains[number];
        const auto planned = std::ranges::find(shared.sharers, number, &chain::Sharer::chain);
        const auto i = static_cast<size_t>(planned - shared.sharers.begin());
        const bool is_planned = planned != shared.sharers.end() && shared.plan.assignments[i].has_value();
        const auto chain = chains_.find(program->name);
        Batching batching{program->max_batch, program->max_delay};
        if (is_planned && chain != chains_.end()) {
            const schedule::Assignment& own = *shared.plan.assignments[i];
            auto& [batch, wait] = batching = written_.at(program->name);
            if (chain->second.off_plan == 0) {
                batch = std::clamp(own.batch, 1u, batch);
                wait = std::min(wait, std::chrono::nanoseconds(static_cast<int64_t>(own.wait_ns)));
                chain->second.report.batch = batch;
            }
            brought_[program->name] = batching;
        }
        schedule::GpuShare share = is_planned ? shared.plan.share_of(i) : schedule::GpuShare();
        const size_t in_flight = runtime_.workers().size() * runtime_.options().offload.depth;
        if (program->ordered() && in_flight > schedule::kMaxOrderedBatches) share.sms = {};
        if (chain != chains_.end()) chain->second.report.sms = share.sms.count;
        if (const chain::TenantFunction* const function = function_of(*program))
            if (const auto own = tenants_.find(function->tenant().name); own != tenants_.end())
                own->second.report.sms = share.sms.count;
        if (Batching{program->max_batch, program->max_delay} == batching && program->gpu_share == share) continue;
        const auto changed = std::make_shared<chain::Program>(*program);
        std::tie(changed->max_batch, changed->max_delay) = batching;
        changed->gpu_share = share;
        changed->generation = next.generation;
        program = changed;
        any = true;
    }
    return any;
}

}  // namespace millrace::exec
