// millrace bench sharing: functions of a chain that stand apart, as functions of tenants do, on a GPU that they share.
#include <algorithm>

#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/scratch_folder.hpp"

namespace millrace::cli {
namespace {

nlohmann::json json_of(const lab::ApartPlan& plan) {
    nlohmann::json parts = nlohmann::json::array();
    for (const lab::ApartPart& part : plan.parts)
        parts.push_back({{"chain", part.chain}, {"sms", part.sms}, {"batch", part.batch}, {"wait-us", part.wait_us}});
    return {{"rate", plan.rate}, {"parts", parts}};
}

/// Throughput of the chain in one piece, and of its functions apart by each way of sharing; then latency of all at the
/// same load, a share of what the slowest carries.
int bench_sharing(const BenchArguments& arguments, double share, double latency_us) {
    const ScratchFolder scratch;
    const RunGuard guard({.before_end = [&] { scratch.remove(); }});
    lab::Session session(arguments.session_options(scratch.path()));
    BenchOutput output(arguments.json_file);
    nlohmann::json ways = nlohmann::json::array(), without = nlohmann::json::array();
    arguments.for_each_point([&](const lab::Point& planned) {
        double slowest = 0;
        const auto measure = [&](std::optional<lab::Apart> apart, double rate) {
            lab::Point point = planned;
            point.apart = apart;
            point.traffic.rate = rate;
            point.timed = rate > 0;
            const std::string way = apart ? name_of(apart->sharing) : "in one piece";
            try {
                const lab::Result result = session.measure(point);
                output.add(result, way);
                ways.push_back({{"way", way}, {"same-load", rate > 0}, {"plan", json_of(result.apart)}});
                if (rate == 0 && (slowest == 0 || result.counts.packet_rate() < slowest))
                    slowest = result.counts.packet_rate();
            } catch (const lab::NoPlan& e) {
                show_progress(e.what());
                without.push_back({{"chain", planned.chain}, {"traffic", planned.traffic.text()}, {"why", e.what()}});
            }
        };
        const auto measure_all = [&](double rate) {
            measure(std::nullopt, rate);
            for (const schedule::Sharing sharing : schedule::kSharings)
                measure(lab::Apart{sharing, latency_us, planned.run.workers, rate > 0}, rate);
        };
        measure_all(0);
        if (share > 0) measure_all(slowest * share);
    });
    return output.finish(session,
                         {{"ways", ways}, {"without-plan", without}, {"share", share}, {"latency-us", latency_us}});
}

}  // namespace

void add_bench_sharing(CLI::App& bench, int& status) {
    CLI::App* command = bench.add_subcommand(
        "sharing",
        "Functions of a chain as if each were a tenant's, by each way to share a GPU (G-NET, figures 11 to 17)");
    const auto arguments = std::make_shared<BenchArguments>();
    arguments->devices = {"cuda"};
    arguments->chains = {"nids+ipsec", "firewall+nids+ipsec", "nids+router+ipsec", "firewall+nids+router+ipsec"};
    arguments->sizes = {"64", "512", "1518"};
    arguments->add_to(*command);
    const auto share = std::make_shared<double>(0.8);
    command
        ->add_option("--share", *share,
                     "The load for latencies, as a share of what the slowest way carries; 0: throughput only")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    const auto latency = std::make_shared<double>(2000);
    command
        ->add_option("--latency", *latency,
                     "Microseconds that each function may take, with the wait for its batch, by the plan")
        ->check(CLI::Range(1.0, 1e6))
        ->capture_default_str();
    command->callback([arguments, share, latency, &status] { status = bench_sharing(*arguments, *share, *latency); });
}

}  // namespace millrace::cli
