// millrace run: brings a configuration to work and shows what it does.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/offload_arguments.hpp"
#include "millrace/cli/report_text.hpp"
#include "millrace/cli/table.hpp"
#include "millrace/exec/report.hpp"
#include "millrace/openflow/agent.hpp"

namespace millrace::cli {
namespace {

volatile std::sig_atomic_t stop_asked = 0;
volatile std::sig_atomic_t reload_asked = 0;

struct RunArguments {
    LoadArguments load;
    exec::RuntimeOptions runtime;
    std::string json_file;
    OffloadArguments offload;
    double seconds = 0;
    bool quiet = false;
};

void add_options(CLI::App& command, RunArguments& arguments) {
    arguments.load.add_to(command);
    command.add_option("-w,--workers", arguments.runtime.workers, "Worker threads, one for each device unless given; each receives, runs and sends")->check(CLI::Range(1, 256));
    command.add_option("--cores", arguments.runtime.cores, "Pin the workers to these cores, in order")->delimiter(',')->type_name("N,N,…");
    command.add_option("--verdicts", arguments.runtime.verdict_file, "Write one JSON line per packet: what each NF decided, and why")->type_name("FILE");
    command.add_option("--timeline", arguments.runtime.timeline_file, "Write when each batch was gathered, copied, run and applied, for ui.perfetto.dev")->type_name("FILE");
    command.add_option("--json", arguments.json_file, "Write the closing table as JSON")->type_name("FILE");
    command.add_option("--for", arguments.seconds, "Stop after this many seconds")->type_name("SECONDS")->check(CLI::PositiveNumber);
    arguments.offload.add_to(command);
    command.add_option("--keep-kernels", arguments.runtime.keep_kernels, "Write source, PTX and cubin of every chain into this folder (device cuda)")->option_text("DIR");
    command.add_flag("-q,--quiet", arguments.quiet, "No progress and no closing table");
    command.footer("SIGINT and SIGTERM end the run in order; SIGHUP reads the configuration again without losing a packet.");
}

exec::RuntimeOptions runtime_options(const RunArguments& arguments) {
    exec::RuntimeOptions options = arguments.runtime;
    options.cpu = arguments.offload.cpu_options();
    options.offload = arguments.offload.options();
    options.threading = arguments.offload.threads();
    return options;
}

/// A bar on a terminal; on anything else a line every five seconds.
class Progress {
public:
    explicit Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

    void show(const exec::Runtime& runtime, double seconds, bool last = false) {
        if (quiet_ || (seconds < next_ && !(last && terminal_))) return;
        next_ = seconds + (terminal_ ? 0.1 : 5);
        uint64_t packets = 0, bytes = 0;
        for (const auto& port : runtime.ports()) {
            packets += port->counters().received_packets;
            bytes += port->counters().received_bytes;
        }
        const double progress = runtime.progress();
        const std::string bar = progress >= 0 ? progress_bar(progress) : "";
        const std::string rate = seconds > 0 ? bit_rate(static_cast<double>(bytes) * 8 / seconds) : "";
        std::cerr << (terminal_ ? "\r" : "") << bar << grouped(packets) << " packets  " << rate << (terminal_ ? "\x1b[K" : "\n") << std::flush;
        shown_ = true;
    }
    void end() const {
        if (shown_ && terminal_) std::cerr << "\n";
    }

private:
    bool quiet_, terminal_, shown_ = false;
    double next_ = terminal_ ? 0.1 : 5;
};

void reload(exec::Runtime& runtime, openflow::Agents& agents, const RunArguments& arguments) {
    try {
        runtime.reload(arguments.load.options());
        std::cerr << "\nmillrace: generation " << runtime.configuration()->generation << " is at work\n";
    } catch (const std::exception& e) {
        std::cerr << "\n" << e.what() << "\nmillrace: nothing was changed\n";
        return;
    }
    try {
        agents.follow();
    } catch (const std::exception& e) {
        std::cerr << "\n" << e.what() << "\nmillrace: that controller is left out\n";
    }
}

int run(const RunArguments& arguments) {
    chain::Configuration configuration = arguments.load.load();
    std::filesystem::create_directories(configuration.output_folder);
    const std::string output = configuration.output_folder;
    exec::Runtime runtime(std::move(configuration), runtime_options(arguments));

    std::signal(SIGINT, [](int) { stop_asked = 1; });
    std::signal(SIGTERM, [](int) { stop_asked = 1; });
    std::signal(SIGHUP, [](int) { reload_asked = 1; });
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    auto agents = std::make_unique<openflow::Agents>(runtime);
    agents->follow();
    runtime.start();
    Progress progress(arguments.quiet);
    // A controller waits for its changes; whoever appends to a file does not.
    const auto pause = [&] { return std::chrono::milliseconds(agents->any() ? 1 : 10); };
    for (bool changed = false; !runtime.wait(changed ? std::chrono::milliseconds(0) : pause());) {
        changed = runtime.apply_changes();
        progress.show(runtime, elapsed());
        if (stop_asked != 0 || (arguments.seconds > 0 && elapsed() >= arguments.seconds)) runtime.stop();
        if (reload_asked != 0) {
            reload_asked = 0;
            reload(runtime, *agents, arguments);
        }
    }
    const double seconds = elapsed();
    agents.reset();
    progress.show(runtime, seconds, true);
    progress.end();
    runtime.finish();

    const exec::Report report = exec::make_report(runtime);
    if (!arguments.quiet) std::cout << report_text(report, seconds) << "Output is in " << output << "/\n";
    if (!arguments.json_file.empty()) {
        std::ofstream json(arguments.json_file);
        json << exec::report_json(report, seconds) << "\n";
        if (!json.flush()) throw std::runtime_error(arguments.json_file + ": can't be written");
    }
    if (!runtime.trouble().empty()) throw std::runtime_error(runtime.trouble());
    if (!report.conserved()) {
        std::cerr << "millrace: the counters do not add up: packets were lost without a reason\n";
        return kFailed;
    }
    return kOk;
}

}  // namespace

void add_run(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("run", "Run a configuration over its ports");
    const auto arguments = std::make_shared<RunArguments>();
    add_options(*command, *arguments);
    command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace millrace::cli
