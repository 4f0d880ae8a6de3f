// How fast each engine searches payloads for thousands of patterns, on one core:
//     taskset -c 1 pattern_bench --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
// Compare the best ("max" of Gb/s) of each. "payload" is the time for one; with --benchmark_filter=scans_of_ for scans
// of few payloads, with all patterns. Needs the data folder (MILLRACE_DATA).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/nids/pattern/cpu/matcher.hpp"

namespace {

using namespace millrace::nf::nids::pattern;

std::string data_path(const std::string& name) {
    const char* folder = std::getenv("MILLRACE_DATA");
    return std::string(folder != nullptr ? folder : MILLRACE_DATA_DEFAULT) + "/" + name;
}

/// Lines of "nocase-flag hex-bytes"; the first `limit` of them.
std::shared_ptr<const PatternSet> pattern_set(const std::string& name, size_t limit) {
    static std::map<std::pair<std::string, size_t>, std::shared_ptr<const PatternSet>> made;
    auto& set = made[{name, limit}];
    if (set != nullptr) return set;
    std::vector<std::string> patterns;
    millrace::for_each_line(millrace::read_file(data_path(name)), [&](std::string_view line, uint32_t) {
        std::string bytes;
        for (size_t i = 2; i + 1 < line.size(); i += 2)
            bytes.push_back(static_cast<char>(std::stoi(std::string(line.substr(i, 2)), nullptr, 16)));
        if (!bytes.empty() && patterns.size() < limit) patterns.push_back(std::move(bytes));
    });
    return set = std::make_shared<const PatternSet>(std::move(patterns));
}

const std::string& text(const std::string& name) {
    static std::map<std::string, std::string> read;
    auto& content = read[name];
    if (content.empty()) content = millrace::read_file(data_path(name));
    return content;
}

void search(benchmark::State& state, Engine engine, const std::string& patterns, size_t limit,
            const std::string& traffic, uint32_t bytes, size_t scan) {
    if (!is_available(engine)) {
        state.SkipWithError("this machine cannot run the engine");
        return;
    }
    const auto matcher = make_matcher(pattern_set(patterns, limit), engine);
    const std::string& content = text(traffic);
    std::vector<Payload> payloads;
    for (size_t at = 0; at + bytes <= content.size(); at += bytes)
        payloads.push_back({reinterpret_cast<const uint8_t*>(content.data()) + at, bytes});
    PatternHits hits;
    uint64_t searched = 0;  // payloads
    uint64_t found = 0;
    for (auto _ : state) {
        found = 0;
        for (size_t first = 0; first < payloads.size(); first += scan) {
            const size_t count = std::min(scan, payloads.size() - first);
            matcher->scan(std::span(payloads).subspan(first, count), hits);
            for (size_t i = 0; i < count; ++i) found += hits[i].size();
        }
        searched += payloads.size();
    }
    state.counters["Gb/s"] = benchmark::Counter(static_cast<double>(searched * bytes) * 8e-9,
                                                benchmark::Counter::kIsRate);
    state.counters["payload"] = benchmark::Counter(static_cast<double>(searched),
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    state.counters["ids"] = static_cast<double>(found);
}

void build(benchmark::State& state) {
    const auto set = pattern_set("chain-bench/snort_rare.txt", 100000);
    for (auto _ : state) {
        PatternSet again(set->patterns());
        benchmark::DoNotOptimize(again.state_count());
    }
    state.SetLabel(set->summary());
}

}  // namespace

int main(int argc, char** argv) {
    const std::pair<const char*, Engine> engines[] = {
        {"hyperscan", Engine::hyperscan}, {"vector", Engine::vector}, {"scalar", Engine::scalar}};
    for (const char* traffic : {"http", "pcap"}) {
        for (const size_t limit : {30, 100, 300, 1000, 100000}) {
            for (const uint32_t bytes : {64u, 512u, 1460u}) {
                for (const auto& [name, engine] : engines) {
                    const std::string patterns = limit > 3000 ? "snort_rare" : "snort_rare_" + std::to_string(limit);
                    const std::string full = patterns + "/" + traffic + "/" + std::to_string(bytes) + "/" + name;
                    const std::string file = std::string("chain-bench/") + traffic + ".bin.xz";
                    const Engine chosen = engine;
                    benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
                        search(state, chosen, "chain-bench/snort_rare.txt", limit, file, bytes, 256);
                    })->Unit(benchmark::kMillisecond);
                }
            }
        }
    }
    for (const uint32_t bytes : {64u, 512u, 1460u}) {
        for (const size_t scan : {1, 4, 16, 64}) {
            for (const auto& [name, engine] : engines) {
                const std::string full = "scans_of_" + std::to_string(scan) + "/http/" + std::to_string(bytes) + "/" +
                                         name;
                const Engine chosen = engine;
                benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
                    search(state, chosen, "chain-bench/snort_rare.txt", 100000, "chain-bench/http.bin.xz", bytes, scan);
                })->Unit(benchmark::kMillisecond);
            }
        }
    }
    benchmark::RegisterBenchmark("build/snort_rare", build)->Unit(benchmark::kMillisecond);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}
