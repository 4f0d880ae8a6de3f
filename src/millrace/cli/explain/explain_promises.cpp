#include "millrace/cli/explain/explain_promises.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "millrace/cli/table.hpp"
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

chain::SharedDevice planned(const chain::Configuration& configuration) {
    chain::SharedDevice shared;
    if (!promised(configuration) || configuration.runs_on.devices.empty()) return shared;
    shared = share_device(configuration, known_profile(configuration).get());
    for (const Diagnostic& warning : shared.warnings) std::cerr << warning.render() << "\n";
    if (!shared.mistakes.empty()) throw ConfigError(shared.mistakes);
    return shared;
}

std::string promises_text(const chain::Configuration& configuration) {
    if (!promised(configuration)) return {};
    if (configuration.runs_on.devices.empty())
        return "Rates and latencies are promised for devices, and these chains run on the CPU.\n\n";
    const chain::SharedDevice shared = planned(configuration);
    if (shared.chains.empty()) return {};
    Table table({"chain", "SMs", "batch", "rate", "latency, at most", "promised", "kernels", "transfer"});
    for (size_t i = 0; i < shared.chains.size(); ++i) {
        const chain::Promise& promise = configuration.promises[shared.chains[i]];
        const schedule::Load& load = shared.loads[i].load;
        if (!shared.plan.assignments[i]) {
            table.add({shared.loads[i].name, "none is left", "", "", "", "-", "", ""});
            continue;
        }
        const schedule::Assignment& own = *shared.plan.assignments[i];
        const schedule::Partition& part = shared.plan.partitions[own.partition];
        const size_t others = part.tenants.size() - 1;
        table.add({shared.loads[i].name,
                   std::to_string(part.sms) + (others == 0 ? "" : fmt::format(", in turn with {}", others)),
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
