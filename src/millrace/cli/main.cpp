#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <iostream>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/signals.hpp"
#include "millrace/device/cuda/driver.hpp"
#include "millrace/nf/plugin.hpp"

int main(int argc, char** argv) {
    using namespace millrace;
    spdlog::set_default_logger(spdlog::stderr_color_st("millrace"));
    spdlog::set_pattern("%^%l%$: %v");
    device::cuda::Driver::expect_waiting_kernels();

    CLI::App app{"Runs service chains of network functions on CPUs and GPUs."};
    app.set_version_flag("--version", "millrace " MILLRACE_VERSION);
    app.require_subcommand(1);
    app.get_formatter()->column_width(36);
    std::vector<std::string> plugins;
    app.add_option_function<std::vector<std::string>>(
           "--nf",
           [](const std::vector<std::string>& paths) {
               const cli::RunGuard guard;
               for (const std::string& path : paths) nf::load_plugin(path);
           },
           "Load network functions from a shared library first; may be given again")
        ->type_name("FILE.so")
        ->trigger_on_parse();
    app.footer("'millrace COMMAND --help' tells more of each command; so do the manual pages millrace-COMMAND(1).");

    int status = cli::kOk;
    cli::add_run(app, status);
    cli::add_check(app, status);
    cli::add_explain(app, status);
    cli::add_show(app, status);
    cli::add_nf(app, status);
    cli::add_doctor(app, status);
    cli::add_verify(app, status);
    cli::add_tenant(app, status);
    cli::add_profile(app, status);
    cli::add_bench(app, status);
    // A run and a tenant end in order, and only they have an order to end in.
    for (CLI::App* command : app.get_subcommands({}))
        if (command->get_name() != "run" && command->get_name() != "tenant")
            command->preparse_callback([](size_t) { cli::let_signals_end_the_program(); });
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? cli::kOk : cli::kBadConfiguration;
    } catch (const ConfigError& e) {
        std::cerr << e.what() << "\n"
                  << e.diagnostics().size() << (e.diagnostics().size() == 1 ? " mistake\n" : " mistakes\n");
        return cli::kBadConfiguration;
    } catch (const std::exception& e) {
        std::cerr << "millrace: " << e.what() << "\n";
        return cli::kFailed;
    }
    return status;
}
