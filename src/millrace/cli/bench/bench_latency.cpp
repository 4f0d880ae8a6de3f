// millrace bench latency: how long packets are on their way, by load, and when the load steps up.
#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/process/scratch_folder.hpp"

namespace millrace::cli {
namespace {

struct LatencyArguments {
    BenchArguments bench;
    std::vector<double> shares{0.01, 0.1, 0.25, 0.5, 0.75, 0.9};
    double most = 0;
    std::vector<double> step{0.05, 0.5};
    uint32_t descriptors = 4096;
};

/// [upper end in microseconds, share of packets up to there] where the share grows.
nlohmann::json distribution(const lab::LatencyCounts& counts) {
    uint64_t total = 0, seen = 0;
    for (const uint64_t count : counts) total += count;
    nlohmann::json points = nlohmann::json::array();
    for (unsigned i = 0; i < counts.size(); ++i) {
        if (counts[i] == 0) continue;
        seen += counts[i];
        points.push_back({static_cast<double>(Histogram::bucket_top(i)) * 1e-3,
                          static_cast<double>(seen) / static_cast<double>(total)});
    }
    return points;
}

/// The load goes from one rate to a higher one; what is seen every 200 us around that moment.
nlohmann::json load_step(const LatencyArguments& arguments, lab::Session& session, lab::Point point, double most,
                         BenchOutput& output) {
    constexpr double kBefore = 0.010, kAfter = 0.040, kEvery = 0.0002;
    point.traffic.rate = most * arguments.step[0];
    point.timed = true;
    auto run = session.open(point);
    show_progress(
        fmt::format("a step of the load from {:.0f} % to {:.0f} %", arguments.step[0] * 100, arguments.step[1] * 100));
    run->start();
    run->sleep(arguments.bench.session.warm_up);
    std::vector<std::pair<lab::Counts, uint64_t>> seen;
    const lab::Counts first = run->counts();
    const double begin = first.seconds;
    bool stepped = false;
    for (double next = begin;;) {
        const lab::Counts now = run->counts();
        seen.emplace_back(now, run->in_flight());
        if (now.seconds > begin + kBefore + kAfter) break;
        if (!stepped && now.seconds >= begin + kBefore) {
            run->set_rate(most * arguments.step[1]);
            stepped = true;
        }
        next += kEvery;
        while (run->elapsed() < next) {
        }
    }
    const lab::Result result = session.close(point, *run, seen.back().first - first);
    output.add(result);
    nlohmann::json series = nlohmann::json::array();
    for (size_t i = 1; i < seen.size(); ++i) {
        const lab::Counts d = seen[i].first - seen[i - 1].first;
        series.push_back(
            {{"ms", (seen[i].first.seconds - begin - kBefore) * 1e3},
             {"received-packets-per-second", d.packet_rate()},
             {"sent-packets-per-second", static_cast<double>(d.sent_packets) / d.seconds},
             {"in-flight", seen[i].second},
             {"batch-packets",
              d.batches > 0 ? static_cast<double>(d.received_packets) / static_cast<double>(d.batches) : 0},
             {"missed", d.missed},
             {"p99-us", d.latency_us(99)}});
    }
    const uint64_t missed = (seen.back().first - first).missed;
    std::cout << fmt::format("step from {:.2f} to {:.2f} Mpkt/s: {} packets missed\n", most * arguments.step[0] * 1e-6,
                             most * arguments.step[1] * 1e-6, missed);
    return {{"device", point.device},
            {"chain", point.chain},
            {"traffic", point.traffic.text()},
            {"from-share", arguments.step[0]},
            {"to-share", arguments.step[1]},
            {"missed", missed},
            {"series", series}};
}

int bench_latency(const LatencyArguments& arguments) {
    const BenchArguments& common = arguments.bench;
    const ScratchFolder scratch;
    const RunGuard guard({.before_end = [&] { scratch.remove(); }});
    lab::Session session(common.session_options(scratch.path()));
    BenchOutput output(common.json_file);
    nlohmann::json curves = nlohmann::json::array(), steps = nlohmann::json::array();
    common.for_each_point([&](const lab::Point& planned) {
        lab::Point point = planned;
        double most = arguments.most;
        if (most == 0) {
            const lab::Result result = session.measure(point);
            output.add(result);
            most = result.counts.packet_rate();
        }
        point.timed = true;
        point.run.sources.descriptors = arguments.descriptors;
        for (const double share : arguments.shares) {
            point.traffic.rate = most * share;
            const lab::Result result = session.measure(point);
            output.add(result);
            curves.push_back({{"device", point.device},
                              {"chain", point.chain},
                              {"traffic", planned.traffic.text()},
                              {"workers", point.run.workers},
                              {"share", share},
                              {"offered-packets-per-second", point.traffic.rate},
                              {"missed", result.counts.missed},
                              {"distribution", distribution(result.counts.latency)}});
        }
        if (arguments.step.size() == 2) steps.push_back(load_step(arguments, session, point, most, output));
    });
    return output.finish(session, {{"curves", curves}, {"steps", steps}});
}

}  // namespace

void add_bench_latency(CLI::App& bench, int& status) {
    CLI::App* command = bench.add_subcommand(
        "latency", "How long packets are on their way, at shares of the highest rate, and as the load steps up");
    const auto arguments = std::make_shared<LatencyArguments>();
    arguments->bench.chains = {"firewall+nids+router+ipsec"};
    arguments->bench.sizes = {"512"};
    arguments->bench.add_to(*command);
    command->add_option("--shares", arguments->shares, "Loads, as shares of the highest rate")
        ->delimiter(',')
        ->check(CLI::Range(0.0001, 2.0))
        ->type_name("SHARE,…");
    command->add_option("--most", arguments->most, "The highest rate, packets a second; 0: it is measured first")
        ->capture_default_str();
    command->add_option("--step", arguments->step, "The load steps from one share to another")
        ->delimiter(',')
        ->expected(2)
        ->type_name("FROM,TO");
    command
        ->add_option("--descriptors", arguments->descriptors,
                     "Packets that may wait in a source's queue; further ones are missed")
        ->capture_default_str();
    command->callback([arguments, &status] { status = bench_latency(*arguments); });
}

}  // namespace millrace::cli
