// millrace bench chain, millrace bench nf: how much a chain carries.
#include <fmt/format.h>

#include <iostream>

#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/scratch_folder.hpp"

namespace millrace::cli {
namespace {

const std::vector<std::string> kChains = {"firewall+nids+router+ipsec", "nids+ipsec", "nids+router+ipsec",
                                          "firewall+nids+ipsec", "router"};
const std::vector<std::string> kNfs = {"mirror", "crc", "firewall", "nids", "router", "ipsec"};

struct ChainArguments {
    BenchArguments bench;
    std::vector<uint32_t> kernels;  // packets of a batch
    bool kernels_only = false;
};

/// One batch size of one point, for people and as JSON. `packet_rate`: from memory to memory, if that was measured.
nlohmann::json show_kernels(const lab::Point& point, const lab::KernelTimes& times, std::optional<double> packet_rate) {
    std::cout << fmt::format(
        "        kernels of {}, {} packets of {:.0f} B: {:.1f} us alone, {:.2f} Mpkt/s concurrently, {:.2f} Mpkt/s "
        "with the bus\n",
        point.device, times.batch, times.frame_bytes, times.batch_us, times.kernel_rate * 1e-6, times.bus_rate * 1e-6);
    nlohmann::json parts = nlohmann::json::array();
    for (const lab::KernelTimes::Part& part : times.parts) {
        const double share = part.ns_per_packet * times.batch * 1e-3 / times.batch_us;
        std::cout << fmt::format("            {:24} {:9.2f} ns a packet  {:5.1f} %\n", part.name, part.ns_per_packet,
                                 share * 100);
        parts.push_back({{"name", part.name}, {"ns-per-packet", part.ns_per_packet}, {"share", share}});
    }
    std::cout << std::flush;
    nlohmann::json json = {{"chain", point.chain},
                           {"device", point.device},
                           {"mode", device::name_of(point.run.offload.mode)},
                           {"traffic", point.traffic.text()},
                           {"batch-packets", times.batch},
                           {"frame-bytes", times.frame_bytes},
                           {"batch-us", times.batch_us},
                           {"kernel-packets-per-second", times.kernel_rate},
                           {"bus-packets-per-second", times.bus_rate},
                           {"parts", parts}};
    if (packet_rate) json["end-to-end-packets-per-second"] = *packet_rate;
    return json;
}

/// Every device with every chain, number of workers and kind of frame.
int measure_all(const ChainArguments& own) {
    const BenchArguments& arguments = own.bench;
    const ScratchFolder scratch;
    const RunGuard guard({.before_end = [&] { scratch.remove(); }});
    lab::Session session(arguments.session_options(scratch.path()));
    BenchOutput output(arguments.json_file);
    nlohmann::json kernels = nlohmann::json::array();
    arguments.for_each_point([&](const lab::Point& point) {
        std::optional<double> packet_rate;
        if (!own.kernels_only) {
            const lab::Result result = session.measure(point);
            packet_rate = result.counts.packet_rate();
            output.add(result);
        }
        for (const uint32_t batch : own.kernels)
            kernels.push_back(show_kernels(point, session.time_kernels(point, batch), packet_rate));
    });
    return output.finish(session,
                         own.kernels.empty() ? nlohmann::json::object() : nlohmann::json{{"kernels", kernels}});
}

void add(CLI::App& bench, int& status, const char* name, const char* help, const std::vector<std::string>& otherwise) {
    CLI::App* command = bench.add_subcommand(name, help);
    const auto arguments = std::make_shared<ChainArguments>();
    arguments->bench.add_to(*command);
    CLI::Option* const kernels =
        command
            ->add_option(
                "--kernels", arguments->kernels,
                "Time the kernels alone, too, of batches of so many packets: by network function, and with the bus")
            ->delimiter(',')
            ->check(CLI::Range(1, 65535))
            ->type_name("PACKETS,…");
    command->add_flag("--kernels-only", arguments->kernels_only, "Leave out the way from memory to memory")
        ->needs(kernels);
    command->callback([arguments, otherwise, &status] {
        BenchArguments& common = arguments->bench;
        if (!common.session.config.empty()) common.chains = {common.session.config};
        else if (common.chains.empty()) common.chains = otherwise;
        status = measure_all(*arguments);
    });
}

}  // namespace

void add_bench_chain(CLI::App& bench, int& status) {
    add(bench, status, "chain", "Throughput of whole chains from memory to memory, beside what the bus can carry",
        kChains);
}
void add_bench_nf(CLI::App& bench, int& status) {
    add(bench, status, "nf", "The same of every network function alone", kNfs);
}

}  // namespace millrace::cli
