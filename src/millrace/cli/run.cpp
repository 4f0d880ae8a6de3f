// millrace run: brings a configuration to work and shows what it does.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>

#include "millrace/nftest/checked_run.hpp"
#include "millrace/chain/frames/whole_frames.hpp"
#include "millrace/base/files/file_ledger.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/cli/commands.hpp"
#include "millrace/cli/process/output_files.hpp"
#include "millrace/cli/text/offload_text.hpp"
#include "millrace/cli/text/progress.hpp"
#include "millrace/cli/text/report_text.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/signals.hpp"
#include "millrace/cli/text/table.hpp"
#include "millrace/cli/explain/explain_promises.hpp"
#include "millrace/device/cuda/driver.hpp"
#include "millrace/exec/promises/promise_watch.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/openflow/agent.hpp"
#include "millrace/show/answers.hpp"
#include "millrace/show/server.hpp"
#include "millrace/tenancy/manager/manager.hpp"

namespace millrace::cli {
namespace {

struct RunArguments {
    LoadArguments load;
    exec::RuntimeOptions runtime;
    std::string json_file;
    std::string mode = "fused";
    double seconds = 0;
    std::string socket;
    bool no_socket = false;
    bool quiet = false;
    bool checked = false;
};

void add_options(CLI::App& command, RunArguments& arguments) {
    arguments.load.add_to(command);
    command
        .add_option("-w,--workers", arguments.runtime.workers,
                    "Worker threads, one for each device unless given; each receives, runs and sends")
        ->check(CLI::Range(1, 256));
    command.add_option("--cores", arguments.runtime.cores, "Pin the workers to these cores, in order")
        ->delimiter(',')
        ->type_name("N,N,…");
    command
        .add_option("--verdicts", arguments.runtime.verdict_file,
                    "Write one JSON line per packet: what each NF decided, and why")
        ->type_name("FILE");
    command
        .add_option("--timeline", arguments.runtime.timeline_file,
                    "Write when each batch was gathered, copied, run and applied, for ui.perfetto.dev")
        ->type_name("FILE");
    command.add_option("--json", arguments.json_file, "Write the closing table as JSON")->type_name("FILE");
    command.add_option("--for", arguments.seconds, "Stop after this many seconds")
        ->type_name("SECONDS")
        ->check(positive_number());
    command
        .add_option("--mode", arguments.mode,
                    "How a device runs chains: batch by batch, or by kernels that stay on it, for short delays")
        ->check(CLI::IsMember({name_of(device::Mode::fused), name_of(device::Mode::persistent)}))
        ->capture_default_str();
    command.add_flag("--call-thread", arguments.runtime.offload.calls_by_thread,
                     "One more thread for each device makes the calls of its driver for all workers");
    command.add_flag("--checked", arguments.checked,
                     "Run the chains on sim, and hold each network function to what it declares");
    auto* const socket = command
                             .add_option("--socket", arguments.socket,
                                         "Answer to 'millrace show' there, whatever the file says")
                             ->type_name("PATH");
    command.add_flag("--no-socket", arguments.no_socket, "Answer to nobody")->excludes(socket);
    command.add_flag("-q,--quiet", arguments.quiet, "No progress and no closing table");
    command.footer(
        "SIGINT and SIGTERM end the run in order; SIGHUP reads the configuration again without losing a packet.");
}

exec::RuntimeOptions runtime_options(const RunArguments& arguments) {
    exec::RuntimeOptions options = arguments.runtime;
    options.warn = [](const Diagnostic& warning) { std::cerr << warning.render() << "\n"; };
    if (arguments.mode == name_of(device::Mode::persistent)) {
        options.offload.mode = device::Mode::persistent;
        device::cuda::Driver::expect_residents();
    }
    return options;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void show_progress(Progress& progress, const exec::Runtime& runtime, double seconds) {
    uint64_t packets = 0, bytes = 0;
    for (const auto& port : runtime.ports()) {
        const io::PortCounters counters = port->counters();
        packets += counters.received_packets;
        bytes += counters.received_bytes;
    }
    progress.show(packets, bytes, runtime.progress(), seconds);
}

/// Warnings and errors, as they come: quiet or not. False when there are errors.
bool tell_news(exec::Runtime& runtime, Progress& progress) {
    bool good = true;
    for (const Diagnostic& diagnostic : runtime.news()) {
        progress.end();
        std::cerr << diagnostic.render() << "\n";
        good = good && diagnostic.severity == Diagnostic::Severity::warning;
    }
    return good;
}

/// Loading may take long; a stop ends it.
chain::LoadOptions load_options(const RunArguments& arguments) {
    chain::LoadOptions options = arguments.load.options();
    options.live = true;
    options.progress = [](const std::string&, size_t, size_t) {
        if (stop_asked()) throw Stopped{};
    };
    return options;
}

constexpr const char* kNoSocket = "none";

/// Where a run answers; asked for by name it must be there, else others may be first.
std::unique_ptr<show::Server> open_socket(const exec::Runtime& runtime, const exec::PromiseWatch& promises,
                                          const RunArguments& arguments) {
    const auto configuration = runtime.configuration();
    const std::string& asked = !arguments.socket.empty() ? arguments.socket : configuration->socket;
    if (arguments.no_socket || asked == kNoSocket) return nullptr;
    const auto start = std::chrono::steady_clock::now();
    const auto answer = [&runtime, &promises, start](std::string_view request) {
        return show::answer(runtime, request, seconds_since(start), &promises);
    };
    if (!asked.empty()) return std::make_unique<show::Server>(asked, answer, show::refusal);
    try {
        return std::make_unique<show::Server>(configuration->output_folder + "/millrace.sock", answer, show::refusal);
    } catch (const std::runtime_error& e) {
        std::cerr << "millrace: " << e.what()
                  << "; 'millrace show' can't ask this run: give it a --socket of its own\n";
        return nullptr;
    }
}

void reload(exec::Runtime& runtime, openflow::Agents& agents, const RunArguments& arguments, Progress& progress) {
    progress.end();
    const std::string socket = runtime.configuration()->socket;
    try {
        runtime.reload(load_options(arguments));
        tell_news(runtime, progress);
        if (arguments.socket.empty() && runtime.configuration()->socket != socket)
            std::cerr << "millrace: the socket stays where it is until the run ends\n";
        std::cerr << "millrace: generation " << runtime.configuration()->generation << " is at work\n";
    } catch (const std::exception& e) {
        std::cerr << e.what() << "\nmillrace: nothing was changed\n";
        return;
    } catch (const Stopped&) {
        return;
    }
    try {
        agents.follow();
    } catch (const std::exception& e) {
        std::cerr << e.what() << "\nmillrace: that controller is left out\n";
    }
}

/// Lets the runtime work until its inputs end or somebody ends it; returns the seconds that it worked.
double work(exec::Runtime& runtime, exec::PromiseWatch& promises, const RunArguments& arguments, Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    openflow::Agents agents(runtime);
    agents.follow();
    const auto socket = open_socket(runtime, promises, arguments);
    promises.update(exec::PromiseWatch::Clock::now());
    runtime.start();
    // Changes of files; what a controller asks for its agent brings in.
    while (!runtime.wait(std::chrono::milliseconds(10))) {
        agents.watch_links();
        runtime.apply_changes();
        runtime.tend();
        try {
            promises.update(exec::PromiseWatch::Clock::now());
        } catch (const std::exception& e) {
            // Of a plan that a device has no room for, nothing has come in; packets go on without it.
            progress.end();
            std::cerr << "millrace: batches stay as they are: " << e.what() << "\n";
        }
        const double seconds = seconds_since(start);
        if (!arguments.quiet && progress.due(seconds)) show_progress(progress, runtime, seconds);
        tell_news(runtime, progress);
        if (stop_asked() || (arguments.seconds > 0 && seconds >= arguments.seconds)) runtime.stop();
        if (!take_reload()) continue;
        if (arguments.checked) std::cerr << "millrace: --checked: the configuration is not read again\n";
        else reload(runtime, agents, arguments, progress);
    }
    return seconds_since(start);
}

/// The closing table and the same as JSON; false when one of them could not be written.
bool write_report(const exec::Report& report, double seconds, const std::string& output,
                  const RunArguments& arguments) {
    bool good = true;
    if (!arguments.json_file.empty()) {
        try {
            WholeFile json(arguments.json_file);
            json.stream() << exec::report_json(report, seconds) << "\n";
            json.finish();
        } catch (const std::exception& e) {
            std::cerr << "millrace: " << e.what() << "\n";
            good = false;
        }
    }
    if (arguments.quiet) return good;
    std::cout << report_text(report, seconds) << "Output is in " << output << "/\n" << std::flush;
    if (!std::cout) std::cerr << "millrace: the closing table could not be written to the standard output\n";
    return good && std::cout;
}

/// Makes the arguments those of a checked run, or says why they can't be.
void prepare_checked(RunArguments& arguments) {
    if (!arguments.checked) return;
    if (!arguments.load.device.empty() && arguments.load.device != "sim")
        throw CLI::ValidationError("--checked", "runs chains on sim, and not on " + arguments.load.device);
    if (arguments.runtime.workers > 1) throw CLI::ValidationError("--checked", "runs chains by one worker");
    if (arguments.mode != name_of(device::Mode::fused) || arguments.runtime.offload.calls_by_thread)
        throw CLI::ValidationError("--checked", "goes without --mode and --call-thread");
    arguments.load.device = "sim";
    arguments.runtime.workers = 1;
}

/// Tells what a checked run has found; false if that is anything.
bool tell_findings(nftest::CheckedRun& checked) {
    const std::vector<Diagnostic> findings = checked.findings();
    for (const Diagnostic& finding : findings) std::cerr << finding.render() << "\n";
    std::cerr << "millrace: --checked: " << grouped(checked.packets()) << " times a function got a packet, ";
    if (findings.empty()) std::cerr << "and kept to what it declares\n";
    else std::cerr << findings.size() << (findings.size() == 1 ? " finding\n" : " findings\n");
    return findings.empty();
}

int run(RunArguments arguments) {
    const RunGuard guard({.otherwise = kLiveMakingPatience});
    prepare_checked(arguments);
    chain::Configuration configuration = arguments.load.load(load_options(arguments));
    note_outputs(*configuration.files,
                 {{"--json", arguments.json_file},
                  {"--verdicts", arguments.runtime.verdict_file},
                  {"--timeline", arguments.runtime.timeline_file}},
                 configuration.output_folder);
    if (!arguments.socket.empty())
        configuration.files->note(FileLedger::Use::write, arguments.socket, {"--socket", 0, 0});
    const std::string output = configuration.output_folder;
    exec::RuntimeOptions options = runtime_options(arguments);
    // By this number and that of devices the runtime settles how many there are.
    const unsigned workers = workers_of(configuration, arguments.runtime.workers);
    if (const size_t cores = arguments.runtime.cores.size(); cores > workers)
        throw CLI::ValidationError("--cores", fmt::format("{} cores for {} worker{}; --workers says how many there are",
                                                          cores, workers, workers == 1 ? "" : "s"));
    planned(configuration, workers);
    // Nothing is made for what is refused. Warnings come when ports are opened.
    if (!std::filesystem::exists(output)) check_ports(configuration, [](const Diagnostic&) {});
    std::filesystem::create_directories(output);
    const auto profile = known_profile(configuration);
    nftest::CheckedRun checked(output + "/checked.pcap");
    if (arguments.checked) {
        configuration.files->note(FileLedger::Use::write, output + "/checked.pcap", {"--checked", 0, 0});
        configuration = chain::with_whole_frames(std::move(configuration));
        options.devices = {checked.device()};
    }
    const auto manager = std::make_shared<tenancy::Manager>(workers, profile);
    options.tenants = manager;
    // Asked for each configuration that is read again; who is attached then stays.
    options.admit = [manager, workers](const chain::Configuration& next) {
        planned(next, workers, manager->on_device());
    };
    exec::Runtime runtime(std::move(configuration), std::move(options));
    if (stop_asked()) throw Stopped{};
    if (!arguments.quiet) std::cerr << offload_text(*runtime.configuration()->ports, false);

    Progress progress(std::cerr, isatty(STDERR_FILENO) != 0);
    exec::PromiseWatch promises(runtime, profile);
    const double seconds = work(runtime, promises, arguments, progress);
    if (!arguments.quiet && isatty(STDERR_FILENO) != 0) show_progress(progress, runtime, seconds);
    progress.end();
    runtime.finish();
    bool good = tell_news(runtime, progress);
    exec::Report report = exec::make_report(runtime);
    promises.add_to(report);
    good = runtime.trouble().empty() && good;
    good = write_report(report, seconds, output, arguments) && good;
    const std::string failures = failures_text(report);
    std::cerr << failures;
    good = failures.empty() && good;
    if (arguments.checked) good = tell_findings(checked) && good;
    return good ? kOk : kFailed;
}

}  // namespace

void add_run(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("run", "Run a configuration over its ports");
    const auto arguments = std::make_shared<RunArguments>();
    add_options(*command, *arguments);
    command->callback([arguments, &status] {
        try {
            status = run(*arguments);
        } catch (const Stopped&) {
            std::cerr << "millrace: stopped before it began to work\n";
        }
    });
}

}  // namespace millrace::cli
