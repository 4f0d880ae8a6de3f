// What the framework costs: the example chain on one core of the cpu device against a bare loop around the same
// libraries, over the same packets, in turns. docs/benchmarks/framework.md has the figures and what they mean.
//
//     taskset -c 1 framework_bench [--seconds N] [--frame BYTES] [--json FILE] [--check]
//
// With --threads N: bare loops alone, on N cores at once, over published rules and routes (those of `millrace bench
// chain`) where there are any: the most that the CPU makes of the chain. The JSON can be drawn together with that of
// millrace bench. With --batches N: what a packet costs N workers whose batches go through a device that takes no time.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "measure.hpp"
#include "millrace/base/eal.hpp"
#include "lab/machine.hpp"
#include "offload_path.hpp"
#include "concurrent.hpp"

namespace {

using namespace millrace;
using namespace millrace::lab;

struct Arguments {
    double seconds = 4;        ///< for each frame length
    uint32_t frame_bytes = 0;  ///< 0: all lengths
    std::string json_file;
    unsigned threads = 0;        ///< of bare loops, concurrently; 0: chain and bare loop in turns
    unsigned first_core = 0;     ///< of theirs
    unsigned batch_workers = 0;  ///< whose batches go through a device that takes no time; 0: chain and bare loop in
                                 ///< turns
    uint32_t batch_packets = 0;  ///< of these batches; 0: several sizes, and several numbers of buffers
    std::string layout;          ///< of their frames: buffers or contiguous; empty: both
    unsigned repeat = 1;         ///< how often each is measured: the least counts
    bool check = false;          ///< briefly, and judge
};

/// The goal is 0.9, and a quiet machine gives 0.93 and more (see docs/benchmarks/framework.md). A short run on shared
/// cores is good for a tenth: so this tells a path that broke or got much slower, not one that lost a percent.
constexpr double kLowestRatioInCheck = 0.75;

Arguments parse_arguments(int argc, char** argv) {
    Arguments arguments;
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--check") arguments.check = true, arguments.seconds = 0.3;
        else if (option == "--seconds" && i + 1 < argc) arguments.seconds = std::atof(argv[++i]);
        else if (option == "--frame" && i + 1 < argc)
            arguments.frame_bytes = static_cast<uint32_t>(std::atoi(argv[++i]));
        else if (option == "--threads" && i + 1 < argc) arguments.threads = static_cast<unsigned>(std::atoi(argv[++i]));
        else if (option == "--batches" && i + 1 < argc)
            arguments.batch_workers = static_cast<unsigned>(std::atoi(argv[++i]));
        else if (option == "--batch-packets" && i + 1 < argc)
            arguments.batch_packets = static_cast<uint32_t>(std::atoi(argv[++i]));
        else if (option == "--layout" && i + 1 < argc) arguments.layout = argv[++i];
        else if (option == "--repeat" && i + 1 < argc)
            arguments.repeat = static_cast<unsigned>(std::max(std::atoi(argv[++i]), 1));
        else if (option == "--first-core" && i + 1 < argc)
            arguments.first_core = static_cast<unsigned>(std::atoi(argv[++i]));
        else if (option == "--json" && i + 1 < argc) arguments.json_file = argv[++i];
        else
            throw std::runtime_error("unknown option " + option +
                                     "; there are --seconds N, --frame BYTES, --json FILE, --check, --threads N, "
                                     "--first-core N, --batches N, --batch-packets N, --layout L, "
                                     "--repeat N");
    }
    return arguments;
}

/// A folder that goes when the program ends.
class ScratchFolder {
public:
    ScratchFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "millrace-bench-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~ScratchFolder() { std::filesystem::remove_all(path_); }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

double rate(double cycles) { return tsc_hz() / cycles; }
double gbps(double cycles, uint32_t frame_bytes) { return rate(cycles) * frame_bytes * 8e-9; }

nlohmann::json json_of(const Cost& cost, uint32_t frame_bytes) {
    nlohmann::json stages = nlohmann::json::object();
    for (const auto& [name, cycles] : cost.stages) stages[name] = cycles;
    return {{"cycles-per-packet", cost.best_cycles},
            {"median-cycles-per-packet", cost.median_cycles},
            {"packets-per-second", rate(cost.best_cycles)},
            {"gbps", gbps(cost.best_cycles, frame_bytes)},
            {"stage-cycles-per-packet", stages}};
}

void print(const AgainstBareLoop& c) {
    static bool first = true;
    if (std::exchange(first, false))
        std::cout << "frame        chain                         bare loop                     ratio   (median)\n";
    if (!c.difference.empty()) {
        std::cout << fmt::format("{:4} B  DIFFERENT: {}\n", c.frame_bytes, c.difference);
        return;
    }
    const auto side = [&](const Cost& cost) {
        return fmt::format("{:6.2f} Mpkt/s {:5.2f} Gb/s {:6.0f} c", rate(cost.best_cycles) * 1e-6,
                           gbps(cost.best_cycles, c.frame_bytes), cost.best_cycles);
    };
    std::cout << fmt::format("{:4} B  {}  {}  {:5.3f}  ({:5.3f})  {} slices; {} of {} frames sent, equal\n",
                             c.frame_bytes, side(c.chain), side(c.bare), c.ratio, c.median_ratio, c.slices,
                             c.compared_out, c.compared_in);
    for (const Cost* cost : {&c.chain, &c.bare}) {
        std::cout << (cost == &c.chain ? "          chain:" : "          bare: ");
        for (const auto& [name, cycles] : cost->stages) std::cout << fmt::format("  {} {:.0f}", name, cycles);
        std::cout << "\n";
    }
    std::cout << std::flush;
}

/// A folder that the environment names, else the build's.
std::string folder(const char* variable, const char* otherwise) {
    const char* named = std::getenv(variable);
    return named != nullptr ? named : otherwise;
}

void write_json(const Arguments& arguments, const nlohmann::json& content) {
    if (arguments.json_file.empty()) return;
    nlohmann::json whole = provenance();
    whole.update(content);
    std::ofstream out(arguments.json_file);
    out << whole.dump(1) << "\n";
    if (!out.flush()) throw std::runtime_error(arguments.json_file + ": can't be written");
}

int run_contiguous(const Arguments& arguments) {
    const ScratchFolder scratch;
    start_eal();
    const Workload workload = make_workload(
        {.data = folder("MILLRACE_DATA", MILLRACE_DATA_DEFAULT), .scratch = scratch.path()});
    nlohmann::json results = nlohmann::json::array();
    for (const std::string size : {"64", "128", "256", "512", "1024", "1518", "imix"}) {
        if (arguments.frame_bytes != 0 && size != std::to_string(arguments.frame_bytes)) continue;
        const Concurrent all = measure_concurrent(workload, {.size = size}, arguments.threads, arguments.first_core,
                                                  arguments.seconds);
        const double gbps = all.packets_per_second * all.frame_bytes * 8e-9;
        std::cout << fmt::format("{:>4}  {:7.2f} Mpkt/s  {:6.2f} Gb/s on {} cores\n", size,
                                 all.packets_per_second * 1e-6, gbps, arguments.threads)
                  << std::flush;
        results.push_back({{"chain", "firewall+nids+router+ipsec"},
                           {"device", "bare loop"},
                           {"workers", arguments.threads},
                           {"traffic", size},
                           {"packets-per-second", all.packets_per_second},
                           {"gbps", gbps},
                           {"frame-bytes-in", all.frame_bytes}});
    }
    write_json(arguments, {{"inputs",
                            {{"firewall", workload.rules_name},
                             {"nids", workload.pattern_name},
                             {"router", workload.route_name},
                             {"payload", workload.payload_name}}},
                           {"results", results}});
    return 0;
}

int run_batches(const Arguments& arguments) {
    start_eal();
    nlohmann::json results = nlohmann::json::array();
    std::vector<uint32_t> batches{1024, 2048, 4096, 8192};
    if (arguments.batch_packets != 0) batches = {arguments.batch_packets};
    for (const std::string& size : {std::to_string(std::max(arguments.frame_bytes, 64u)), std::string("imix")})
        for (const uint32_t batch : batches)
            for (const uint32_t buffers : {6 * batch, 49152u})
                for (const bool contiguous : {false, true}) {
                    if (!arguments.layout.empty() && (arguments.layout == "contiguous") != contiguous) continue;
                    if (arguments.batch_packets != 0 && buffers != 6 * batch) continue;
                    const OffloadPath path{arguments.batch_workers, size, batch, buffers, contiguous,
                                           arguments.seconds / 16};
                    std::vector<double> measured;
                    for (unsigned i = 0; i < arguments.repeat; ++i) measured.push_back(measure_offload_path(path));
                    std::sort(measured.begin(), measured.end());
                    const double cycles = measured.front(), median = measured[measured.size() / 2];
                    std::cout << fmt::format(
                                     "{:>4}, batches of {:5}, {:6} {:17}, {} workers: {:5.1f} cycles a packet, "
                                     "median {:5.1f}\n",
                                     size, batch, buffers, contiguous ? "contiguous frames" : "buffers", path.workers,
                                     cycles, median)
                              << std::flush;
                    results.push_back({{"traffic", size},
                                       {"batch", batch},
                                       {"buffers", buffers},
                                       {"layout", contiguous ? "contiguous" : "buffers"},
                                       {"workers", path.workers},
                                       {"cycles-per-packet", cycles},
                                       {"median-cycles-per-packet", median}});
                }
    write_json(arguments, {{"results", results}});
    return 0;
}

int run(const Arguments& arguments) {
    if (arguments.batch_workers != 0) return run_batches(arguments);
    if (arguments.threads != 0) return run_contiguous(arguments);
    const ScratchFolder scratch;
    start_eal();
    const Workload workload = make_workload(
        {.data = folder("MILLRACE_DATA", MILLRACE_DATA_DEFAULT),
         .examples = folder("MILLRACE_SOURCE", MILLRACE_SOURCE_DEFAULT) + "/examples",
         .scratch = scratch.path(),
         .flows = 4096});
    std::cout << workload.pattern_name << ", " << workload.payload_name << "\n";
    nlohmann::json sizes = nlohmann::json::array(), empty = nlohmann::json::array();
    bool sound = true;
    std::vector<uint32_t> lengths{64, 128, 256, 512, 1024, 1518};
    if (arguments.check) lengths = {64, 512, 1518};
    if (arguments.frame_bytes != 0) lengths = {arguments.frame_bytes};
    for (const uint32_t bytes : lengths) {
        const AgainstBareLoop c = compare(workload, bytes, arguments.seconds);
        print(c);
        sound &= c.difference.empty() && (!arguments.check || std::max(c.ratio, c.median_ratio) >= kLowestRatioInCheck);
        sizes.push_back({{"frame-bytes", bytes},
                         {"chain", json_of(c.chain, bytes)},
                         {"bare", json_of(c.bare, bytes)},
                         {"ratio", c.ratio},
                         {"median-ratio", c.median_ratio},
                         {"slices", c.slices},
                         {"frames-in", c.compared_in},
                         {"frames-equal", c.compared_out},
                         {"difference", c.difference}});
    }
    for (const uint16_t burst : {uint16_t{32}, uint16_t{64}, uint16_t{256}}) {
        const EmptyPath path = measure_empty_path(workload, burst, arguments.seconds / 4);
        std::cout << fmt::format(
            "source -> sink, bursts of {:3}: {:5.1f} cycles a packet (median {:.1f}), {:.1f} Mpkt/s\n", burst,
            path.cost.best_cycles, path.cost.median_cycles, rate(path.cost.best_cycles) * 1e-6);
        nlohmann::json entry = json_of(path.cost, 64);
        entry["burst"] = burst;
        empty.push_back(std::move(entry));
    }
    write_json(arguments, {{"seconds-each", arguments.seconds},
                           {"patterns", workload.patterns.size()},
                           {"pattern-set", workload.pattern_name},
                           {"payload", workload.payload_name},
                           {"sizes", sizes},
                           {"empty-path", empty}});
    if (!sound)
        std::cout << "FAILED: the two sides differ, or the chain is below " << kLowestRatioInCheck
                  << " of the bare loop\n";
    return sound ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(parse_arguments(argc, argv));
    } catch (const std::exception& e) {
        std::cerr << "framework_bench: " << e.what() << "\n";
        return 2;
    }
}
