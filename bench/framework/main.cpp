// What the framework costs: the example chain on one core of the cpu device against a bare loop around the same
// libraries, over the same packets, in turns. docs/benchmarks/framework.md has the figures and what they mean.
//
//     taskset -c 1 framework_bench [--seconds N] [--frame BYTES] [--json FILE] [--commit TEXT] [--check]
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "measure.hpp"
#include "millrace/base/eal.hpp"

namespace {

using namespace millrace;
using namespace millrace::bench;

struct Arguments {
    double seconds = 4;         ///< for each frame length
    uint32_t frame_bytes = 0;   ///< 0: all lengths
    std::string json_file;
    std::string commit;         ///< noted in the file
    bool check = false;         ///< briefly, and judge
};

/// The goal is 0.9, and a quiet machine gives 0.93 and more (see docs/benchmarks/framework.md). A short run on shared cores is
/// good for a tenth: so this tells a path that broke or got much slower, not one that lost a percent.
constexpr double kLowestRatioInCheck = 0.75;

Arguments parse_arguments(int argc, char** argv) {
    Arguments arguments;
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--check") arguments.check = true, arguments.seconds = 0.3;
        else if (option == "--seconds" && i + 1 < argc) arguments.seconds = std::atof(argv[++i]);
        else if (option == "--frame" && i + 1 < argc) arguments.frame_bytes = static_cast<uint32_t>(std::atoi(argv[++i]));
        else if (option == "--commit" && i + 1 < argc) arguments.commit = argv[++i];
        else if (option == "--json" && i + 1 < argc) arguments.json_file = argv[++i];
        else throw std::runtime_error("unknown option " + option + "; there are --seconds N, --frame BYTES, --json FILE, --commit TEXT, --check");
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

std::string processor() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

/// Programs that want a core, this one among them, over the last minute.
double load_average() {
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[16];
    std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
    return text;
}

nlohmann::json json_of(const Cost& cost, uint32_t frame_bytes) {
    nlohmann::json stages = nlohmann::json::object();
    for (const auto& [name, cycles] : cost.stages) stages[name] = cycles;
    return {{"cycles-per-packet", cost.best_cycles},
            {"median-cycles-per-packet", cost.median_cycles},
            {"packets-per-second", rate(cost.best_cycles)},
            {"gbps", gbps(cost.best_cycles, frame_bytes)},
            {"stage-cycles-per-packet", stages}};
}

void print(const Comparison& c) {
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
    std::cout << fmt::format("{:4} B  {}  {}  {:5.3f}  ({:5.3f})  {} slices; {} of {} frames sent, equal\n", c.frame_bytes, side(c.chain),
                             side(c.bare), c.ratio, c.median_ratio, c.slices, c.compared_out, c.compared_in);
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

int run(const Arguments& arguments) {
    const ScratchFolder scratch;
    start_eal();
    const Workload workload = make_workload({.data = folder("MILLRACE_DATA", MILLRACE_DATA_DEFAULT),
                                             .examples = folder("MILLRACE_SOURCE", MILLRACE_SOURCE_DEFAULT) + "/examples",
                                             .scratch = scratch.path(),
                                             .flows = 4096});
    std::cout << workload.pattern_name << ", " << workload.payload_name << "\n";
    nlohmann::json sizes = nlohmann::json::array(), empty = nlohmann::json::array();
    bool sound = true;
    std::vector<uint32_t> lengths{64, 128, 256, 512, 1024, 1518};
    if (arguments.check) lengths = {64, 512, 1518};
    if (arguments.frame_bytes != 0) lengths = {arguments.frame_bytes};
    const double load_before = load_average();
    for (const uint32_t bytes : lengths) {
        const Comparison c = compare(workload, bytes, arguments.seconds);
        print(c);
        sound &= c.difference.empty() && (!arguments.check || std::max(c.ratio, c.median_ratio) >= kLowestRatioInCheck);
        sizes.push_back({{"frame-bytes", bytes}, {"chain", json_of(c.chain, bytes)}, {"bare", json_of(c.bare, bytes)},
                         {"ratio", c.ratio}, {"median-ratio", c.median_ratio}, {"slices", c.slices},
                         {"frames-in", c.compared_in}, {"frames-equal", c.compared_out}, {"difference", c.difference}});
    }
    for (const uint16_t burst : {uint16_t{32}, uint16_t{64}, uint16_t{256}}) {
        const EmptyPath path = measure_empty_path(workload, burst, arguments.seconds / 4);
        std::cout << fmt::format("source -> sink, bursts of {:3}: {:5.1f} cycles a packet (median {:.1f}), {:.1f} Mpkt/s\n", burst,
                                 path.cost.best_cycles, path.cost.median_cycles, rate(path.cost.best_cycles) * 1e-6);
        nlohmann::json entry = json_of(path.cost, 64);
        entry["burst"] = burst;
        empty.push_back(std::move(entry));
    }
    if (!arguments.json_file.empty()) {
        std::ofstream out(arguments.json_file);
        out << nlohmann::json{{"command", "make bench"}, {"date", today()}, {"commit", arguments.commit},
                              {"machine", {{"processor", processor()}, {"cores", std::thread::hardware_concurrency()}}},
                              {"load-average", {load_before, load_average()}}, {"seconds-each", arguments.seconds},
                              {"tsc-ghz", tsc_hz() * 1e-9}, {"patterns", workload.patterns.size()}, {"pattern-set", workload.pattern_name},
                              {"payload", workload.payload_name}, {"sizes", sizes}, {"empty-path", empty}}
                   .dump(1)
            << "\n";
        if (!out.flush()) throw std::runtime_error(arguments.json_file + ": can't be written");
    }
    if (!sound) std::cout << "FAILED: the two sides differ, or the chain is below " << kLowestRatioInCheck << " of the bare loop\n";
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
