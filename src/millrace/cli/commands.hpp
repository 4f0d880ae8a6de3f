// The commands of `millrace`. Each adds itself to the command line; its callback returns the exit status.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

#include "millrace/chain/configuration.hpp"
#include "millrace/device/device.hpp"

namespace millrace::cli {

/// Exit statuses, as the manual page lists them.
inline constexpr int kOk = 0, kFailed = 1, kBadConfiguration = 2;

/// What `--device` takes: parse_device_names.
CLI::Validator device_check();
/// A finite number above 0.
CLI::Validator positive_number();
/// A finite number, 0 or above.
CLI::Validator number_from_zero();
/// The one device that is to be measured. Throws std::runtime_error where `name` names the cpu, or several.
std::shared_ptr<device::Device> open_one_device(const std::string& name);

/// What the command line asks of every configuration that it loads.
struct LoadArguments {
    std::string file;
    std::string device;
    std::string output;

    void add_to(CLI::App& command);
    chain::LoadOptions options() const;
    /// Loads it; prints its warnings to standard error.
    chain::Configuration load() const { return load(options()); }
    chain::Configuration load(const chain::LoadOptions& options) const;
};

/// Finds the mistakes of ports that can be told without opening one, and chains that send where nothing can leave.
/// Throws ConfigError.
void check_ports(const chain::Configuration& configuration, const std::function<void(const Diagnostic&)>& warn);

/// What a network function tells of its tables.
std::string summary_of(const chain::Program& program, const chain::Node& node);

void add_run(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_nf(CLI::App& app, int& status);
void add_show(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_tenant(CLI::App& app, int& status);
void add_profile(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
/// Below `millrace bench`.
void add_bench_rules(CLI::App& bench, int& status);
void add_bench_chain(CLI::App& bench, int& status);
void add_bench_nf(CLI::App& bench, int& status);
void add_bench_modes(CLI::App& bench, int& status);
void add_bench_sharing(CLI::App& bench, int& status);
void add_bench_tenants(CLI::App& bench, int& status);
void add_bench_latency(CLI::App& bench, int& status);
void add_bench_transfer(CLI::App& bench, int& status);

}  // namespace millrace::cli
