// Functions of tenants in processes of their own, against the same in one domain; and what isolation costs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lab/tenants/tenant_bench.hpp"
#include "millrace/isolation/report.hpp"
#include "millrace/tenancy/member/function_host.hpp"

namespace millrace::lab {

using nlohmann::json;

void TenantBench::domains() {
    for (const uint32_t frame : options_.frames) {
        if (!has_time(16)) return;
        const std::string what = fmt::format("{} B", frame);
        const auto measure = [&](const std::string& name, bool apart, json with) {
            options_.progress(fmt::format("domains: {}, {}", what, name));
            with["frame"] = frame;
            SceneOptions options = scene_options(frame);
            options.apart = apart;
            TenantScene scene(options, {chain_of_all()});
            scene.attach();
            scene.start();
            const Carried found = carried(scene, "service", 0.4);
            add("domains", name + ", nothing lost", found.rate, "packets/s", with);
            add("domains", name + ", while more comes", found.overload, "packets/s", with);
            if (found.rate > 0)
                for (const double percent : {50.0, 99.0})
                    add("domains", fmt::format("{}, p{:.0f} at that rate", name, percent),
                        found.span.chains.at("service").latency_us(percent), "us", with);
            end(scene, "domains", fmt::format("{}, {}", name, what));
            return found;
        };
        const json count = {{"tenants", options_.functions.size()}};
        const Carried fused = measure("one domain", false, json::object()), own = measure("tenants", true, count);
        const json with = {{"frame", frame}, {"tenants", options_.functions.size()}};
        if (fused.rate > 0) add("domains", "tenants to one domain, nothing lost", own.rate / fused.rate, "ratio", with);
        if (fused.overload > 0)
            add("domains", "tenants to one domain, while more comes", own.overload / fused.overload, "ratio", with);
    }
}

void TenantBench::batch() {
    // Few packets a second: a batch waits for nobody. And as many as make larger ones.
    struct Way {
        const char* where;
        const char* keys;
        bool on_gpu;
    };
    constexpr Way kWays[] = {{"on the GPU, in its chain", "", true},
                             {"on the GPU, by itself", ", rate: 20k, latency: 10s", true},
                             {"in its process", ", runs-on: process", false}};
    for (const auto& [where, keys, on_gpu] : kWays) {
        if (on_gpu && (device_ == nullptr || device_->ptx_architecture().empty())) continue;
        if (!has_time(6)) return;
        options_.progress(std::string("batch: a function ") + where);
        SceneOptions options = scene_options(64);
        options.workers = 1;
        TenantScene scene(options, {{"alone", {{"mirror", "mirror", "mirror: {}", keys, ""}}, 20'000}});
        scene.attach();
        scene.start();
        scene.pass(span(0.5));
        const auto before = scene.now();
        scene.pass(span(2));
        const SceneSpan took = scene.now() - before;
        const exec::TenantReport& tenant = took.tenants.at("mirror");
        const double p50 = double(tenant.answer_p50_ns) / 1000, p99 = double(tenant.answer_p99_ns) / 1000;
        const double packets = tenant.batches > 0 ? double(tenant.answered) / double(tenant.batches) : 0;
        const json with = {{"packets-a-batch", packets}, {"place", where}, {"chain-batches", tenant.chain_batches}};
        add("batch", std::string("question to answer, ") + where + ", p50", p50, "us", with);
        add("batch", std::string("question to answer, ") + where + ", p99", p99, "us", with);
        for (const double percent : {50.0, 99.0})
            add("batch", fmt::format("a packet, {}, p{:.0f}", where, percent),
                took.chains.at("alone").latency_us(percent), "us", with);
        end(scene, "batch", where);
    }
}

namespace {

/// What a batch of all packets that a window has room for takes, of a function by itself.
struct Confined {
    double kernel_us = 0, batch_us = 0;
    uint32_t packets = 0;
    size_t instructions = 0, added = 0;
};

/// Least of several measurements: what else the machine does is not the function's.
Confined confined(device::Device& device, const SceneTenant& tenant, const std::string& ptx,
                  tenancy::FunctionHost& host, const tenancy::ConfinedTerms& terms) {
    constexpr int kRounds = 9;
    tenancy::Streams streams(device);
    tenancy::TrustedKernels kernels(device);
    tenancy::ConfinedFunction function(device, streams, kernels, host.device_half(ptx), terms, tenant.name);
    Confined found;
    found.packets = function.batch_packets();
    found.instructions = function.instructions();
    found.added = function.added();
    const uint32_t sms = device.partitions().sms;
    double copies_us = 0;
    for (int round = 0; round < kRounds; ++round) {
        function.measure();
        for (const schedule::ProfilePoint& point : function.points()) {
            if (point.packets != found.packets || point.sms != sms) continue;
            const double copies = point.transfer_ns / 1000, batch = copies + point.kernel_ns / 1000;
            copies_us = copies_us == 0 ? copies : std::min(copies_us, copies);
            found.batch_us = found.batch_us == 0 ? batch : std::min(found.batch_us, batch);
        }
    }
    found.kernel_us = std::max(found.batch_us - copies_us, 0.0);
    while (!function.idle()) {
    }
    return found;
}

}  // namespace

/// By itself each function, whose kernels and copies can be told apart; and the chain while it runs.
void TenantBench::fence() {
    using isolation::Isolation;
    if (device_ == nullptr || device_->ptx_architecture().empty()) return;
    std::map<std::string, Confined> sums;
    constexpr Isolation kAll[] = {Isolation::none, Isolation::checked, Isolation::fenced};
    for (size_t i = 0; i < options_.functions.size(); ++i) {
        if (!has_time(8)) return;
        const SceneTenant own = function(i, fmt::format("t{}", i));
        options_.progress("fence: " + own.kind + " by itself");
        SceneOptions options = scene_options();
        options.workers = 1;
        const TenantScene scene(options, {{"one", {own}, 1}});
        const chain::TenantFunction* node = nullptr;
        for (const auto& program : scene.configuration()->chains)
            if (program->is_tenants) node = chain::tenant_of(program->nodes.front());
        tenancy::FunctionHost host(*nf::find_type(own.kind), Config::parse("{" + own.function + "}").at(own.kind),
                                   own.name, options_.scratch);
        host.agree(tenancy::terms_of(*node));
        const std::string ptx = host.compile_half(device_->ptx_architecture());
        for (const Isolation isolation : kAll) {
            tenancy::ConfinedTerms terms;
            terms.sees = node->sees() | node->changes();
            terms.changes = node->changes();
            terms.shape = tenancy::shape_of(*node, 1, {});
            terms.memory_bytes = node->memory_bytes();
            terms.isolation = isolation;
            const Confined found = confined(*device_, own, ptx, host, terms);
            const std::string name = isolation::name_of(isolation);
            const json with = {{"function", own.kind},
                               {"number", i},
                               {"isolation", name},
                               {"packets", found.packets},
                               {"instructions", found.instructions},
                               {"added", found.added}};
            add("fence", own.kind + ", " + name + ", kernels", found.kernel_us, "us a batch", with);
            add("fence", own.kind + ", " + name + ", with copies", found.batch_us, "us a batch", with);
            sums[name].kernel_us += found.kernel_us;
            sums[name].batch_us += found.batch_us;
        }
    }
    for (const char* const name : {"checked", "fenced"}) {
        add("fence", std::string("all functions, ") + name + " to none, kernels alone",
            100 * (sums[name].kernel_us / sums["none"].kernel_us - 1), "% more", {{"isolation", name}});
        add("fence", std::string("all functions, ") + name + " to none, with copies",
            100 * (sums[name].batch_us / sums["none"].batch_us - 1), "% more", {{"isolation", name}});
    }
    double without = 0;
    for (const Isolation isolation : kAll) {
        if (!has_time(12)) return;
        const std::string name = isolation::name_of(isolation);
        options_.progress("fence: the chain, " + name);
        SceneOptions options = scene_options();
        options.isolation = name;
        TenantScene scene(options, {chain_of_all()});
        scene.attach();
        scene.start();
        const Carried found = carried(scene, "service");
        add("fence", "chain of tenants, " + name, found.rate, "packets/s", {{"isolation", name}, {"frame", 512}});
        if (isolation == Isolation::none) without = found.rate;
        else if (without > 0)
            add("fence", "chain of tenants, " + name + " to none", 100 * (1 - found.rate / without), "% less",
                {{"isolation", name}, {"frame", 512}});
        end(scene, "fence", name);
    }
}

}  // namespace millrace::lab
