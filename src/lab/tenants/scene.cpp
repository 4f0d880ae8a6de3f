#include "lab/tenants/scene.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "millrace/exec/report/report_json.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::lab {
namespace {

using nlohmann::json;

/// Longest that a tenant's process takes to attach and to be where it should: its device half is compiled.
constexpr double kComing = 120;

std::string names_of(Fields fields) {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < kFieldCount; ++i)
        if (const Fields one{1u << i}; fields.overlaps(one) && !one.overlaps(field::length))
            names.emplace_back(kFieldNames[i]);
    return fmt::format("[{}]", fmt::join(names, ", "));
}

/// What a tenant says may lead where it leads in a chain.
std::string outcomes_of(const nf::Type& type) {
    constexpr const char* kLeads[] = {"next", "drop", "punt"};
    std::vector<std::string> outcomes;
    for (const nf::Outcome& outcome : type.outcomes)
        outcomes.push_back(outcome.name + ": " + kLeads[static_cast<size_t>(outcome.disposition)]);
    return fmt::format("{{{}}}", fmt::join(outcomes, ", "));
}

std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

uint64_t SceneSpan::absent(const std::string& tenant) const {
    uint64_t sum = 0;
    if (const auto own = tenants.find(tenant); own != tenants.end())
        for (const auto& [why, packets] : own->second.absent) sum += packets;
    return sum;
}

SceneSpan operator-(SceneSpan later, const SceneSpan& earlier) {
    later.seconds -= earlier.seconds;
    for (auto& [name, own] : later.chains) {
        const ChainSpan& before = earlier.chains.at(name);
        own.received -= before.received;
        own.missed -= before.missed;
        own.sent -= before.sent;
        for (size_t i = 0; i < own.latency.size(); ++i) own.latency[i] -= before.latency[i];
    }
    for (auto& [name, own] : later.tenants) {
        const exec::TenantReport& before = earlier.tenants.at(name);
        own.packets -= before.packets;
        own.answered -= before.answered;
        own.batches -= before.batches;
        own.gpu_batches -= before.gpu_batches;
        own.chain_batches -= before.chain_batches;
        for (auto& [why, packets] : own.absent)
            if (const auto known = before.absent.find(why); known != before.absent.end()) packets -= known->second;
    }
    return later;
}

/// Of each queue, as a NIC may have: packets that find none free are counted as missed.
constexpr uint32_t kDescriptors = 4096;

TenantScene::TenantScene(const SceneOptions& options, std::vector<SceneChain> chains)
    : options_(options), chains_(std::move(chains)) {
    static std::atomic<unsigned> number{0};
    folder_ = fmt::format("{}/scene-{}", options_.scratch, ++number);
    std::filesystem::create_directories(folder_);
    chain::LoadOptions load;
    load.device = options_.device_name;
    load.output_folder = folder_;
    load.live = true;
    chain::Configuration configuration = chain::parse_configuration(text(), "(benchmark)", load);
    manager_ = std::make_shared<tenancy::Manager>(options_.workers);
    exec::RuntimeOptions runtime;
    runtime.workers = options_.workers;
    runtime.cores = options_.cores;
    runtime.offload.calls_by_thread = options_.call_thread;
    runtime.tenants = manager_;
    runtime.sources.descriptors = kDescriptors;
    if (options_.device != nullptr) runtime.devices = {options_.device};
    runtime_ = std::make_unique<exec::Runtime>(std::move(configuration), std::move(runtime));
    for (const auto& port : runtime_->ports()) {
        const std::string chain = port->name().substr(port->name().find('-') + 1);
        if (auto* source = dynamic_cast<io::SourcePort*>(port.get())) sources_[chain] = source;
        if (auto* sink = dynamic_cast<io::SinkPort*>(port.get())) sinks_[chain] = sink;
    }
    promises_ = std::make_unique<exec::PromiseWatch>(*runtime_, nullptr);
    promises_->update(exec::PromiseWatch::Clock::now());
}

TenantScene::~TenantScene() {
    if (!finished_) runtime_->stop();
    processes_.clear();
}

std::string TenantScene::node_text(const SceneTenant& tenant) const {
    if (!options_.apart) return fmt::format("      - {{{}, name: {}}}\n", tenant.function, tenant.name);
    const nf::Type& type = *nf::find_type(tenant.kind);
    const bool may_choose = tenant.keys.find("runs-on") == std::string::npos;
    return fmt::format("      - {{tenant: {}, reads: {}, writes: {}, outcomes: {}, absent: drop, memory: {}{}{}{}}}\n",
                       tenant.name, names_of(type.reads | type.cpu_reads), names_of(type.writes | type.cpu_writes),
                       outcomes_of(type), options_.memory, may_choose ? ", isolation: " + options_.isolation : "",
                       tenant.keys.find("patience") == std::string::npos ? ", patience: " + options_.patience : "",
                       tenant.keys);
}

std::string TenantScene::text() const {
    std::string ports, tenants, chains;
    for (const SceneChain& chain : chains_) {
        const std::string rate = chain.rate > 0 ? fmt::format("{:.0f}", std::max(chain.rate, 1.0)) : "max";
        ports += fmt::format(
            "  in-{0}: {{source: {{size: {1}, flows: 4096, protocol: udp, rate: {2}}}, queues: {3}, buffers: {4}, "
            "max-frame: 1600}}\n  out-{0}: {{sink: {{latency: true}}, queues: {3}}}\n",
            chain.name, options_.frame, rate, options_.workers, uint64_t{options_.buffers} * options_.workers);
        chains += fmt::format("  {0}:\n    input: in-{0}\n    output: out-{0}\n    punt: out-{0}\n    nfs:\n",
                              chain.name);
        for (const SceneTenant& tenant : chain.tenants) {
            chains += node_text(tenant);
            if (options_.apart) tenants += fmt::format("  - {{name: {}}}\n", tenant.name);
        }
    }
    return "version: 1\nports:\n" + ports + (tenants.empty() ? "" : "tenants:\n" + tenants) + "chains:\n" + chains;
}

const SceneTenant& TenantScene::spec(const std::string& tenant) const {
    for (const SceneChain& chain : chains_)
        for (const SceneTenant& own : chain.tenants)
            if (own.name == tenant) return own;
    throw std::logic_error("there is no tenant " + tenant);
}

const std::vector<SceneTenant>& TenantScene::tenants_of(const std::string& chain) const {
    return std::ranges::find(chains_, chain, &SceneChain::name)->tenants;
}

exec::TenantReport TenantScene::tenant(const std::string& name) const {
    for (exec::TenantReport& one : manager_->report())
        if (one.name == name) return std::move(one);
    return {};
}

bool TenantScene::is_in_place(const exec::TenantReport& tenant) const {
    const SceneTenant& own = spec(tenant.name);
    const bool gpu = options_.device != nullptr && !options_.device->ptx_architecture().empty() &&
                     own.keys.find("runs-on: process") == std::string::npos;
    return tenant.state == "attached" &&
           (gpu ? tenant.runs_on == "GPU, " + options_.isolation : tenant.runs_on == "process");
}

/// It has said that it can't be where it should.
bool TenantScene::stays_in_process(const SceneTenant& tenant) const {
    return tenant.mischief.empty() &&
           text_of(folder_ + "/" + tenant.name + ".said").find("runs in this process: ") != std::string::npos;
}

void TenantScene::attach() {
    if (!options_.apart) return;
    for (const SceneChain& chain : chains_)
        for (const SceneTenant& own : chain.tenants) attach(own.name);
    for (const SceneChain& chain : chains_)
        for (const SceneTenant& own : chain.tenants) {
            const double end = seconds_now() + kComing;
            while (!(own.mischief.empty() ? is_in_place(tenant(own.name)) : tenant(own.name).attached > 0)) {
                if (options_.stopped()) throw SceneStopped{};
                if (seconds_now() > end || stays_in_process(own))
                    throw std::runtime_error(fmt::format(
                        "tenant {} is {} on {}, and should work elsewhere; it says:\n{}", own.name,
                        tenant(own.name).state, tenant(own.name).runs_on, text_of(folder_ + "/" + own.name + ".said")));
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
        }
    // What their promises ask for comes in before the first packet.
    promises_->update(exec::PromiseWatch::Clock::now() + exec::PromiseWatch::kInterval);
}

void TenantScene::attach(const std::string& tenant) {
    const SceneTenant& own = spec(tenant);
    const std::string at = folder_ + "/tenants.sock", base = folder_ + "/" + tenant;
    std::vector<std::string> words;
    if (!own.mischief.empty()) {
        words = {"bench", "mischief", own.mischief, "--manager", at, "--name", tenant};
    } else {
        std::ofstream(base + ".yaml") << own.function << "\n";
        words = {"tenant", "--manager", at, "--name", tenant, "--options", base + ".yaml", "--output", base};
    }
    processes_[tenant] = options_.start(words, base + ".said");
}

void TenantScene::kill(const std::string& tenant) {
    processes_.at(tenant)->send(SIGKILL);
    processes_.erase(tenant);
}

void TenantScene::start() {
    begin_ = seconds_now();
    runtime_->start();
}

void TenantScene::pass(double seconds) {
    for (const double end = seconds_now() + seconds; seconds_now() < end;) {
        if (options_.stopped()) throw SceneStopped{};
        promises_->update(exec::PromiseWatch::Clock::now());
        if (runtime_->wait(std::chrono::milliseconds(2)))
            throw std::runtime_error("the run has ended: " + runtime_->trouble());
    }
}

SceneSpan TenantScene::now() const {
    SceneSpan span;
    for (const auto& [name, source] : sources_) {
        const io::PortCounters counters = source->counters();
        ChainSpan& own = span.chains[name];
        own.received = counters.received_packets;
        own.missed = counters.receive_drops();
        own.sent = sinks_.at(name)->counters().sent_packets;
        sinks_.at(name)->add_latency_to(own.latency);
    }
    for (exec::TenantReport& tenant : manager_->report()) span.tenants[tenant.name] = std::move(tenant);
    span.seconds = seconds_now();
    return span;
}

void TenantScene::set_rate(const std::string& chain, double packets_per_second) {
    sources_.at(chain)->set_rate(packets_per_second);
}

void TenantScene::change(const std::map<std::string, std::string>& keys) {
    const std::vector<SceneChain> before = chains_;
    for (SceneChain& chain : chains_)
        for (SceneTenant& tenant : chain.tenants)
            if (const auto own = keys.find(tenant.name); own != keys.end()) tenant.keys = own->second;
    try {
        const auto present = runtime_->configuration();
        chain::LoadOptions load;
        load.device = options_.device_name;
        load.output_folder = folder_;
        load.live = true;
        load.previous = present.get();
        chain::Configuration next = chain::parse_configuration(text(), "(benchmark)", load);
        const auto broken = broken_promises(
            share_device(demand_of(next, nullptr, options_.workers), manager_->on_device()));
        if (!broken.empty()) throw ConfigError(broken);
        runtime_->apply(std::move(next));
    } catch (...) {
        chains_ = before;
        throw;
    }
}

json TenantScene::finish() {
    std::map<std::string, exec::TenantReport> last;
    for (exec::TenantReport& one : manager_->report()) last[one.name] = std::move(one);
    runtime_->stop();
    if (!runtime_->wait(std::chrono::seconds(60))) throw std::runtime_error("the run does not end: packets are stuck");
    runtime_->finish();
    finished_ = true;
    const exec::Report report = exec::make_report(*runtime_);
    json chains = json::array(), tenants = json::array(), elsewhere = json::array();
    bool conserved = report.conserved();
    for (const SceneChain& chain : chains_) {
        uint64_t dropped = 0, in_flight = 0;
        json reasons = json::object();
        for (const exec::ChainReport& part : report.chains) {
            if (part.name != chain.name && !part.name.starts_with(chain.name + "/")) continue;
            dropped += part.dropped;
            in_flight += part.in_flight;
            for (const auto& [why, packets] : part.drops) reasons[part.name + ": " + why] = packets;
        }
        const io::PortCounters in = sources_.at(chain.name)->counters(), out = sinks_.at(chain.name)->counters();
        conserved = conserved && in.received_packets == out.sent_packets + dropped + in_flight;
        chains.push_back({{"name", chain.name},
                          {"received", in.received_packets},
                          {"missed", in.receive_drops()},
                          {"sent", out.sent_packets},
                          {"dropped", dropped},
                          {"dropped-by", reasons},
                          {"in-flight", in_flight}});
    }
    for (const exec::TenantReport& tenant : report.tenants) {
        uint64_t absent = 0;
        for (const auto& [why, packets] : tenant.absent) absent += packets;
        conserved = conserved && tenant.packets == tenant.answered + absent + tenant.in_flight;
        tenants.push_back(exec::tenant_json(tenant));
        const exec::TenantReport& at_work = last.at(tenant.name);
        tenants.back()["state"] = at_work.state;
        tenants.back()["runs-on"] = at_work.runs_on;
        if (!spec(tenant.name).mischief.empty() || tenant.attached > 1) continue;
        const bool on_gpu = at_work.runs_on != "process";
        const chain::Program* const whole = runtime_->configuration()->find_chain(tenant.chain);
        const bool in_one_piece = on_gpu && whole != nullptr && whole->undivided != nullptr;
        // What was promised for a time has a chain in its parts for as long.
        const bool stays = promises_->plans() == 0;
        if (!is_in_place(at_work) || tenant.gpu_batches != (on_gpu ? tenant.batches : 0) ||
            (stays && tenant.chain_batches != (in_one_piece ? tenant.batches : 0)))
            elsewhere.push_back(tenant.name);
    }
    if (!runtime_->trouble().empty()) throw std::runtime_error("the run had trouble: " + runtime_->trouble());
    return {{"seconds", seconds_now() - begin_},
            {"workers", options_.workers},
            {"frame", options_.frame},
            {"conserved", conserved},
            {"elsewhere", elsewhere},
            {"chains", chains},
            {"tenants", tenants}};
}

}  // namespace millrace::lab
