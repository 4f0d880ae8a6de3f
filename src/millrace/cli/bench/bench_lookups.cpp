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
#include "lab/lookup/acl_peer.hpp"
#include "lab/transfer/bus.hpp"
#include "lab/lookup/lookup_changes.hpp"
#include "millrace/cli/bench/lookups.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::cli {

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

int bench_lookups(const LookupArguments& arguments) { return Lookups(arguments).run(); }

}  // namespace millrace::cli
