#include "millrace/exec/promises/promise_watch.hpp"

#include <algorithm>
#include <set>

#include "millrace/chain/classification/classified.hpp"
#include "millrace/exec/worker/worker.hpp"

namespace millrace::exec {
namespace {

/// Buckets of a histogram are so wide: what lies in that of the promise may have kept it.
bool is_longer(uint64_t ns, uint64_t promised) { return ns > Histogram::bucket_top(Histogram::bucket_of(promised)); }

/// Ports whose packets come to a chain by classification: those that are no chain's own.
std::vector<uint16_t> shared_ports(const chain::Configuration& configuration) {
    std::set<uint16_t> own;
    for (const auto& chain : configuration.chains) own.insert(chain->inputs.begin(), chain->inputs.end());
    std::vector<uint16_t> ports;
    for (size_t i = 0; i < configuration.port_names.size(); ++i)
        if (const auto port = static_cast<uint16_t>(i); !own.contains(port)) ports.push_back(port);
    return ports;
}

/// What becomes of a promise in an interval: `lost` packets, `came` in all.
void judge(PromiseReport& report, uint64_t came, uint64_t longest_ns, bool lost, double seconds) {
    report.offered = static_cast<double>(came) / seconds;
    if (longest_ns > 0) report.longest_ns = longest_ns;
    if (report.offered > report.rate * (1 + schedule::TrafficWatch::kChange)) {
        ++report.beyond;
        report.now = PromiseState::beyond;
        return;
    }
    const bool late = report.latency_ns > 0 && is_longer(longest_ns, report.latency_ns);
    report.now = PromiseState::idle;
    if (came == 0 && !late && !lost) return;
    ++report.intervals;
    if (lost) ++report.rate_broken;
    if (late) ++report.latency_broken;
    report.now = lost ? PromiseState::rate : late ? PromiseState::latency : PromiseState::kept;
}

void take_promise(PromiseReport& report, const chain::Promise& promise) {
    report.rate = promise.rate;
    report.latency_ns = static_cast<uint64_t>(promise.latency.count());
}

}  // namespace

PromiseWatch::PromiseWatch(Runtime& runtime, std::shared_ptr<const schedule::Profile> profile)
    : runtime_(runtime), profile_(std::move(profile)) {}

/// Finds out what the chains and tenants of a configuration were promised; what is known of those that were there
/// before stays. Others count from now on.
void PromiseWatch::follow(const chain::Configuration& configuration) {
    std::map<std::string, Chain> chains;
    std::map<std::string, Tenant> tenants;
    std::map<std::string, Part> parts;
    const auto note_part = [&](const std::string& name) {
        const auto known = parts_.find(name);
        parts.emplace(name, known != parts_.end() ? known->second : Part{});
    };
    const std::vector<uint16_t> shared = shared_ports(configuration);
    const std::vector<uint64_t> missed = missed_now();
    const std::map<std::string, uint64_t> absent = absent_now();
    for (size_t i = 0; i < configuration.chains.size(); ++i) {
        const chain::Program& program = *configuration.chains[i];
        if (configuration.promises[i].made()) {
            const auto known = chains_.find(program.name);
            Chain& chain = chains[program.name] = known != chains_.end() ? known->second : Chain{};
            take_promise(chain.report, configuration.promises[i]);
            chain.ports = program.inputs.empty() ? shared : program.inputs;
            for (const uint16_t port : chain.ports) chain.missed.try_emplace(port, missed[port]);
            chain.parts = {program.name};
            note_part(program.name);
        }
        // The parts of a chain come behind it.
        if (const auto chain = chains.find(program.whole); chain != chains.end() && program.name != program.whole) {
            chain->second.parts.push_back(program.name);
            note_part(program.name);
        }
        const chain::TenantFunction* const function = program.is_tenants ? chain::tenant_of(program.nodes.front())
                                                                         : nullptr;
        if (function == nullptr || !function->promise().made()) continue;
        const std::string& name = function->tenant().name;
        const auto known = tenants_.find(name);
        Tenant& tenant = tenants[name] = known != tenants_.end() ? known->second : Tenant{};
        if (const auto before = absent.find(name); known == tenants_.end() && before != absent.end())
            tenant.absent = before->second;
        take_promise(tenant.report, function->promise());
        tenant.part = program.name;
        note_part(program.name);
    }
    parts_ = std::move(parts);
    chains_ = std::move(chains);
    tenants_ = std::move(tenants);
}

/// Packets that ports could not receive, by port.
std::vector<uint64_t> PromiseWatch::missed_now() const {
    std::vector<uint64_t> missed;
    for (const auto& port : runtime_.ports()) missed.push_back(port->counters().receive_drops());
    return missed;
}

/// Packets that tenants did not decide on.
std::map<std::string, uint64_t> PromiseWatch::absent_now() const {
    std::map<std::string, uint64_t> absent;
    if (runtime_.options().tenants == nullptr) return absent;
    for (const TenantReport& tenant : runtime_.options().tenants->report())
        for (const auto& [why, packets] : tenant.absent) absent[tenant.name] += packets;
    return absent;
}

void PromiseWatch::count_parts() {
    std::map<std::string, Part> now;
    for (const auto& worker : runtime_.workers())
        for (const ChainCounters* counters : worker->counters()) {
            if (!parts_.contains(counters->chain)) continue;
            Part& part = now[counters->chain];
            counters->latency.add_to(part.latency);
            part.received += counters->received_packets.get();
        }
    for (auto& [name, part] : parts_) {
        Part next = now[name];
        next.is_new = false;
        if (!part.is_new) {
            next.came = next.received - part.received;
            Latencies latency;
            for (size_t i = 0; i < latency.size(); ++i) latency[i] = next.latency[i] - part.latency[i];
            next.longest_ns = Histogram::percentile(latency, 100);
        }
        part = next;
    }
}

/// True where a chain goes off the plan, or comes back to it.
bool PromiseWatch::count(double seconds) {
    count_parts();
    const std::vector<uint64_t> missed = missed_now();
    const std::map<std::string, uint64_t> absent = absent_now();
    bool changed = false;
    const std::lock_guard lock(mutex_);
    for (auto& [name, chain] : chains_) {
        uint64_t longest = 0;
        for (const std::string& part : chain.parts) longest += parts_.at(part).longest_ns;
        bool lost = false;
        for (const uint16_t port : chain.ports)
            lost = missed[port] > std::exchange(chain.missed[port], missed[port]) || lost;
        judge(chain.report, parts_.at(chain.parts.front()).came, longest, lost, seconds);
        const bool was_off = chain.off_plan > 0;
        if (lost || chain.report.now == PromiseState::beyond) chain.off_plan = kOffPlan;
        else if (was_off) --chain.off_plan;
        changed = changed || was_off != (chain.off_plan > 0);
    }
    for (auto& [name, tenant] : tenants_) {
        const Part& part = parts_.at(tenant.part);
        const auto own = absent.find(name);
        const uint64_t now = own != absent.end() ? own->second : 0;
        judge(tenant.report, part.came, part.longest_ns, now > std::exchange(tenant.absent, now), seconds);
    }
    return changed;
}

void PromiseWatch::update(Clock::time_point now) {
    const bool is_first = followed_ == nullptr;
    if (!is_first && now - counted_ < kInterval) return;
    const auto configuration = runtime_.configuration();
    const bool is_others = configuration != followed_ && configuration->generation != planned_;
    if (configuration != followed_) {
        const std::lock_guard lock(mutex_);
        follow(*configuration);
        followed_ = configuration;
    }
    bool changed = is_others;
    if (is_first) count_parts();
    else if (!parts_.empty()) changed = count(std::chrono::duration<double>(now - counted_).count()) || changed;
    counted_ = now;
    if (runtime_.devices().empty()) return;
    changed = tenants_changed() || changed;
    if ((profile_ == nullptr || chains_.empty()) && present_.tenants.empty() && !changed) return;
    std::vector<double> rates;
    for (const auto& [name, chain] : chains_) rates.push_back(chain.report.offered);
    if (!changed && !traffic_.changed(rates)) return;
    traffic_.planned(std::move(rates));
    uint64_t generation = 0;
    const bool brought = runtime_.adjust([&](chain::Configuration& next) {
        generation = next.generation;
        return fit(next);
    });
    if (!brought) return;
    planned_ = generation;
    ++plans_;
}

/// Multiprocessors are its own where there are partitions.
PromiseReport PromiseWatch::with_own_sms(PromiseReport report) const {
    const auto& devices = runtime_.devices();
    if (!std::ranges::all_of(devices, [](const auto& device) { return device->has_partitions(); })) report.sms = 0;
    return report;
}

PromiseReport PromiseWatch::of_chain(const std::string& chain) const {
    const std::lock_guard lock(mutex_);
    const auto own = chains_.find(chain);
    return own != chains_.end() ? with_own_sms(own->second.report) : PromiseReport{};
}

PromiseReport PromiseWatch::of_tenant(const std::string& tenant) const {
    const std::lock_guard lock(mutex_);
    const auto own = tenants_.find(tenant);
    return own != tenants_.end() ? with_own_sms(own->second.report) : PromiseReport{};
}

void PromiseWatch::add_to(Report& report) const {
    for (ChainReport& chain : report.chains) chain.promise = of_chain(chain.name);
    for (TenantReport& tenant : report.tenants) tenant.promise = of_tenant(tenant.name);
}

}  // namespace millrace::exec
