// millrace bench chain, millrace bench nf: how much a chain carries.
#include "millrace/cli/bench_arguments.hpp"

namespace millrace::cli {
namespace {

const std::vector<std::string> kChains = {"firewall+nids+router+ipsec", "nids+ipsec", "nids+router+ipsec", "firewall+nids+ipsec", "router"};
const std::vector<std::string> kNfs = {"mirror", "firewall", "nids", "router", "ipsec"};

/// Every device with every chain, number of workers and kind of frame.
int measure_all(const BenchArguments& arguments, const std::vector<std::string>& chains) {
    const ScratchFolder scratch;
    bench::Session session(arguments.session_options(scratch.path()));
    BenchOutput output(arguments.json_file);
    for (const std::string& device : arguments.devices)
        for (const std::string& chain : chains)
            for (const unsigned workers : arguments.workers)
                for (const bench::Traffic& traffic : arguments.traffics())
                    output.add(session.measure(arguments.point(chain, device, traffic, workers)));
    return output.finish(session);
}

void add(CLI::App& bench, int& status, const char* name, const char* help, const std::vector<std::string>& otherwise) {
    CLI::App* command = bench.add_subcommand(name, help);
    const auto arguments = std::make_shared<BenchArguments>();
    arguments->add_to(*command);
    command->callback([arguments, otherwise, &status] {
        const bool own = !arguments->session.config.empty();
        status = measure_all(*arguments, own ? std::vector<std::string>{arguments->session.config} : arguments->chains.empty() ? otherwise : arguments->chains);
    });
}

}  // namespace

void add_bench_chain(CLI::App& bench, int& status) {
    add(bench, status, "chain", "Throughput of whole chains from memory to memory, beside what the bus can carry", kChains);
}
void add_bench_nf(CLI::App& bench, int& status) { add(bench, status, "nf", "The same of every network function alone", kNfs); }

}  // namespace millrace::cli
