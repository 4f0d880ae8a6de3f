#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "millrace/base/eal.hpp"
#include "lab/lookup/acl_peer.hpp"
#include "lab/transfer/bus.hpp"
#include "lab/lookup/lookup_changes.hpp"
#include "millrace/cli/bench/lookups.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::cli {

void Lookups::targets() {
    measure_all("targets", made(131072, 512));
    measure_all("targets", made(1024, 128));
    for (const Set& set : peers_) measure_all("targets", set);
}

/// Figure 5: kernel and transfer by batch, one batch at a time as the paper has it, and several under way; Bloom search
/// by classes.
void Lookups::by_batch() {
    const Set set = made(1024, 128);
    if (!set) return;
    for (uint32_t batch = 256; batch <= 65536; batch *= 2) {
        for (const unsigned streams : {1u, 4u}) {
            const Placed placed = place(set, batch, streams);
            for (const Engine engine : engines(*set)) {
                json row = rate_row("5", placed, engine, 1, true);
                row["streams"] = streams;
                rows_.push_back(std::move(row));
            }
        }
    }
    for (uint32_t classes = 1; classes <= 512; classes *= 2)
        measure_all("5c", made(256 * classes, classes), json::object(), false);
}

/// Figure 6(a): the same device halves on the CPU, by cores.
void Lookups::by_cores(const Set& set) {
    const unsigned most = std::max(1u, std::thread::hardware_concurrency());
    constexpr uint32_t kKeys = 8192;
    std::vector<uint32_t> keys(kKeys * set->words);
    for (uint32_t i = 0; i < kKeys; ++i)
        for (unsigned k = 0; k < set->words; ++k)
            keys[k * kKeys + i] = set->key_words[i % set->count() * set->words + k];
    for (const Engine engine : engines(*set)) {
        const auto tables = set->build(engine);
        const device::Task task = lookup_task(set->words, engine, 1);
        for (unsigned cores = 1; cores <= most; cores *= 2) {
            std::atomic<bool> stop{false};
            std::atomic<uint64_t> total{0};
            std::vector<std::thread> threads;
            const auto begin = std::chrono::steady_clock::now();
            for (unsigned t = 0; t < cores; ++t)
                threads.emplace_back([&, t] {
                    std::vector<uint32_t> found(kKeys);
                    uint64_t done = 0;
                    for (uint32_t i = t * kKeys / cores; !stop; i = (i + 1) % kKeys, ++done)
                        task.run(tables->image.tables(), {keys.data(), found.data(), kKeys}, i);
                    total += done;
                });
            std::this_thread::sleep_for(std::chrono::duration<double>(arguments_.seconds * 2));
            stop = true;
            for (std::thread& thread : threads) thread.join();
            const double rate = static_cast<double>(total) /
                                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            cpu_.push_back({{"figure", "6a"},
                            {"set", set->name},
                            {"engine", name_of(engine)},
                            {"cores", cores},
                            {"per-second", rate}});
            std::cout << fmt::format("6a       {:52} {:11} on {:2} cores of the CPU: {:8.2f} M/s\n", set->name,
                                     name_of(engine), cores, rate * 1e-6)
                      << std::flush;
        }
    }
}

/// Figures 6 to 8.
void Lookups::by_set() {
    if (asked("6")) {
        if (const Set large = made(131072, 512)) {
            by_cores(large);
            for (uint32_t batch = 256; batch <= 16384; batch *= 2) {
                const Placed placed = place(large, batch, 4);
                for (const Engine engine : engines(*large)) rows_.push_back(rate_row("6b", placed, engine, 1, true));
            }
        }
        for (uint32_t classes = 1; classes <= 1024; classes *= 2)
            measure_all("6c", made(256 * classes, classes), {{"x", 256 * classes}}, false);
    }
    if (asked("7")) {
        for (uint32_t classes = 128; classes <= 2048; classes *= 2)
            measure_all("7a", made(32768, classes), {{"x", classes}}, false);
        for (uint32_t full = 4; full <= 128; full *= 2)
            measure_all("7b", made(1024, 128, 12, full), {{"x", full}}, false);
        for (uint32_t overlap = 1; overlap <= 128; overlap *= 2)
            measure_all("7c", made(1024, 128, 12, 0, overlap), {{"x", overlap}}, false);
    }
    if (asked("8"))
        for (const unsigned fields : {5u, 12u}) measure_all("8", made(1024, 128, fields), {{"x", fields}}, false);
}

const Lookups::Placed& Lookups::paced_place(const Set& set, uint32_t batch) {
    Placed& placed = paced_[{set->name, batch}];
    constexpr unsigned kUnderWay = 16;
    constexpr uint32_t kHeaders = 1 << 20;
    if (!placed.run) placed = place(set, batch, kUnderWay, kHeaders);
    return placed;
}

json Lookups::paced_row(const std::string& figure, const Set& set, Engine engine, double delay_us, double offered) {
    json best = {{"figure", figure},
                 {"set", set->name},
                 {"engine", name_of(engine)},
                 {"delay-us", delay_us},
                 {"offered-per-second", offered},
                 {"per-second", 0.0},
                 {"batch", 0}};
    // A small batch is done sooner when several lanes share a header, a large one is done faster when none do.
    std::vector<Loaded> loaded;
    constexpr unsigned kLanes[] = {1, 8, 32};
    for (const unsigned lanes : kLanes) loaded.push_back(load(*set, engine, lanes));
    const double most = offered > 0 ? offered : limit(set->words);
    for (uint32_t batch = 64; batch <= 131072; batch *= 2) {
        // A batch that fills no sooner than the delay is over is too large; one that asks too much of the CPU is too
        // small.
        const double least = batch / (delay_us * 1e-6);
        if (least > most || (offered > 0 && best["per-second"] >= 0.99 * offered)) continue;
        const Placed& placed = paced_place(set, batch);
        size_t lanes = 0;
        const auto try_at = [&](double rate) {
            const auto paced = placed.run->paced(*loaded[lanes].task, rate);
            const bool holds = paced.p99_us > 0 && paced.p99_us <= delay_us && paced.rate >= 0.99 * rate;
            if (holds && paced.rate > best["per-second"].get<double>())
                best.update({{"per-second", paced.rate},
                             {"batch", batch},
                             {"lanes", kLanes[lanes]},
                             {"p50-us", paced.p50_us},
                             {"p99-us", paced.p99_us},
                             {"highest-us", paced.highest_us}});
            return holds;
        };
        for (; lanes < std::size(kLanes); ++lanes) {
            if (offered > 0) {
                if (try_at(offered)) break;
                continue;
            }
            // Not below where filling takes less than half the time, so that something is left for the rest.
            double low = std::max(2.5 * least, 1.03 * best["per-second"].get<double>()), high = most;
            if (low > high || !try_at(low)) continue;
            for (int step = 0; step < 6 && high > 1.03 * low; ++step) {
                const double middle = std::sqrt(low * high);
                (try_at(middle) ? low : high) = middle;
            }
        }
    }
    std::cout << fmt::format(
                     "{:8} {:30} {:11} within {:5.0f} us, {:7.1f} M/s offered: {:7.1f} M/s, {:6.1f} Gb/s in batches of "
                     "{}, {} lanes, p99 {:.1f} us\n",
                     figure, set->name, name_of(engine), delay_us, offered * 1e-6,
                     best["per-second"].get<double>() * 1e-6, gbps(best["per-second"]), best["batch"].get<int>(),
                     best.value("lanes", 0), best.value("p99-us", 0.0))
              << std::flush;
    return best;
}

/// Figure 10: each engine on an ACL set of 64-byte packets, by the bound on the delay.
void Lookups::by_delay() {
    const Set set = file_set("wustl/acl1_1K");
    if (!set) return;
    for (const double delay : {50.0, 100.0, 200.0, 500.0, 1000.0})
        for (const Engine engine : engines(*set)) delays_.push_back(paced_row("10", set, engine, delay, 0));
    if (const Set large = file_set("cutsplit/acl1_10k"))
        for (const Engine engine : engines(*large))
            if (engine != Engine::linear) delays_.push_back(paced_row("10", large, engine, 100, 0));
    paced_.clear();
}

/// Figure 9: Bloom search by packet size, bound and input rate.
void Lookups::by_packet_size() {
    const Set set = file_set("wustl/acl1_1K");
    if (!set) return;
    for (const double input_gbps : {40.0, 100.0, 400.0})
        for (const double size : {64.0, 256.0, 1024.0, 1518.0}) {
            json row = paced_row("9", set, Engine::bloom, 100, input_gbps * 1e9 / 8 / (size + 20));
            row.update(
                {{"input-gbps", input_gbps}, {"packet-bytes", size}, {"gbps", gbps(row["per-second"], size + 20)}});
            delays_.push_back(std::move(row));
        }
}

void Lookups::changes() {
    const auto measure = [&](const Set& set, Engine engine, double changes_per_second) {
        if (!set) return;
        constexpr uint32_t kBatchOfChanges = 1 << 15;
        const Placed placed = place(set, kBatchOfChanges, 8);
        const Loaded loaded = load(*set, engine, 1);
        const double highest = placed.run->bus_rate(*loaded.task);
        ChangeOptions options;
        options.changes_per_second = changes_per_second;
        options.keys_per_second = 0.9 * highest;
        const ChangeRate rate = measure_changes(*device_, *set, engine, 1, *placed.run,
                                                std::max(1.0, arguments_.seconds), options);
        mistakes_ += rate.mistakes;
        changes_.push_back({{"set", set->name},
                            {"rules", set->rule_count},
                            {"engine", name_of(engine)},
                            {"asked-per-second", changes_per_second},
                            {"changes-per-second", rate.changes_per_second},
                            {"generations-per-second", rate.generations_per_second},
                            {"delay-p50-ms", rate.delay_p50_ms},
                            {"delay-highest-ms", rate.delay_highest_ms},
                            {"highest-lookups-per-second", highest},
                            {"offered-lookups-per-second", options.keys_per_second},
                            {"lookups-per-second", rate.lookups.rate},
                            {"batch", kBatchOfChanges},
                            {"lookup-p50-us", rate.lookups.p50_us},
                            {"lookup-p99-us", rate.lookups.p99_us},
                            {"checked", rate.checked},
                            {"mistakes", rate.mistakes}});
        std::cout << fmt::format(
                         "changes  {:52} {:11}: {:.0f} of {:.0f} changes/s in {:.0f} generations/s, delay {:.1f} ms, "
                         "at most {:.1f}; {:.1f} of {:.1f} M lookups/s, "
                         "highest {:.1f}, p99 {:.0f} us{}\n",
                         set->name, name_of(engine), rate.changes_per_second, changes_per_second,
                         rate.generations_per_second, rate.delay_p50_ms, rate.delay_highest_ms,
                         rate.lookups.rate * 1e-6, options.keys_per_second * 1e-6, highest * 1e-6, rate.lookups.p99_us,
                         rate.mistakes > 0 ? "  WRONG" : "")
                  << std::flush;
    };
    const Set acl = file_set("cutsplit/acl1_10k"), flows = made(131072, 512);
    for (const double pace : {10e3, 100e3}) {
        for (const Engine engine : {Engine::bloom, Engine::merged}) {
            measure(acl, engine, pace);
            measure(flows, engine, pace);
        }
    }
}

void Lookups::measure_acl(AclPeers& acl) {
    const std::vector<AclRate> rates = acl.measure(arguments_.acl_seconds);
    for (size_t i = 0; i < rates.size(); ++i) {
        const AclRate& rate = rates[i];
        json row = {{"set", peers_[i]->name}, {"rules", peers_[i]->rule_count}};
        if (rate.refusal.empty()) {
            row.update({{"method", rate.method},
                        {"build-seconds", rate.build_seconds},
                        {"one-core-per-second", rate.one_core},
                        {"all-cores-per-second", rate.all_cores},
                        {"cores", rate.cores},
                        {"checked", rate.checked},
                        {"mistakes", rate.mistakes}});
            mistakes_ += rate.mistakes;
        } else {
            row["refusal"] = rate.refusal;
        }
        std::cout << fmt::format("rte_acl  {:52} {}\n", peers_[i]->name,
                                 rate.refusal.empty()
                                     ? fmt::format("{}, made in {:.1f} s: {:.1f} M/s on one core, {:.1f} M/s on {}",
                                                   rate.method, rate.build_seconds, rate.one_core * 1e-6,
                                                   rate.all_cores * 1e-6, rate.cores)
                                     : rate.refusal)
                  << std::flush;
        acl_.push_back(std::move(row));
    }
}

}  // namespace millrace::cli
