// millrace nf: the network functions that this program knows, and what helps to write one.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "millrace/nftest/golden.hpp"
#include "millrace/base/text/shown_line.hpp"
#include "millrace/chain/frames/field_plan.hpp"
#include "millrace/cli/commands.hpp"
#include "millrace/cli/nf/named_function.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/scratch_folder.hpp"
#include "millrace/cli/text/table.hpp"
#include "millrace/cli/nf/nf_watch.hpp"
#include "millrace/device/cuda/compile/compiler.hpp"
#include "millrace/device/cuda/cuda_device.hpp"

namespace millrace::cli {
namespace {

const char* disposition_text(nf::Disposition disposition) {
    return disposition == nf::Disposition::next ? "next" : disposition == nf::Disposition::drop ? "drop" : "punt";
}

int list() {
    Table table({"nf", "cpu", "sim", "lanes", "ordered", "alerts", "what it does"});
    for (const nf::Type* type : nf::all_types())
        table.add({type->name, type->has_cpu_half ? "library" : "device half", "device half",
                   std::to_string(type->lanes), type->ordered() ? "yes" : "-", type->emits_events ? "yes" : "-",
                   type->summary});
    std::cout << table.text();
    return kOk;
}

int show(const std::string& name) {
    const nf::Type* type = nf::find_type(name);
    if (type == nullptr)
        throw std::runtime_error("there is no network function '" + name + "'; 'millrace nf list' shows them");
    std::cout << type->name << ": " << type->summary << "\n\nreads   " << chain::field_names(type->reads)
              << "\nwrites  " << chain::field_names(type->writes) << "\ngrows   " << type->head_growth
              << " B at the head, " << type->tail_growth << " B at the tail\nlanes   " << type->lanes << "\n\n";
    Table table({"outcome", "leads to", "when"});
    for (const nf::Outcome& outcome : type->outcomes)
        table.add({outcome.name, disposition_text(outcome.disposition), outcome.help});
    std::cout << table.text();
    return kOk;
}

std::vector<std::string> devices_here() {
    std::vector<std::string> devices = {"sim"};
    std::string why;
    if (device::cuda::CudaDevice::count(&why) > 0) devices.push_back("cuda");
    return devices;
}

int test(const std::string& name, const std::string& table) {
    const nf::Type& type = named_function(name);
    const ScratchFolder folder;
    const RunGuard guard({.where = "in case", .packets = kPacketPatience, .before_end = [&] { folder.remove(); }});
    std::map<std::string, std::shared_ptr<device::Device>> opened;
    nftest::GoldenOptions options;
    const std::vector<std::string> devices = devices_here();
    options.halves = nftest::host_halves(type);
    std::ranges::copy(nftest::device_halves(devices), std::back_inserter(options.halves));
    options.open = [&](const std::string& device) {
        auto& one = opened[device];
        if (one == nullptr) one = open_one_device(device);
        return one;
    };
    options.output_folder = folder.path();
    options.checked = true;
    show_lines_of(table);
    const nftest::GoldenReport report = nftest::run_golden(type, table, options);
    for (const Diagnostic& failure : report.failures) std::cerr << failure.render() << "\n";
    std::cout << type.name << ": " << report.cases << (report.cases == 1 ? " case" : " cases") << " on cpu";
    // A function with stages on the CPU has had none.
    for (const auto& [device, there] : opened) std::cout << ", " << device;
    if (report.failed == 0) std::cout << ": all passed\n";
    else std::cout << ": " << report.failed << " failed\n";
    return report.failed == 0 ? kOk : kFailed;
}

int check(const std::string& name, const std::string& architecture) {
    const nf::Type& type = named_function(name);
    const device::cuda::Compiler compiler;
    for (const unsigned lanes : std::set<unsigned>{1, type.lanes}) try {
            const std::string unit = compiler.compile(device::cuda::make_nf_check(type, lanes), architecture);
            compiler.link({unit}, architecture);
        } catch (const device::cuda::CompileError& e) {
            std::cerr << e.what() << "\n";
            return kFailed;
        }
    std::cout << type.name << " compiles for " << architecture << " (" << compiler.version() << ")\n";
    return kOk;
}

void add_watch(CLI::App& nf, int& status) {
    CLI::App* command = nf.add_subcommand(
        "watch", "Build a plugin whenever its sources change; test it, and bring it into a running chain");
    const auto arguments = std::make_shared<WatchArguments>();
    command->add_option("plugin", arguments->plugin, "A plugin's file in its CMake build folder; need not be there yet")
        ->required()
        ->type_name("PLUGIN.so");
    command->add_option("--test", arguments->table, "Run it over this table of golden packets, as 'nf test' does")
        ->check(CLI::ExistingFile)
        ->type_name("GOLDEN.yaml");
    command
        ->add_option("--run", arguments->configuration,
                     "Run this configuration, and have it take in each build that passes")
        ->check(CLI::ExistingFile)
        ->type_name("CHAIN.yaml");
    command->add_option("-d,--device", arguments->device, "Of --run: on this device, whatever the file says")
        ->check(device_check())
        ->type_name("DEVICE");
    command->footer("SIGINT and SIGTERM end it, and the chain in order.");
    command->callback([arguments, &status] {
        if (arguments->table.empty() && arguments->configuration.empty()) throw CLI::RequiredError("--test or --run");
        if (arguments->configuration.empty() && !arguments->device.empty())
            throw CLI::ValidationError("--device", "goes with --run");
        status = watch_nf(*arguments);
    });
}

}  // namespace

void add_nf(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("nf", "Network functions");
    command->require_subcommand(1);
    command->add_subcommand("list", "All that this program knows, and what runs them on which device")
        ->callback([&status] { status = list(); });
    CLI::App* one = command->add_subcommand("show", "One of them: fields, outcomes and where they lead by default");
    const auto name = std::make_shared<std::string>();
    one->add_option("name", *name, "As 'millrace nf list' names it")->required();
    one->callback([name, &status] { status = show(*name); });
    CLI::App* golden = command->add_subcommand("test", "Run one over a table of golden packets, on every device here");
    const auto table = std::make_shared<std::string>();
    golden->add_option("plugin", *name, "A plugin's file, or a name as 'millrace nf list' has it")
        ->required()
        ->type_name("PLUGIN");
    golden->add_option("table", *table, "Packets, and what must become of them")->required()->type_name("GOLDEN.yaml");
    CLI::App* compile = command->add_subcommand("check", "Compile one's device half as for a GPU; needs none");
    const auto architecture = std::make_shared<std::string>("sm_90");
    compile->add_option("plugin", *name, "A plugin's file, or a name as 'millrace nf list' has it")
        ->required()
        ->type_name("PLUGIN");
    compile->add_option("--architecture", *architecture, "Of the GPU")
        ->type_name("sm_NN")
        ->check(architecture_check())
        ->capture_default_str();
    compile->callback([name, architecture, &status] { status = check(*name, *architecture); });
    golden->callback([name, table, &status] { status = test(*name, *table); });
    add_watch(*command, status);
}

}  // namespace millrace::cli
