// millrace check: finds every mistake in a configuration without opening a port.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/explain/explain_promises.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/text/offload_text.hpp"
#include "millrace/io/port.hpp"

namespace millrace::cli {
namespace {

/// The map `ports:` of a file that has other mistakes; nothing when it is not there, which loading has told.
std::optional<Config> find_ports(const std::string& file) {
    try {
        const auto ports = Config::load(file).find("ports");
        return ports && !ports->entries().empty() ? ports : std::nullopt;
    } catch (const ConfigError&) {
        return std::nullopt;
    }
}

/// Whether packets can leave by a port, as its options say.
bool can_send(const Config& port) {
    for (const char* kind : {"pcap", "capture", "source"})
        if (port.has(kind)) return port.has("output");
    return true;
}

/// What `run` would find when the ports are open: chains that send where nothing can leave.
void check_directions(const chain::Configuration& configuration) {
    const auto ports = configuration.ports->entries();
    for (const auto& program : configuration.chains)
        for (const uint16_t port : {program->output, program->punt_port})
            if (port != kNoPort && !can_send(ports[port].second))
                throw ConfigError(Diagnostic{program->where,
                                             "port '" + configuration.port_names[port] + "' can't send, and chain '" +
                                                 program->name + "' wants to send there",
                                             "give it an output, or name another port"});
}

/// What the network functions say of their tables: of as many as people read.
void tell_functions(const chain::Configuration& configuration) {
    constexpr size_t kMaxLines = 100;
    size_t lines = 0;
    for (const auto& program : configuration.chains)
        for (const chain::Node& node : program->nodes)
            if (const std::string summary = summary_of(*program, node); !summary.empty() && lines++ < kMaxLines)
                std::cout << "  " << program->name << "." << node.name << ": " << summary << "\n";
    if (lines > kMaxLines)
        std::cout << "  and " << lines - kMaxLines << " more network functions; 'millrace explain' shows all\n";
}

int check(const LoadArguments& arguments, bool load_plugins, unsigned workers) {
    const RunGuard guard;
    std::vector<Diagnostic> mistakes;
    const auto attempt = [&](const auto& what) {
        try {
            what();
        } catch (const ConfigError& e) {
            mistakes.insert(mistakes.end(), e.diagnostics().begin(), e.diagnostics().end());
        }
    };
    std::optional<chain::Configuration> configuration;
    chain::LoadOptions options = arguments.options();
    options.load_plugins = load_plugins;
    attempt([&] { configuration = arguments.load(options); });
    const auto warn = [](const Diagnostic& warning) { std::cerr << warning.render() << "\n"; };
    if (configuration) {
        attempt([&] { check_ports(*configuration, warn); });
        attempt([&] { planned(*configuration, workers_of(*configuration, workers)); });
    } else if (const auto ports = find_ports(arguments.file)) {
        // Mistakes of chains do not hide those of ports.
        io::PortEnvironment environment;
        environment.warn = warn;
        attempt([&] { io::check_ports(*ports, environment); });
    }
    if (!mistakes.empty()) throw ConfigError(mistakes);
    const auto chains = std::count_if(configuration->chains.begin(), configuration->chains.end(),
                                      [](const auto& program) { return program->name == program->whole; });
    std::cout << fmt::format("{}: {} chain{}, {} port{}, device {}: sound\n", arguments.file, chains,
                             chains == 1 ? "" : "s", configuration->port_names.size(),
                             configuration->port_names.size() == 1 ? "" : "s", configuration->device);
    std::cout << offload_text(*configuration->ports, true);
    tell_functions(*configuration);
    return kOk;
}

}  // namespace

void check_ports(const chain::Configuration& configuration, const std::function<void(const Diagnostic&)>& warn) {
    io::PortEnvironment environment;
    environment.output_folder = configuration.output_folder;
    environment.warn = warn;
    const FileLedger::Scope scope(*configuration.files);
    io::check_ports(*configuration.ports, environment);
    check_directions(configuration);
}

void add_check(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand(
        "check", "Check a configuration: every mistake with its place and what would mend it");
    const auto arguments = std::make_shared<LoadArguments>();
    const auto load_plugins = std::make_shared<bool>(false);
    arguments->add_to(*command);
    command->add_flag("--plugins", *load_plugins, "Load the plugins that the file names; their code runs");
    const auto workers = std::make_shared<unsigned>(0);
    command
        ->add_option("-w,--workers", *workers,
                     "Worker threads of the run, as it would get them: promises must have room with so many")
        ->check(CLI::Range(1, 256));
    command->footer("Exit status: 0 when the configuration is sound, 2 when it has mistakes.");
    command->callback(
        [arguments, load_plugins, workers, &status] { status = check(*arguments, *load_plugins, *workers); });
}

}  // namespace millrace::cli
