#include "millrace/chain/promises/promise.hpp"

#include <fmt/format.h>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {
namespace {

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
    promise.nfs = chain.find("nfs");
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

}  // namespace millrace::chain
