// millrace check: finds every mistake in a configuration without opening a port.
#include <fmt/format.h>

#include <iostream>

#include "millrace/cli/commands.hpp"
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

int check(const LoadArguments& arguments) {
    std::vector<Diagnostic> mistakes;
    const auto attempt = [&](const auto& what) {
        try {
            what();
        } catch (const ConfigError& e) {
            mistakes.insert(mistakes.end(), e.diagnostics().begin(), e.diagnostics().end());
        }
    };
    std::optional<chain::Configuration> configuration;
    attempt([&] { configuration = arguments.load(); });
    io::PortEnvironment environment;
    if (configuration) {
        environment.output_folder = configuration->output_folder;
        attempt([&] { io::check_ports(*configuration->ports, environment); });
    } else if (const auto ports = find_ports(arguments.file)) {
        // Mistakes of chains do not hide those of ports.
        attempt([&] { io::check_ports(*ports, environment); });
    }
    if (!mistakes.empty()) throw ConfigError(mistakes);
    std::cout << fmt::format("{}: {} chain{}, {} port{}, device {}: sound\n", arguments.file, configuration->chains.size(),
                             configuration->chains.size() == 1 ? "" : "s", configuration->port_names.size(),
                             configuration->port_names.size() == 1 ? "" : "s", configuration->device);
    for (const auto& program : configuration->chains)
        for (const chain::Node& node : program->nodes)
            if (const std::string summary = node.nf->summary(); !summary.empty())
                std::cout << "  " << program->name << "." << node.name << ": " << summary << "\n";
    return kOk;
}

}  // namespace

void add_check(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("check", "Check a configuration: every mistake with its place and what would mend it");
    const auto arguments = std::make_shared<LoadArguments>();
    arguments->add_to(*command);
    command->footer("Exit status: 0 when the configuration is sound, 2 when it has mistakes.");
    command->callback([arguments, &status] { status = check(*arguments); });
}

}  // namespace millrace::cli
