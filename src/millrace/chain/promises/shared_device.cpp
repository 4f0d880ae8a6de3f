#include "millrace/chain/promises/shared_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/chain/tenants/parts.hpp"
#include "millrace/schedule/room.hpp"

namespace millrace::chain {
namespace {

/// C of the paper, for messages and waits of the bus: what a copy and a launch take, and as much again.
constexpr double kOverheadNs = 10'000;

/// Multiprocessors of a chain whose batches wait for each other on the GPU: there must be room for all that wait, and
/// for the one that they wait for. A multiprocessor has room for three, whatever else the kernels take of it.
constexpr uint32_t kOrderedSms = (schedule::kMaxOrderedBatches + 2) / 3;

Sharer sharer_of(const Program& program, size_t chain, std::string who, const Promise& promise, unsigned workers) {
    Sharer sharer{std::move(who), promise, chain,
                  load_of(program, {}, {promise.rate, static_cast<double>(promise.latency.count()), workers})};
    sharer.load.weight = promise.weight;
    return sharer;
}

Diagnostic not_known(const Promise& promise, const std::string& who, const std::string& why, const std::string& hint) {
    return {promise.where, "whether " + who + " can keep this is not known: " + why, hint,
            Diagnostic::Severity::warning};
}

/// As a file has it: 2M, 310k, 900.
std::string rate_text(double rate) {
    const auto whole = static_cast<uint64_t>(std::llround(rate));
    if (whole % 1'000'000 == 0) return std::to_string(whole / 1'000'000) + "M";
    return whole % 1'000 == 0 ? std::to_string(whole / 1'000) + "k" : std::to_string(whole);
}
std::string latency_text(double ns) {
    const auto whole = static_cast<uint64_t>(std::llround(ns));
    if (whole % 1'000'000 == 0) return std::to_string(whole / 1'000'000) + "ms";
    return whole % 1'000 == 0 ? std::to_string(whole / 1'000) + "us" : std::to_string(whole) + "ns";
}

std::vector<schedule::Tenant> all_loads(const std::vector<Sharer>& sharers) {
    std::vector<schedule::Tenant> loads;
    for (const Sharer& sharer : sharers) loads.push_back(sharer.load);
    return loads;
}

/// The others that were promised something and have room, those with most multiprocessors first.
std::string others_text(const SharedDevice& shared, size_t refused) {
    constexpr size_t kMax = 4;
    std::vector<std::pair<uint32_t, size_t>> others;
    for (size_t i = 0; i < shared.sharers.size(); ++i)
        if (i != refused && shared.sharers[i].promise.made() && shared.plan.assignments[i])
            others.emplace_back(shared.plan.partitions[shared.plan.assignments[i]->partition].needed, i);
    if (others.empty()) return "nobody else was promised anything";
    std::ranges::stable_sort(others, std::ranges::greater(), &std::pair<uint32_t, size_t>::first);
    std::string text = "promised besides: ";
    for (size_t i = 0; i < std::min(others.size(), kMax); ++i) {
        const auto& [sms, number] = others[i];
        const Sharer& other = shared.sharers[number];
        const size_t in_turn = shared.plan.partitions[shared.plan.assignments[number]->partition].tenants.size() - 1;
        text += fmt::format("{}{} in line {}, {}, for which {} SMs are needed{}", i == 0 ? "" : "; ", other.who,
                            other.promise.where.line, other.promise.text(), sms,
                            in_turn == 0 ? "" : fmt::format(" in turn with {} more", in_turn));
    }
    if (others.size() > kMax) text += fmt::format("; and {} more", others.size() - kMax);
    return text;
}

/// What would have room in place of a promise.
std::string mend_text(const SharedDevice& shared, size_t refused) {
    std::vector<schedule::Tenant> loads;
    for (size_t i = 0; i < shared.sharers.size(); ++i)
        if (i != refused && shared.plan.assignments[i]) loads.push_back(shared.sharers[i].load);
    loads.push_back(shared.sharers[refused].load);
    const schedule::Room room = schedule::room_for_last(std::move(loads), shared.gpu, shared.sharing);
    std::string text;
    if (room.rate > 0) text = "'rate: " + rate_text(room.rate) + "' has room";
    if (room.latency_ns > 0)
        text += (text.empty() ? "" : ", or ") + ("'latency: " + latency_text(room.latency_ns) + "'") +
                (text.empty() ? " has room" : "");
    return text.empty() ? "promise others less" : text;
}

}  // namespace

schedule::Tenant load_of(const Program& program, const schedule::Model& model, const Asked& asked) {
    schedule::Tenant tenant;
    tenant.name = program.name;
    tenant.load = {
        model,       asked.rate, asked.latency_ns, program.max_batch, kOverheadNs, program.ordered() ? kOrderedSms : 0,
        asked.queues};
    return tenant;
}

Demand demand_of(const Configuration& configuration, const schedule::Profile* profile, unsigned workers) {
    Demand demand;
    demand.sharing = configuration.sharing;
    demand.admission = configuration.admission;
    if (profile != nullptr) {
        demand.gpu = profile->gpu;
        demand.source = profile->source;
    }
    const std::set<std::string> with_tenants = chains_with_tenants(configuration);
    for (size_t i = 0; i < configuration.chains.size(); ++i) {
        const Program& program = *configuration.chains[i];
        if (const TenantFunction* const function = program.is_tenants ? tenant_of(program.nodes.front()) : nullptr) {
            const std::string& name = function->tenant().name;
            demand.tenants[name] = sharer_of(program, i, "tenant '" + name + "'", function->promise(), workers);
            continue;
        }
        const Promise& promise = configuration.promises[i];
        const std::string who = "chain '" + program.name + "'";
        if (with_tenants.contains(program.whole)) {
            if (promise.made())
                demand.warnings.push_back(not_known(promise, who,
                                                    "it has tenants, which nobody can measure before they are there",
                                                    "'millrace show chains' tells whether it does"));
            continue;
        }
        const schedule::ChainProfile* const known = profile == nullptr ? nullptr : profile->find(promise.functions());
        if (known == nullptr) {
            if (promise.made())
                demand.warnings.push_back(not_known(promise, who, "it was not measured on this device",
                                                    "'millrace profile --chain " + configuration.file + "' does"));
            continue;
        }
        demand.chains.push_back(sharer_of(program, i, who, promise, workers));
        demand.chains.back().load.load.model = known->model;
    }
    return demand;
}

SharedDevice share_device(const Demand& demand, const TenantsOnDevice& present) {
    SharedDevice shared{
        demand.gpu.value_or(present.gpu), demand.sharing, demand.admission, demand.source, demand.chains, {}};
    for (const MeasuredTenant& tenant : present.tenants) {
        const auto known = demand.tenants.find(tenant.name);
        if (known == demand.tenants.end()) continue;
        shared.sharers.push_back(known->second);
        shared.sharers.back().load.load.model = tenant.model;
        if (tenant.max_batch != 0) shared.sharers.back().load.load.max_batch = tenant.max_batch;
    }
    if (!shared.sharers.empty())
        shared.plan = schedule::make_plan(all_loads(shared.sharers), shared.gpu, shared.sharing);
    return shared;
}

std::vector<Diagnostic> broken_promises(const SharedDevice& shared) {
    // What would mend it takes as long as some plans: for as many as people read.
    constexpr size_t kMended = 4;
    std::vector<Diagnostic> broken;
    for (const schedule::Refusal& refusal : shared.plan.refusals) {
        const Sharer& sharer = shared.sharers[refusal.tenant];
        if (!sharer.promise.made()) continue;
        Diagnostic one{
            sharer.promise.where,
            fmt::format("{} can't keep this; {}; {}", sharer.who, schedule::text_of(refusal, shared.gpu),
                        others_text(shared, refusal.tenant)),
            "", shared.admission == Admission::refuse ? Diagnostic::Severity::error : Diagnostic::Severity::warning};
        if (broken.size() < kMended) one.hint = mend_text(shared, refusal.tenant);
        if (shared.admission == Admission::refuse)
            one.hint += std::string(one.hint.empty() ? "" : "; ") + "'admission: warn' lets it in all the same";
        if (!shared.source.empty()) one.hint += (one.hint.empty() ? "by " : "; by ") + shared.source;
        broken.push_back(std::move(one));
    }
    return broken;
}

std::optional<NoRoom> refusal_of(const Demand& demand, TenantsOnDevice present, const MeasuredTenant& next) {
    const auto known = demand.tenants.find(next.name);
    if (demand.admission != Admission::refuse || known == demand.tenants.end() || !known->second.promise.made())
        return std::nullopt;
    const std::string& who = known->second.who;
    if (next.model.most_of_sm == 0) {
        const std::string why = "what its function takes could not be measured, so nothing can be promised to it";
        return NoRoom{why,
                      {known->second.promise.where, who + " is refused: " + why,
                       "'admission: warn' lets it in all the same", Diagnostic::Severity::warning}};
    }
    std::erase_if(present.tenants, [&](const MeasuredTenant& own) { return own.name == next.name; });
    present.tenants.push_back(next);
    const SharedDevice shared = share_device(demand, present);
    const auto broken = std::ranges::find_if(
        shared.plan.refusals, [&](const schedule::Refusal& own) { return shared.sharers[own.tenant].promise.made(); });
    if (broken == shared.plan.refusals.end()) return std::nullopt;
    const size_t last = shared.sharers.size() - 1;
    // Where equal parts get smaller, it may be another's promise that breaks.
    const std::string figure = schedule::text_of(*broken, shared.gpu);
    const std::string mend = mend_text(shared, last);
    const bool is_its_own = broken->tenant == last;
    NoRoom refusal;
    refusal.text = "its promise has no room; " + (is_its_own ? figure : "another one would break") + "; " + mend;
    refusal.whole = {known->second.promise.where,
                     who + " is refused: " + known->second.promise.text() + " have no room; " +
                         (is_its_own ? "" : shared.sharers[broken->tenant].who + " could not keep its own; ") + figure +
                         "; " + others_text(shared, last),
                     mend + "; 'admission: warn' lets it in all the same", Diagnostic::Severity::warning};
    return refusal;
}

}  // namespace millrace::chain
