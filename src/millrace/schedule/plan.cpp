#include "millrace/schedule/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "millrace/schedule/draft.hpp"

namespace millrace::schedule {
namespace {

/// Packets of a batch where nobody says how many there may be.
constexpr uint32_t kFullBatch = 16384;

/// Those that fit, one behind the other, of `members` on a partition of so many SMs.
void fill(Draft& draft, Plan& plan, const std::vector<size_t>& members, uint32_t sms) {
    const size_t part = draft.add_empty(sms);
    for (const size_t tenant : members) {
        Stop stop;
        if (!draft.join(part, tenant, &stop)) plan.refusals.push_back({tenant, stop.limit, stop.asked, stop.possible});
    }
}

/// Those that were promised something, then the others.
std::vector<size_t> in_order(const std::vector<Tenant>& tenants) {
    std::vector<size_t> numbers(tenants.size());
    std::iota(numbers.begin(), numbers.end(), size_t{0});
    std::ranges::stable_partition(numbers, [&](size_t tenant) { return tenants[tenant].load.rate > 0; });
    return numbers;
}

void fill_fair(Draft& draft, Plan& plan, const std::vector<Tenant>& tenants, const Gpu& gpu) {
    const size_t count = tenants.size();
    if (count == 0) return;
    const auto slots = std::min<size_t>(count, gpu.least == 0 ? 0 : gpu.sms / gpu.least);
    if (slots == 0) {
        for (const size_t tenant : in_order(tenants))
            plan.refusals.push_back({tenant, Limit::sms, double(gpu.least), 0});
        return;
    }
    const std::vector<size_t> order = in_order(tenants);
    const auto each = static_cast<uint32_t>(gpu.sms / slots);
    const uint32_t sms = gpu.least + (each - gpu.least) / gpu.grain * gpu.grain;
    // With batches that wait for longer where the bus has no room.
    for (const double least_cycle_ns : Draft::kCycles) {
        Plan tried;
        Draft drafted(tenants, gpu, least_cycle_ns);
        for (size_t slot = 0; slot < slots; ++slot) {
            std::vector<size_t> members;
            for (size_t i = slot; i < count; i += slots) members.push_back(order[i]);
            fill(drafted, tried, members, sms);
        }
        const bool bus_is_full = std::ranges::any_of(tried.refusals,
                                                     [](const Refusal& own) { return own.limit == Limit::bus; });
        if (least_cycle_ns == 0 || tried.refusals.size() < plan.refusals.size()) {
            draft = std::move(drafted);
            plan.refusals = std::move(tried.refusals);
        }
        if (!bus_is_full) break;
    }
    std::sort(plan.refusals.begin(), plan.refusals.end(),
              [](const Refusal& a, const Refusal& b) { return a.tenant < b.tenant; });
}

/// All kernels contend for all SMs: each batch waits for those of all others.
void leave_alone(Plan& plan, const std::vector<Tenant>& tenants, const Gpu& gpu) {
    double cycle_ns = 0;
    std::vector<uint32_t> batches;
    for (const Tenant& tenant : tenants) {
        batches.push_back(std::min(tenant.load.most_packets(gpu.sms),
                                   tenant.load.max_batch != 0 ? tenant.load.max_batch : kFullBatch));
        cycle_ns += tenant.load.batches_ns(batches.back() * tenant.load.queues, gpu.sms);
    }
    for (size_t i = 0; i < tenants.size(); ++i) {
        plan.partitions.push_back({0, gpu.sms, gpu.sms, cycle_ns, {i}});
        plan.assignments[i] = Assignment{i, batches[i], cycle_ns, 2 * cycle_ns,
                                         double(batches[i]) * tenants[i].load.queues / cycle_ns * 1e9};
        plan.bus += tenants[i].load.transfers_ns(batches[i] * tenants[i].load.queues) / cycle_ns;
    }
}

/// Lets tenants in one after the other; what was let in can be put together anew for one more.
void let_in(Draft& draft, Plan& plan, const std::vector<size_t>& order) {
    // Each takes as long as a whole plan: enough for those that matter, and bounded for a thousand that don't fit.
    int anew = 8;
    std::vector<size_t> in;
    for (const size_t tenant : order) {
        in.push_back(tenant);
        if (draft.place_apart(tenant)) continue;
        const Refusal why = draft.why_not(tenant);
        if (why.limit == Limit::sms || why.limit == Limit::bus) {
            if (anew-- > 0)
                if (auto packed = draft.packed(in)) {
                    draft = std::move(*packed);
                    continue;
                }
        }
        in.pop_back();
        plan.refusals.push_back(why);
    }
}

}  // namespace

Gpu partitions_of(uint32_t sms) {
    constexpr uint32_t kGroup = 8;
    return {sms, std::min(kGroup, sms), std::min(kGroup, sms)};
}

uint32_t Plan::used_sms() const {
    uint32_t sms = 0;
    for (const Partition& partition : partitions)
        sms = sharing == Sharing::uncoordinated ? std::max(sms, partition.sms) : sms + partition.sms;
    return sms;
}

GpuShare Plan::share_of(size_t tenant) const {
    if (!assignments[tenant]) return {};
    const Partition& partition = partitions[assignments[tenant]->partition];
    switch (sharing) {
        case Sharing::spatial:
        case Sharing::fair: return {.sms = {partition.first, partition.sms}};
        case Sharing::temporal: return {.in_turn = true};
        case Sharing::uncoordinated: break;
    }
    return {};
}

Plan make_plan(const std::vector<Tenant>& tenants, const Gpu& gpu, Sharing sharing) {
    Plan plan;
    plan.sharing = sharing;
    plan.assignments.resize(tenants.size());
    Draft draft(tenants, gpu);
    switch (sharing) {
        case Sharing::spatial:
            let_in(draft, plan, in_order(tenants));
            draft.share_out();
            break;
        case Sharing::temporal: fill(draft, plan, in_order(tenants), gpu.sms); break;
        case Sharing::fair: fill_fair(draft, plan, tenants, gpu); break;
        case Sharing::uncoordinated: leave_alone(plan, tenants, gpu); break;
    }
    if (sharing != Sharing::uncoordinated) draft.write(plan);
    plan.free_sms = gpu.sms - plan.used_sms();
    return plan;
}

CommonPlan make_common_plan(std::vector<Tenant> tenants, const Gpu& gpu, Sharing sharing) {
    const auto plan_of = [&](double rate) {
        for (Tenant& tenant : tenants) tenant.load.rate = rate;
        return make_plan(tenants, gpu, sharing);
    };
    constexpr double kMax = 1e12, kClose = 1.001;
    CommonPlan best;
    for (double low = 1, high = kMax; high > low * kClose;) {
        const double rate = std::sqrt(low * high);
        Plan plan = plan_of(rate);
        const bool kept = std::ranges::all_of(plan.assignments,
                                              [&](const auto& own) { return own && own->rate >= rate; });
        if (kept) best = {std::move(plan), low = rate};
        else high = rate;
    }
    return best;
}

std::string text_of(const Refusal& refusal, const Gpu& gpu) {
    const auto us = [](double ns) { return fmt::format("{:.4g} us", ns / 1000); };
    switch (refusal.limit) {
        case Limit::none: return {};
        case Limit::rate:
            return fmt::format("rate: {:.4g} packets a second were asked for, and {} SMs do {:.4g} at most",
                               refusal.asked, gpu.sms, refusal.possible);
        case Limit::latency:
            return fmt::format("latency: {} were asked for, and a packet may take {}", us(refusal.asked),
                               us(refusal.possible));
        case Limit::batch:
            return fmt::format("batch: {:.0f} packets would be needed, and a batch has {:.0f} at most", refusal.asked,
                               refusal.possible);
        case Limit::sms:
            return fmt::format("SMs: {:.0f} are needed, and of {} there are {:.0f} left", refusal.asked, gpu.sms,
                               refusal.possible);
        case Limit::bus: return fmt::format("bus: transfers would take {:.0f} % of its time", 100 * refusal.asked);
    }
    return {};
}

bool TrafficWatch::changed(const std::vector<double>& rates) const {
    if (rates.size() != planned_.size()) return true;
    for (size_t i = 0; i < rates.size(); ++i)
        if (std::abs(rates[i] - planned_[i]) > kChange * planned_[i]) return true;
    return false;
}

}  // namespace millrace::schedule
