// millrace bench: what Millrace is measured with.
#include "millrace/cli/commands.hpp"

namespace millrace::cli {

void add_bench(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("bench", "Measure, and make what measurements need");
    command->require_subcommand(1);
    add_bench_chain(*command, status);
    add_bench_nf(*command, status);
    add_bench_modes(*command, status);
    add_bench_sharing(*command, status);
    add_bench_tenants(*command, status);
    add_bench_latency(*command, status);
    add_bench_transfer(*command, status);
    add_bench_rules(*command, status);
}

}  // namespace millrace::cli
