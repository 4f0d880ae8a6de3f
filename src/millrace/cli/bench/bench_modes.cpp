// millrace bench modes: the ways to run a chain on a device, compared.
#include <algorithm>

#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/scratch_folder.hpp"
#include "millrace/device/cuda/driver.hpp"

namespace millrace::cli {
namespace {

/// A way to run a chain.
struct Way {
    std::string name;
    device::Mode mode = device::Mode::fused;
    exec::TransferIn in = exec::TransferIn::automatic;
    exec::TransferOut out = exec::TransferOut::automatic;
    lab::Comparison compared = {};
    bool whole = false;
    lab::Threading threading = lab::Threading::full_path;
};

const std::vector<Way> kWays = {
    {.name = "fused"},
    {.name = "pipelined", .mode = device::Mode::pipelined},
    {.name = "no sharing", .compared = {.no_sharing = true}},
    {.name = "persistent", .mode = device::Mode::persistent},
    {.name = "fused, master-worker", .threading = lab::Threading::master_worker},
    {.name = "fused, packed", .in = exec::TransferIn::packed},
    {.name = "fused, rows", .in = exec::TransferIn::rows},
    {.name = "fused, gather", .in = exec::TransferIn::gather},
    {.name = "fused, zero-copy", .in = exec::TransferIn::zero_copy},
    {.name = "fused, zero-copy back", .out = exec::TransferOut::zero_copy},
    {.name = "fused, selective back", .compared = {.selective = true}},
    {.name = "fused, whole frames", .whole = true},
    {.name = "pipelined, whole frames", .mode = device::Mode::pipelined, .whole = true},
    {.name = "no sharing, whole frames", .compared = {.no_sharing = true}, .whole = true},
};

/// Ways that differ from the first by their transfers alone.
bool only_transfers(const Way& way) {
    return way.mode == device::Mode::fused && !way.compared.no_sharing && way.threading == lab::Threading::full_path;
}

/// Throughput of each way, then latency of all at the same load, a share of what the slowest carries; or only the
/// throughput by way of transfer.
int bench_modes(const BenchArguments& arguments, double share, bool transfers) {
    if (!transfers) device::cuda::Driver::expect_residents();
    const ScratchFolder scratch;
    const RunGuard guard({.before_end = [&] { scratch.remove(); }});
    lab::Session session(arguments.session_options(scratch.path()));
    BenchOutput output(arguments.json_file);
    nlohmann::json ways = nlohmann::json::array();
    arguments.for_each_point([&](const lab::Point& planned) {
        double slowest = 0;
        const auto measure = [&](const Way& way, double rate) {
            lab::Point point = planned;
            point.run.offload.mode = way.mode;
            point.run.offload.transfer_in = way.in;
            point.run.offload.transfer_out = way.out;
            point.run.compared = {.no_sharing = way.compared.no_sharing,
                                  .selective = way.compared.selective,
                                  .graphs = point.run.compared.graphs};
            point.run.whole_frames = way.whole;
            point.run.threading = way.threading;
            point.traffic.rate = rate;
            point.timed = rate > 0;
            const lab::Result result = session.measure(point);
            output.add(result, way.name);
            ways.push_back({{"way", way.name}, {"same-load", rate > 0}});
            if (rate == 0 && (slowest == 0 || result.counts.packet_rate() < slowest))
                slowest = result.counts.packet_rate();
        };
        for (const Way& way : kWays)
            if (!transfers || only_transfers(way)) measure(way, 0);
        for (const Way& way : kWays)
            if (!transfers) measure(way, slowest * share);
    });
    return output.finish(session, {{"ways", ways}, {"share", share}});
}

}  // namespace

void add_bench_modes(CLI::App& bench, int& status) {
    CLI::App* command = bench.add_subcommand(
        "modes", "A chain in every mode and with every way of transfer: throughput, and latency at the same load");
    const auto arguments = std::make_shared<BenchArguments>();
    arguments->devices = {"cuda"};
    arguments->chains = {"firewall+nids+router+ipsec"};
    arguments->sizes = {"64", "128", "512", "1518"};
    arguments->add_to(*command);
    const auto share = std::make_shared<double>(0.8);
    command->add_option("--share", *share, "The load for latencies, as a share of what the slowest way carries")
        ->check(CLI::Range(0.001, 1.0))
        ->capture_default_str();
    const auto transfers = std::make_shared<bool>(false);
    command->add_flag("--transfers", *transfers, "Only the throughput, of the fused chain by each way of transfer");
    command->callback([arguments, share, transfers, &status] { status = bench_modes(*arguments, *share, *transfers); });
}

}  // namespace millrace::cli
