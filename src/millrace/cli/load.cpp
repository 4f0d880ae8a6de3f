#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>

#include "millrace/base/running.hpp"
#include "millrace/base/text/shown_line.hpp"
#include "millrace/cli/commands.hpp"
#include "millrace/device/open.hpp"

namespace millrace::cli {

CLI::Validator device_check() {
    const auto check = [](const std::string& text) {
        try {
            parse_device_names(text);
        } catch (const std::invalid_argument& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    return {check, ""};
}

namespace {
/// The finite number that `text` is; a NaN where it is none.
double finite_number(const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool good = error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
    return good ? number : std::numeric_limits<double>::quiet_NaN();
}
}  // namespace

CLI::Validator positive_number() {
    const auto check = [](const std::string& text) {
        return finite_number(text) > 0 ? std::string() : "'" + text + "' is no number above 0";
    };
    return {check, "", "POSITIVE"};
}

CLI::Validator number_from_zero() {
    const auto check = [](const std::string& text) {
        return finite_number(text) >= 0 ? std::string() : "'" + text + "' is no number from 0 on";
    };
    return {check, "", "NUMBER"};
}

std::shared_ptr<device::Device> open_one_device(const std::string& name) {
    const DeviceNames names = parse_device_names(name);
    if (names.cpu || names.devices.size() != 1)
        throw std::runtime_error(
            "this measures one device with memory of its own, such as cuda, cuda:1 or sim, and not '" + name + "'");
    return device::open_device(names.devices.front());
}

void LoadArguments::add_to(CLI::App& command) {
    command.add_option("configuration", file, "The chain's YAML file")->required()->type_name("CHAIN.yaml");
    command
        .add_option("-d,--device", device,
                    "Run on this device, whatever the file says: cpu, sim, cuda, cuda:1, several, cuda:0+cuda:1, or "
                    "with the CPU for when packets are few, cuda+cpu")
        ->check(device_check())
        ->type_name("DEVICE");
    command
        .add_option("-o,--output", output, "Folder for alerts and output captures, in place of the file's 'output:'")
        ->type_name("DIR");
}

chain::LoadOptions LoadArguments::options() const {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = output;
    return options;
}

chain::Configuration LoadArguments::load(const chain::LoadOptions& options) const {
    show_lines_of(file);
    chain::Configuration configuration = chain::load_configuration(file, options);
    if (!configuration.warnings.empty()) std::cerr << render(configuration.warnings) << "\n";
    return configuration;
}

std::string summary_of(const chain::Program& program, const chain::Node& node) {
    const Running running(node.name, program.name, Call::telling);
    return node.nf->summary();
}

}  // namespace millrace::cli
