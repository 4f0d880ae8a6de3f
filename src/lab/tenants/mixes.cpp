// Promises of random mixes of tenants: what share of their intervals keeps them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "lab/tenants/tenant_bench.hpp"
#include "millrace/base/text/diagnostic.hpp"

namespace millrace::lab {
namespace {

using nlohmann::json;

constexpr size_t kMax = 8;  ///< tenants of a mix; two at least

std::string name_of(size_t number) { return fmt::format("m{}", number); }

struct Promised {
    size_t tenant = 0;
    double rate = 0, latency_us = 0, offered = 0;
};

/// Between 2 and 8 tenants, who together are promised some part of `capacity`.
std::vector<Promised> draw(std::mt19937& random, double capacity, double latency_us) {
    std::uniform_real_distribution<double> part(0.2, 1);
    std::vector<size_t> all;
    for (size_t i = 0; i < kMax; ++i) all.push_back(i);
    std::ranges::shuffle(all, random);
    all.resize(std::uniform_int_distribution<size_t>(2, kMax)(random));
    std::vector<Promised> mix;
    for (const size_t tenant : all) {
        constexpr double kTimes[] = {1, 2, 5, 10};
        const double rate = std::max(std::floor(0.6 * capacity / double(all.size()) * part(random)), 1.0);
        mix.push_back({tenant, rate, std::ceil(latency_us * kTimes[random() % 4]), rate * part(random)});
    }
    return mix;
}

/// Whoever is not of the mix is promised nothing.
std::map<std::string, std::string> keys_of(const std::vector<Promised>& mix) {
    std::map<std::string, std::string> keys;
    for (size_t i = 0; i < kMax; ++i) keys[name_of(i)] = "";
    for (const Promised& own : mix)
        keys[name_of(own.tenant)] = fmt::format(", rate: {:.0f}, latency: {:.0f}us, patience: {:.0f}us", own.rate,
                                                own.latency_us, std::min(own.latency_us, 1e7));
    return keys;
}

json json_of(const std::vector<Promised>& mix) {
    json all = json::array();
    for (const Promised& own : mix)
        all.push_back({{"tenant", name_of(own.tenant)},
                       {"rate", own.rate},
                       {"latency-us", own.latency_us},
                       {"offered", own.offered}});
    return all;
}

}  // namespace

void TenantBench::mixes() {
    if (!has_time(8)) return;
    options_.progress("mixes: the tenants come");
    std::vector<SceneChain> chains;
    // Who is promised something is asked by itself, and not in its chain.
    for (size_t i = 0; i < kMax; ++i) {
        chains.push_back({name_of(i), {function(i, name_of(i))}, 1});
        chains.back().tenants.front().keys = ", rate: 1, latency: 10s";
    }
    TenantScene scene(scene_options(), chains);
    scene.attach();
    scene.start();
    // What all of them carry together, and how long a packet takes at a third of that.
    double capacity = 0;
    for (size_t i = 0; i < kMax; ++i) scene.set_rate(name_of(i), 0);
    scene.pass(span(0.5));
    SceneSpan before = scene.now();
    scene.pass(span(1));
    SceneSpan took = scene.now() - before;
    for (const auto& [name, own] : took.chains) capacity += double(own.sent) / took.seconds;
    if (capacity == 0) {
        // So slow that what comes pushes out all that was asked about before its answer.
        for (size_t i = 0; i < kMax; ++i) scene.set_rate(name_of(i), 1);
        capacity = std::max(carried(scene, name_of(0)).rate, 10.0);
    }
    for (size_t i = 0; i < kMax; ++i) scene.set_rate(name_of(i), std::max(capacity / 3 / kMax, 1.0));
    scene.pass(span(0.5));
    before = scene.now();
    scene.pass(span(1));
    took = scene.now() - before;
    double latency_us = 2000;
    for (const auto& [name, own] : took.chains) latency_us = std::max(latency_us, 4 * own.latency_us(99));
    latency_us = std::min(latency_us, 1e6);
    add("mixes", "what all tenants carry together", capacity, "packets/s");
    add("mixes", "least latency that is promised", latency_us, "us");

    std::mt19937 random(options_.seed);
    const double interval = std::chrono::duration<double>(exec::PromiseWatch::kInterval).count();
    uint64_t intervals = 0, broken = 0, refused = 0, done = 0;
    for (unsigned number = 0; number < options_.mixes && has_time(3); ++number) {
        options_.progress(fmt::format("mixes: {} of {}", number + 1, options_.mixes));
        std::vector<Promised> mix;
        for (bool in = false; !in;) {
            mix = draw(random, capacity, latency_us);
            for (size_t i = 0; i < kMax; ++i) scene.set_rate(name_of(i), 1);
            try {
                scene.change(keys_of(mix));
                in = true;
            } catch (const ConfigError& e) {
                ++refused;
                mixes_.push_back(
                    {{"number", number}, {"tenants", json_of(mix)}, {"refused", e.diagnostics().front().message}});
                if (refused > 20 * options_.mixes) throw std::runtime_error("no mix of promises has room");
                if (!has_time(3)) break;
            }
        }
        if (!has_time(2)) break;
        for (const Promised& own : mix) scene.set_rate(name_of(own.tenant), own.offered);
        // The first interval has packets of both mixes.
        scene.pass(1.1 * interval);
        std::vector<exec::PromiseReport> from;
        for (const Promised& own : mix) from.push_back(scene.promise(name_of(own.tenant)));
        scene.pass(std::max(span(1), 2.1 * interval));
        json made = {{"number", number}, {"tenants", json_of(mix)}};
        for (size_t i = 0; i < mix.size(); ++i) {
            const exec::PromiseReport report = scene.promise(name_of(mix[i].tenant));
            const uint64_t rate_broken = report.rate_broken - from[i].rate_broken,
                           latency_broken = report.latency_broken - from[i].latency_broken,
                           all = report.intervals - from[i].intervals;
            intervals += all;
            broken += std::min(all, rate_broken + latency_broken);
            made["tenants"][i].update({{"intervals", all},
                                       {"rate-broken", rate_broken},
                                       {"latency-broken", latency_broken},
                                       {"beyond", report.beyond - from[i].beyond},
                                       {"longest-us", double(report.longest_ns) / 1000},
                                       {"sms", report.sms}});
        }
        mixes_.push_back(std::move(made));
        ++done;
    }
    const json with = {
        {"mixes", done}, {"intervals", intervals}, {"broken", broken}, {"refused", refused}, {"seed", options_.seed}};
    if (intervals > 0)
        add("mixes", "intervals in which promises were kept", 100 * (1 - double(broken) / double(intervals)), "%",
            with);
    end(scene, "mixes", fmt::format("{} mixes", done));
}

}  // namespace millrace::lab
