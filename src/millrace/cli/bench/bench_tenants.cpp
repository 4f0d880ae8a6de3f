// millrace bench tenants: what functions of tenants cost, in processes of their own, and what they get.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "lab/tenants/mischief.hpp"
#include "lab/tenants/tenant_bench.hpp"
#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/process/output_files.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/scratch_folder.hpp"
#include "millrace/cli/process/child.hpp"

namespace millrace::cli {
namespace {

/// This program again, in a process of its own.
class OwnProcess : public lab::StartedProcess {
public:
    OwnProcess(std::vector<std::string> words, const std::string& output)
        : child_(with_name(std::move(words)), output) {}
    void send(int signal) override { child_.send(signal); }

private:
    static std::vector<std::string> with_name(std::vector<std::string> words) {
        words.insert(words.begin(), "/proc/self/exe");
        return words;
    }
    Child child_;
};

struct TenantsArguments {
    lab::TenantBenchOptions bench;
    std::vector<std::string> only;
    std::string functions, json_file;
};

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    for (size_t from = 0; from <= text.size();) {
        const size_t end = std::min(text.find('+', from), text.size());
        words.push_back(text.substr(from, end - from));
        from = end + 1;
    }
    return words;
}

void print(const lab::TenantFigure& figure) {
    std::string with;
    if (figure.with.contains("frame")) with = fmt::format(" ({} B)", figure.with["frame"].get<uint32_t>());
    std::cout << fmt::format("{:8} {:62} {:>12.4g} {}\n", figure.part, figure.name + with, figure.value, figure.unit)
              << std::flush;
}

int bench_tenants(TenantsArguments arguments) {
    note_outputs({{"--json", arguments.json_file}});
    const ScratchFolder scratch;
    const RunGuard guard({.before_end = [&] { scratch.remove(); }});
    lab::TenantBenchOptions& options = arguments.bench;
    options.scratch = scratch.path();
    options.only = {arguments.only.begin(), arguments.only.end()};
    if (!arguments.functions.empty()) options.functions = words_of(arguments.functions);
    options.start = [](const std::vector<std::string>& words, const std::string& output) {
        return std::make_unique<OwnProcess>(words, output);
    };
    options.progress = show_progress;
    options.stopped = stop_on_signals();
    lab::TenantBench bench(options, print);
    const nlohmann::json made = bench.run();
    if (!arguments.json_file.empty()) write_json(arguments.json_file, made);
    for (const std::string& mistake : bench.mistakes()) std::cout << "WRONG: " << mistake << "\n";
    if (made["stopped"]) std::cout << "stopped before its end: what was measured until then is told\n";
    else if (!made["complete"])
        std::cout << "not all of it found time in " << options.seconds << " seconds: see --seconds\n";
    return bench.mistakes().empty() && !made["stopped"] ? kOk : kFailed;
}

/// Not for people: a process that the benchmark starts.
void add_mischief(CLI::App& bench) {
    CLI::App* command = bench.add_subcommand("mischief", "A tenant that misbehaves");
    command->group("");
    const auto words = std::make_shared<std::array<std::string, 3>>();
    command->add_option("what", (*words)[0])->required();
    command->add_option("--manager", (*words)[1])->required();
    command->add_option("--name", (*words)[2])->required();
    command->callback([words] { lab::misbehave((*words)[0], (*words)[1], (*words)[2]); });
}

}  // namespace

void add_bench_tenants(CLI::App& bench, int& status) {
    CLI::App* command = bench.add_subcommand(
        "tenants", "Functions of tenants in processes of their own: what they cost, and what they get");
    const auto arguments = std::make_shared<TenantsArguments>();
    lab::TenantBenchOptions& options = arguments->bench;
    command->add_option("-d,--device", options.device, "The device that they share: cuda, cuda:1, sim, cpu")
        ->check(device_check())
        ->type_name("DEVICE")
        ->capture_default_str();
    command
        ->add_option("--only", arguments->only,
                     "Of these parts: four functions against one domain, a batch, the fence, a victim's latency, a "
                     "process that is killed, promises of mixes")
        ->delimiter(',')
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(lab::kTenantParts), std::end(lab::kTenantParts))));
    command->add_option("--chain", arguments->functions, "The functions: firewall, router, mirror")
        ->default_str("firewall+router+mirror+firewall")
        ->type_name("NF+NF…");
    command->add_option("--sizes", options.frames, "Frames in bytes, without CRC")
        ->delimiter(',')
        ->check(CLI::Range(64u, 1518u))
        ->type_name("BYTES,…")
        ->capture_default_str();
    command->add_option("-w,--workers", options.workers, "Worker threads")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    command->add_option("--cores", options.cores, "Pin the workers to these cores, in order")
        ->delimiter(',')
        ->type_name("N,N,…");
    command->add_flag("--call-thread", options.call_thread,
                      "One more thread makes the calls of the device's driver for all workers");
    command->add_option("--seconds", options.seconds, "Seconds for all; what does not fit is left out, and told")
        ->check(positive_number())
        ->capture_default_str();
    command->add_option("--mixes", options.mixes, "Random mixes of promises")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    command->add_option("--kills", options.kills, "How often a tenant is killed")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command->add_option("--seed", options.seed, "Of the mixes, rules and routes")->capture_default_str();
    command->add_option("--rules", options.rules, "Of a firewall")
        ->check(CLI::Range(1, 100'000))
        ->capture_default_str();
    command->add_option("--routes", options.routes, "Of a router")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    command->add_option("--json", arguments->json_file, "Write figures, scenes and mixes as JSON")->type_name("FILE");
    command->callback([arguments, &status] { status = bench_tenants(*arguments); });
    add_mischief(bench);
}

}  // namespace millrace::cli
