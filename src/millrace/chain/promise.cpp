#include "millrace/chain/promise.hpp"

#include <fmt/format.h>

#include "millrace/chain/configuration.hpp"
#include "millrace/chain/parts.hpp"

namespace millrace::chain {
namespace {

/// C of the paper, for messages and waits of the bus: what a copy and a launch take, and as much again.
constexpr double kOverheadNs = 10'000;

/// Multiprocessors of a chain whose batches wait for each other on the GPU: there must be room for all that wait, and
/// for the one that they wait for. A multiprocessor has room for three, whatever else the kernels take of it.
constexpr uint32_t kOrderedSms = (schedule::kMostOrderedBatches + 2) / 3;

std::string text_of(std::chrono::nanoseconds time) {
    const auto ns = static_cast<double>(time.count());
    return ns < 1e6 ? fmt::format("{:.4g} us", ns / 1e3) : fmt::format("{:.4g} ms", ns / 1e6);
}

}  // namespace

std::string Promise::text() const {
    return fmt::format("{:.0f} packets a second", rate) + (latency.count() > 0 ? " within " + text_of(latency) : "");
}

Promise read_promise(const Config& chain) {
    Promise promise;
    promise.where = chain.where();
    if (const auto rate = chain.find("rate")) {
        promise.rate = static_cast<double>(rate->size());
        promise.where = rate->where();
        if (promise.rate <= 0) rate->fail("a rate is 1 packet a second at least", "write it as 2M or 500k");
    }
    if (const auto latency = chain.find("latency")) {
        promise.latency = latency->duration();
        if (promise.latency.count() <= 0) latency->fail("a latency is more than nothing", "write it as 200us");
        if (promise.rate <= 0)
            latency->fail("a latency is promised up to a rate, and there is none", "add 'rate: 1M', say");
    }
    promise.weight = static_cast<unsigned>(chain.integer_or("weight", 1, 1, 1000));
    if (const auto nfs = chain.find("nfs")) promise.functions = nfs->written();
    return promise;
}

void check_tenants_promises(const Promise& promise, const Program& chain) {
    std::chrono::nanoseconds waits{};
    std::string who;
    for (const Node& node : chain.nodes) {
        const TenantFunction* const function = tenant_of(node);
        if (function == nullptr) continue;
        waits += function->patience();
        who += (who.empty() ? "" : ", ") + function->tenant().name + " " + text_of(function->patience());
        if (const Promise& own = function->promise();
            &node == chain.nodes.data() && own.made() && own.rate < promise.rate)
            throw ConfigError(Diagnostic{
                promise.where,
                fmt::format("rate: {:.4g} packets a second are promised to the chain, and {:.4g} to tenant '{}', which "
                            "all of them come to first",
                            promise.rate, own.rate, function->tenant().name),
                "promise the tenant as much"});
    }
    if (promise.latency.count() > 0 && waits > promise.latency)
        throw ConfigError(Diagnostic{promise.where,
                                     "latency: " + text_of(promise.latency) + " are promised, and packets may wait " +
                                         text_of(waits) + " for tenants that do not answer: " + who,
                                     "give them less 'patience'"});
}

schedule::Tenant load_of(const Program& program, const schedule::Model& model, const Asked& asked) {
    schedule::Tenant tenant;
    tenant.name = program.name;
    tenant.load = {
        model,       asked.rate, asked.latency_ns, program.max_batch, kOverheadNs, program.ordered() ? kOrderedSms : 0,
        asked.queues};
    return tenant;
}

SharedDevice share_device(const Configuration& configuration, const schedule::Profile* profile, unsigned workers) {
    SharedDevice shared;
    const std::set<std::string> with_tenants = chains_with_tenants(configuration);
    for (size_t i = 0; i < configuration.promises.size(); ++i) {
        const Promise& promise = configuration.promises[i];
        if (with_tenants.contains(configuration.chains[i]->whole)) {
            if (promise.made())
                shared.warnings.push_back({promise.where,
                                           "whether chain '" + configuration.chains[i]->name +
                                               "' can keep this is not known: it has tenants, which nobody can measure "
                                               "before they are there",
                                           "'millrace show chains' tells whether it does",
                                           Diagnostic::Severity::warning});
            continue;
        }
        const schedule::ChainProfile* const known = profile == nullptr ? nullptr : profile->find(promise.functions);
        if (known == nullptr) {
            if (promise.made())
                shared.warnings.push_back({promise.where,
                                           "whether chain '" + configuration.chains[i]->name +
                                               "' can keep this is not known: it was not measured on this device",
                                           "'millrace profile --chain " + configuration.file + "' does",
                                           Diagnostic::Severity::warning});
            continue;
        }
        schedule::Tenant tenant = load_of(*configuration.chains[i], known->model,
                                          {promise.rate, static_cast<double>(promise.latency.count()), workers});
        tenant.weight = promise.weight;
        shared.chains.push_back(i);
        shared.loads.push_back(std::move(tenant));
    }
    if (profile == nullptr || shared.chains.empty()) return shared;
    shared.plan = schedule::make_plan(shared.loads, profile->gpu, configuration.sharing);
    for (const schedule::Refusal& refusal : shared.plan.refusals) {
        const size_t chain = shared.chains[refusal.tenant];
        if (configuration.promises[chain].made())
            shared.mistakes.push_back(
                {configuration.promises[chain].where,
                 "chain '" + configuration.chains[chain]->name + "' can't keep this; " + text_of(refusal, profile->gpu),
                 "by " + profile->source});
    }
    return shared;
}

}  // namespace millrace::chain
