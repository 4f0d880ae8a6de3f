#include <iostream>

#include "millrace/cli/commands.hpp"

namespace millrace::cli {

void LoadArguments::add_to(CLI::App& command) {
    command.add_option("configuration", file, "The chain's YAML file")->required()->type_name("CHAIN.yaml");
    command.add_option("-d,--device", device, "Run on this device, whatever the file says")->check(CLI::IsMember({"cpu", "sim", "cuda"}));
    command.add_option("-o,--output", output, "Folder for alerts and output captures, in place of the file's 'output:'")->type_name("DIR");
    command.add_option("--lanes", lanes, "Lanes per packet for every device half")->check(CLI::IsMember({1, 8, 32}));
}

chain::LoadOptions LoadArguments::options() const {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = output;
    options.lanes = lanes;
    return options;
}

chain::Configuration LoadArguments::load() const {
    chain::Configuration configuration = chain::load_configuration(file, options());
    for (const Diagnostic& warning : configuration.warnings) std::cerr << warning.render() << "\n";
    return configuration;
}

}  // namespace millrace::cli
