#include "millrace/cli/bench/bench_lookups.hpp"

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
#include "lab/acl_peer.hpp"
#include "lab/bus.hpp"
#include "lab/lookup_changes.hpp"
#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::cli {
namespace {

using namespace lab;
using nf::classify::kEngineNames;
using nf::classify::SyntheticSpec;
using nlohmann::json;

constexpr size_t kReferences = 256;   // headers that are held against the definition
constexpr double kWireBytes = 84;     // of a 64-byte packet, as the paper counts
constexpr uint32_t kBatch = 1 << 19;  // of figures that do not vary it
constexpr size_t kManyRules = 8192;

double gbps(double packets_per_second, double wire_bytes = kWireBytes) {
    return packets_per_second * wire_bytes * 8e-9;
}
const char* name_of(Engine engine) { return kEngineNames[static_cast<size_t>(engine)]; }

class Lookups {
public:
    explicit Lookups(const LookupArguments& arguments) : arguments_(arguments) {}
    int run();

private:
    using Set = std::shared_ptr<LookupSet>;
    /// A set with its keys on the device, and what its first headers should find.
    struct Placed {
        Set set;
        std::unique_ptr<LookupRun> run;
        std::vector<uint32_t> wanted;
    };
    struct Loaded {
        std::unique_ptr<LookupTables> tables;
        std::shared_ptr<device::LoadedTask> task;
    };

    bool asked(const std::string& figure) const {
        return std::find(arguments_.figures.begin(), arguments_.figures.end(), figure) != arguments_.figures.end();
    }
    /// Those of the set's engines that are asked for.
    std::vector<Engine> engines(const LookupSet& set) const {
        std::vector<Engine> asked_for = engines_for(set);
        std::erase_if(asked_for, [&](Engine engine) {
            return !arguments_.engines.empty() && std::find(arguments_.engines.begin(), arguments_.engines.end(),
                                                            name_of(engine)) == arguments_.engines.end();
        });
        return asked_for;
    }
    bool wanted(const std::string& set) const { return set.find(arguments_.sets) != std::string::npos; }
    Set file_set(const std::string& name, bool traced = true) const;
    Set made(uint32_t rules, uint32_t classes, unsigned fields = 12, uint32_t full = 0, uint32_t overlap = 1) const;
    Placed place(const Set& set, uint32_t batch, unsigned streams = 4, uint32_t headers = UINT32_MAX);
    Loaded load(const LookupSet& set, Engine engine, unsigned lanes) const;
    json rate_row(const std::string& figure, const Placed& placed, Engine engine, unsigned lanes, bool with_bus);
    void measure_all(const std::string& figure, const Set& set, const json& more = json::object(),
                     bool with_bus = true);
    double limit(unsigned words);

    void measure_acl(AclPeers& acl);
    void targets();
    void by_batch();
    void by_cores(const Set& set);
    void by_set();
    void by_delay();
    void by_packet_size();
    void changes();
    /// The highest pace at which a batch's first packet has its result within `delay_us`.
    json paced_row(const std::string& figure, const Set& set, Engine engine, double delay_us, double offered);
    const Placed& paced_place(const Set& set, uint32_t batch);

    const LookupArguments arguments_;
    std::shared_ptr<device::Device> device_;
    std::map<std::pair<std::string, uint32_t>, Placed> paced_;  // by set and batch
    std::vector<device::StreamId> streams_;
    std::map<unsigned, double> limits_;
    std::vector<Set> peers_;
    json rows_ = json::array(), delays_ = json::array(), changes_ = json::array(), acl_ = json::array(),
         cpu_ = json::array();
    size_t mistakes_ = 0;
};

Lookups::Set Lookups::file_set(const std::string& name, bool traced) const {
    const auto path = [&](const std::string& file) {
        for (const char* suffix : {"", ".xz"}) {
            const std::string whole = arguments_.data + "/classbench/" + file + suffix;
            if (std::filesystem::exists(whole)) return whole;
        }
        return std::string();
    };
    const std::string rules = path(name);
    if (rules.empty()) {
        std::cerr << "millrace: there is no set " << name << " in the folder of data; it is left out\n";
        return nullptr;
    }
    const Set set = classbench_lookups(rules, traced ? path(name + "_trace") : "");
    set->name = name;
    return set->rule_count > arguments_.most_rules || !wanted(name) ? nullptr : set;
}

Lookups::Set Lookups::made(uint32_t rules, uint32_t classes, unsigned fields, uint32_t full, uint32_t overlap) const {
    const std::string name = fmt::format("made: {} rules of {} fields in {} classes", rules, fields, classes);
    if (rules > arguments_.most_rules || !wanted(name)) return nullptr;
    SyntheticSpec spec;
    spec.rules = rules;
    spec.classes = classes;
    spec.fields = fields;
    spec.full_classes = full;
    spec.overlap = overlap;
    const Set set = synthetic_lookups(spec);
    set->name = name;
    return set;
}

Lookups::Placed Lookups::place(const Set& set, uint32_t batch, unsigned streams, uint32_t headers) {
    headers = std::min(headers, arguments_.headers);
    LookupOptions options;
    options.batch = std::min(batch, arguments_.headers / 4);
    options.batches = std::max(4u, std::min(headers / options.batch, 4096u));
    options.streams = streams;
    options.seconds = arguments_.seconds;
    Placed placed{set, std::make_unique<LookupRun>(*device_, *set, options, streams_), {}};
    for (size_t i = 0; i < std::min(kReferences, set->count()); ++i) placed.wanted.push_back(set->reference(i));
    return placed;
}

Lookups::Loaded Lookups::load(const LookupSet& set, Engine engine, unsigned lanes) const {
    Loaded loaded;
    loaded.tables = set.build(engine);
    loaded.task = device_->load(lookup_task(set.words, engine, lanes), loaded.tables->image);
    return loaded;
}

/// What the bus could carry of such tuples in and indexes back, measured once.
double Lookups::limit(unsigned words) {
    double& limit = limits_[words];
    if (limit == 0) limit = bus_limit(*device_, words * 4, 4, arguments_.seconds * 4);
    return limit;
}

json Lookups::rate_row(const std::string& figure, const Placed& placed, Engine engine, unsigned lanes, bool with_bus) {
    const LookupSet& set = *placed.set;
    json row = {{"figure", figure},
                {"set", set.name},
                {"fields", set.words == 4 ? 5 : 12},
                {"rules", set.rule_count},
                {"classes", set.class_count},
                {"engine", name_of(engine)},
                {"lanes", lanes},
                {"batch", placed.run->batch()}};
    try {
        const Loaded loaded = load(set, engine, lanes);
        const std::vector<uint32_t> found = placed.run->rules(*loaded.task, placed.wanted.size());
        size_t wrong = 0;
        for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != placed.wanted[i];
        mistakes_ += wrong;
        row.update({{"table-bytes", loaded.tables->bytes},
                    {"build-seconds", loaded.tables->build_seconds},
                    {"checked", found.size()},
                    {"mistakes", wrong}});
        row["kernel-per-second"] = placed.run->kernel_rate(*loaded.task);
        if (with_bus) {
            row["bus-per-second"] = placed.run->bus_rate(*loaded.task);
            row["bus-limit-per-second"] = limit(set.words);
        }
    } catch (const nf::classify::TablesTooLarge& error) {
        row["refusal"] = error.what();
    }
    const double kernel = row.value("kernel-per-second", 0.0), bus = row.value("bus-per-second", 0.0);
    std::cout << fmt::format(
                     "{:8} {:52} {:11} {:2} lanes, batch {:6}: kernel {:8.1f} M/s {:7.1f} Gb/s; bus {:7.1f} M/s of "
                     "{:7.1f}{}\n",
                     figure, set.name, name_of(engine), lanes, placed.run->batch(), kernel * 1e-6, gbps(kernel),
                     bus * 1e-6, with_bus ? limit(set.words) * 1e-6 : 0, row.value("mistakes", 0) > 0 ? "  WRONG" : "")
              << std::flush;
    return row;
}

void Lookups::measure_all(const std::string& figure, const Set& set, const json& more, bool with_bus) {
    if (!set || engines(*set).empty()) return;
    const Placed placed = place(set, kBatch);
    for (const Engine engine : engines(*set)) {
        // A batch of the linear search in so many rules would take a second.
        const bool slow = engine == Engine::linear && set->rule_count > kManyRules;
        const Placed smaller = slow ? place(set, kBatch / 16) : Placed{};
        for (const unsigned lanes : arguments_.lanes) {
            json row = rate_row(figure, slow ? smaller : placed, engine, lanes, with_bus);
            row.update(more);
            rows_.push_back(std::move(row));
        }
    }
}

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

int Lookups::run() {
    if (asked("targets")) {
        for (const char* name :
             {"wustl/acl1_1K", "cutsplit/acl1_10k", "cutsplit/fw1_10k", "cutsplit/ipc1_10k", "wustl/acl1_10K",
              "wustl/fw1_10K", "wustl/ipc1_10K", "large/acl1_100k", "large/fw1_100k", "large/ipc1_100k"})
            if (const Set set = file_set(name)) peers_.push_back(set);
    }
    // In processes that must begin before the device's threads do.
    std::optional<AclPeers> acl;
    if (!peers_.empty() && arguments_.acl_seconds > 0) acl.emplace(peers_, std::max(0.2, arguments_.seconds));
    start_eal();
    if (arguments_.device == "sim")
        device_ = std::make_shared<device::sim::SimDevice>(
            device::sim::SimOptions{.memory_bytes = size_t{4} << 30, .faults = {}});
    else device_ = std::make_shared<device::cuda::CudaDevice>();
    std::cout << device_->describe() << "\n";
    // While rules are still being compiled on other cores, figures that need the GPU rather than the bus.
    if (asked("5")) by_batch();
    by_set();
    if (acl) measure_acl(*acl);
    acl.reset();
    if (asked("targets")) targets();
    if (asked("9")) by_packet_size();
    if (asked("10")) by_delay();
    if (asked("changes")) changes();
    json limits = json::object();
    for (const auto& [words, limit] : limits_) limits[std::to_string(words * 4)] = limit;
    if (!arguments_.json_file.empty())
        write_json(arguments_.json_file, {{"device", device_->describe()},
                                          {"lookups", rows_},
                                          {"paced", delays_},
                                          {"changes", changes_},
                                          {"rte-acl", acl_},
                                          {"cpu", cpu_},
                                          {"bus-limit-by-tuple-bytes", limits},
                                          {"mistakes", mistakes_}});
    if (mistakes_ > 0) std::cout << mistakes_ << " results are wrong\n";
    return mistakes_ > 0 ? kFailed : kOk;
}

}  // namespace

int bench_lookups(const LookupArguments& arguments) { return Lookups(arguments).run(); }

}  // namespace millrace::cli
