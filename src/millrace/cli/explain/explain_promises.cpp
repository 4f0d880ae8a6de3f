#include "millrace/cli/explain/explain_promises.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "millrace/cli/text/table.hpp"
#include "millrace/device/open.hpp"

namespace millrace::cli {
namespace {

bool promised(const chain::Configuration& configuration) {
    return std::any_of(configuration.promises.begin(), configuration.promises.end(),
                       [](const chain::Promise& promise) { return promise.made(); });
}

std::string us(double ns) { return fmt::format("{:.1f} us", ns / 1000); }

}  // namespace

std::shared_ptr<const schedule::Profile> known_profile(const chain::Configuration& configuration) {
    if (!promised(configuration) || configuration.runs_on.devices.empty()) return nullptr;
    auto profile = schedule::profile_of(device::model_of(configuration.runs_on.devices.front()));
    return profile ? std::make_shared<const schedule::Profile>(std::move(*profile)) : nullptr;
}

unsigned workers_of(const chain::Configuration& configuration, unsigned asked) {
    return std::max({1u, asked, static_cast<unsigned>(configuration.runs_on.devices.size())});
}

chain::SharedDevice planned(const chain::Configuration& configuration, unsigned workers,
                            const chain::TenantsOnDevice& present) {
    if (configuration.runs_on.devices.empty() || (!promised(configuration) && present.tenants.empty())) return {};
    const auto profile = known_profile(configuration);
    const chain::Demand demand = demand_of(configuration, profile.get(), workers);
    for (const Diagnostic& warning : demand.warnings) std::cerr << warning.render() << "\n";
    chain::SharedDevice shared = share_device(demand, present);
    const std::vector<Diagnostic> broken = broken_promises(shared);
    if (!broken.empty() && shared.admission == chain::Admission::refuse) throw ConfigError(broken);
    for (const Diagnostic& warning : broken) std::cerr << warning.render() << "\n";
    return shared;
}

std::string promises_text(const chain::Configuration& configuration, unsigned workers) {
    if (!promised(configuration)) return {};
    if (configuration.runs_on.devices.empty())
        return "Rates and latencies are promised for devices, and these chains run on the CPU.\n\n";
    const chain::SharedDevice shared = planned(configuration, workers);
    if (shared.sharers.empty()) return {};
    Table table({"chain", "SMs", "batch", "rate", "latency, at most", "promised", "kernels", "transfer"});
    for (size_t i = 0; i < shared.sharers.size(); ++i) {
        const chain::Promise& promise = shared.sharers[i].promise;
        const auto& [name, load, offered, weight] = shared.sharers[i].load;
        if (!shared.plan.assignments[i]) {
            table.add({name, "none is left", "", "", "", "-", "", ""});
            continue;
        }
        const schedule::Assignment& own = *shared.plan.assignments[i];
        const schedule::Partition& part = shared.plan.partitions[own.partition];
        const size_t others = part.tenants.size() - 1;
        table.add({name, std::to_string(part.sms) + (others == 0 ? "" : fmt::format(", in turn with {}", others)),
                   grouped(own.batch), fmt::format("{:.4g}/s", own.rate), us(own.latency_ns),
                   !promise.made()                ? "-"
                   : promise.latency.count() == 0 ? "rate"
                                                  : us(static_cast<double>(promise.latency.count())),
                   us(load.model.kernel_ns(own.batch, part.sms)), us(load.model.transfer_ns(own.batch))});
    }
    return fmt::format(
               "Promises, by the linear model, sharing {}: {} SMs are in no partition, transfers take {:.0f} % of "
               "the bus's time.\n\n",
               schedule::name_of(configuration.sharing), shared.plan.free_sms, 100 * shared.plan.bus) +
           table.text() + "\n";
}

}  // namespace millrace::cli
