// millrace tenant: a network function in a process of its own, for somebody else's run.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <thread>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/signals.hpp"
#include "millrace/cli/text/table.hpp"
#include "millrace/nf/plugin.hpp"
#include "millrace/tenancy/member/offering.hpp"

namespace millrace::cli {
namespace {

struct TenantArguments {
    std::string manager, name, plugin, options, output = "out", device = "auto";
    bool once = false, quiet = false;
};

/// The function and its options: an entry as below `nfs:`, or a plugin's only function without any.
struct Chosen {
    const nf::Type* type;
    Config options;
};

Chosen choose(const TenantArguments& arguments) {
    nf::Catalogue catalogue;
    std::string only;
    if (!arguments.plugin.empty()) {
        catalogue.add(arguments.plugin);
        const auto& types = nf::Plugin::open(arguments.plugin).types();
        if (types.size() == 1) only = types.front()->name;
    }
    if (arguments.options.empty() && only.empty())
        throw std::runtime_error(
            "which network function is it? give --options a file with 'NAME: {…}', or --nf a "
            "plugin that has one");
    const Config file = arguments.options.empty() ? Config::parse("{" + only + ": {}}", arguments.plugin)
                                                  : Config::load(arguments.options);
    const auto entries = file.entries();
    if (entries.size() != 1) file.fail("one network function is expected here", "such as 'ttl-guard: {least: 5}'");
    const auto& [kind, options] = entries.front();
    const nf::Type* const type = catalogue.find(kind.text());
    if (type == nullptr)
        kind.fail("there is no network function '" + kind.text() + "'",
                  "'millrace nf list' shows those that are built in; others come with --nf");
    return {type, options.is_null() ? Config::parse("{}", arguments.options) : options};
}

void tell(const TenantArguments& arguments, const std::string& what) {
    if (!arguments.quiet) std::cerr << "millrace: " << arguments.name << ": " << what << "\n";
}

/// A function that was to run on the GPU, and can't.
struct NotOnGpu : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Why the function stays in this process; ends it where that was not to be.
void stay(const TenantArguments& arguments, const std::string& why) {
    if (arguments.device == "gpu") throw NotOnGpu("the function can't run on the GPU: " + why);
    tell(arguments, "runs in this process: " + why);
}

/// What `step` does towards the GPU, if that is wanted. That the run has none is worth no word then.
template <class Step>
void try_gpu(const TenantArguments& arguments, const tenancy::Member& member, Step&& step) {
    if (arguments.device == "process") return;
    try {
        step();
    } catch (const std::runtime_error& e) {
        if (arguments.device == "gpu" || !member.architecture().empty()) stay(arguments, e.what());
    }
}

/// What this process still does of each batch.
std::string stages_text(const nf::CpuStages& stages) {
    if (!stages.any()) return {};
    return std::string("; this process works on each batch ") + (stages.before && stages.after ? "before and after it"
                                                                 : stages.before               ? "before it"
                                                                                               : "after it");
}

/// Attached until the manager lets go, or somebody ends it.
void serve(const TenantArguments& arguments, tenancy::Member& member, tenancy::FunctionHost& host,
           tenancy::Offering& offering) {
    constexpr std::chrono::milliseconds kLook{100};
    try_gpu(arguments, member, [&] { offering.begin(member); });
    while (!stop_asked() && member.attached()) {
        try_gpu(arguments, member, [&] { offering.go_on(member); });
        if (const auto batch = member.next(kLook)) {
            host.answer(*batch);
            member.answer(*batch);
        }
        const auto placed = member.placement();
        if (!placed) continue;
        if (placed->kind == tenancy::Notice::Kind::placed)
            tell(arguments, std::string("runs on the GPU, ") + placed->text + stages_text(host.stages()));
        else if (placed->kind == tenancy::Notice::Kind::later)
            tell(arguments, std::string("is not on the GPU yet: ") + placed->text);
        else stay(arguments, std::string("the run refuses its device half: ") + placed->text);
    }
}

/// Attaches again and again; false where it could not, or was let go, and that was to be the end.
bool work(const TenantArguments& arguments, tenancy::FunctionHost& host) {
    constexpr std::chrono::milliseconds kAgain{50};
    tenancy::Offering offering(host);
    std::string trouble;
    while (!stop_asked()) {
        std::optional<tenancy::Member> member;
        try {
            member.emplace(arguments.manager, arguments.name);
        } catch (const std::runtime_error& e) {
            if (arguments.once) throw;
            // Told once, and tried until it is there.
            if (trouble != e.what()) tell(arguments, trouble = e.what());
            std::this_thread::sleep_for(kAgain);
            continue;
        }
        trouble.clear();
        host.agree(member->terms());
        tell(arguments, "attached to " + arguments.manager);
        serve(arguments, *member, host, offering);
        if (stop_asked()) return true;
        const std::string why = member->why();
        tell(arguments, "detached: " + (why.empty() ? "the manager has ended" : why));
        if (arguments.once) return why.empty();
    }
    return true;
}

void print_table(const tenancy::FunctionHost& host) {
    const exec::NodeCounters& counters = host.counters();
    Table table({"outcome", "packets"});
    for (size_t i = 0; i < counters.outcomes.size(); ++i)
        if (const uint64_t packets = counters.by_outcome[i].get(); packets > 0)
            table.add({counters.outcomes[i], grouped(packets)});
    std::cout << fmt::format("{}: {} packets in {} batches\n", counters.name, grouped(counters.packets.get()),
                             grouped(host.batches()))
              << table.text();
    for (const nf::Statistic& statistic : host.function().statistics())
        std::cout << fmt::format("{} {}\n", statistic.name, grouped(statistic.value));
}

int tenant(const TenantArguments& arguments) {
    const RunGuard guard;
    const Chosen chosen = choose(arguments);
    std::filesystem::create_directories(arguments.output);
    tenancy::FunctionHost host(*chosen.type, chosen.options, arguments.name, arguments.output);
    const bool good = work(arguments, host);
    host.finish();
    if (!arguments.quiet) print_table(host);
    return good ? kOk : kFailed;
}

}  // namespace

void add_tenant(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand(
        "tenant", "Run a network function in this process, for the chains of somebody else's run");
    const auto arguments = std::make_shared<TenantArguments>();
    command->add_option("--manager", arguments->manager, "Where that run lets tenants in")
        ->required()
        ->type_name("SOCKET");
    command->add_option("--name", arguments->name, "As which tenant, by the 'tenants:' of its configuration")
        ->required()
        ->type_name("NAME");
    command->add_option("--nf", arguments->plugin, "The shared library with the function; not for those built in")
        ->type_name("FILE.so");
    command
        ->add_option("--options", arguments->options,
                     "The function and its options, as below 'nfs:': 'ttl-guard: {least: 5}'")
        ->type_name("FILE.yaml");
    command->add_option("-o,--output", arguments->output, "Folder for files that it writes, such as alerts")
        ->type_name("DIR")
        ->capture_default_str();
    command
        ->add_option("--device", arguments->device,
                     "Where the function runs: in this process, or its device half on the run's GPU, fenced (auto: if "
                     "it can; gpu: or not at all)")
        ->check(CLI::IsMember({"auto", "process", "gpu"}))
        ->capture_default_str();
    command->add_flag("--once", arguments->once, "End when the run lets go; else attach again");
    command->add_flag("-q,--quiet", arguments->quiet, "Say nothing, and print no closing table");
    command->footer(
        "It opens no port and no device, and sees of each packet what the run's configuration shows it.\n"
        "SIGINT and SIGTERM end it in order.");
    command->callback([arguments, &status] { status = tenant(*arguments); });
}

}  // namespace millrace::cli
