#include "lab/measure.hpp"

#include <fmt/format.h>
#include <rte_cycles.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "millrace/chain/frames/whole_frames.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/worker/worker.hpp"

namespace millrace::lab {
namespace {

constexpr double kMaxPatience = 60, kPatienceForOthers = 10;  // for first packets, seconds

double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

exec::RuntimeOptions runtime_options(const RunOptions& options) {
    exec::RuntimeOptions result;
    result.workers = options.workers;
    result.cores = options.cores;
    set_threading(result, options.threading);
    result.burst = options.burst;
    result.cpu = options.cpu;
    result.offload = options.compared.apply(options.offload,
                                            options.devices.empty() ? "" : options.devices.front()->model());
    result.devices = options.devices;
    result.sources = options.sources;
    result.timeline_file = options.timeline_file;
    return result;
}

chain::Configuration configured(const chain::Configuration& planned, const std::string& ports, bool whole_frames) {
    chain::Configuration configuration = whole_frames ? with_whole_frames(planned) : planned;
    configuration.ports = Config::parse(ports, "benchmark ports");
    return configuration;
}

}  // namespace

Counts operator-(Counts later, const Counts& earlier) {
    later.seconds -= earlier.seconds;
    for (auto member :
         {&Counts::received_packets, &Counts::received_bytes, &Counts::sent_packets, &Counts::sent_bytes,
          &Counts::dropped, &Counts::punted, &Counts::missed, &Counts::bytes_to_device, &Counts::bytes_to_host,
          &Counts::batches, &Counts::retried_on_cpu, &Counts::kept_on_cpu, &Counts::receive_cycles})
        later.*member -= earlier.*member;
    for (size_t i = 0; i < later.batches_in.size(); ++i) later.batches_in[i] -= earlier.batches_in[i];
    for (size_t i = 0; i < later.batches_back.size(); ++i) later.batches_back[i] -= earlier.batches_back[i];
    for (size_t i = 0; i < later.stage_cycles.size(); ++i) later.stage_cycles[i] -= earlier.stage_cycles[i];
    for (size_t i = 0; i < later.latency.size(); ++i) later.latency[i] -= earlier.latency[i];
    for (size_t i = 0; i < later.nodes.size() && i < earlier.nodes.size(); ++i) {
        later.nodes[i].packets -= earlier.nodes[i].packets;
        later.nodes[i].cycles -= earlier.nodes[i].cycles;
    }
    return later;
}

Run::Run(const chain::Configuration& configuration, const std::string& ports, const RunOptions& options)
    : runtime_(configured(configuration, ports, options.whole_frames), runtime_options(options)),
      devices_(options.devices) {
    for (const auto& port : runtime_.ports()) {
        if (auto* source = dynamic_cast<io::SourcePort*>(port.get())) sources_.push_back(source);
        if (auto* sink = dynamic_cast<io::SinkPort*>(port.get())) sinks_.push_back(sink);
    }
}

Run::~Run() = default;

void Run::start() {
    begin_ = now_seconds();
    runtime_.start();
    // Workers build tables of their own as the first packets come: what counts begins behind that.
    const auto has_begun = [](const auto& worker) {
        const auto chains = worker->counters();
        return std::any_of(chains.begin(), chains.end(), [](const exec::ChainCounters* chain) {
            return chain->received_packets.get() > chain->in_flight();
        });
    };
    // One whose queue has no flows never does.
    double until = begin_ + kMaxPatience;
    bool any = false;
    while (now_seconds() < until && runtime_.trouble().empty() && !runtime_.wait(std::chrono::milliseconds(1))) {
        const auto begun = std::count_if(runtime_.workers().begin(), runtime_.workers().end(), has_begun);
        if (begun == static_cast<ptrdiff_t>(runtime_.workers().size())) break;
        if (begun > 0 && !std::exchange(any, true)) until = std::min(until, now_seconds() + kPatienceForOthers);
    }
}

void Run::sleep(double seconds) const { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

double Run::elapsed() const { return now_seconds() - begin_; }

Counts Run::counts() const {
    Counts counts;
    counts.seconds = elapsed();
    for (const io::SourcePort* source : sources_) {
        const io::PortCounters port = source->counters();
        counts.received_packets += port.received_packets;
        counts.received_bytes += port.received_bytes;
        counts.missed += port.receive_drops();
    }
    bool timed = false;
    for (const io::SinkPort* sink : sinks_) {
        const io::PortCounters port = sink->counters();
        counts.sent_packets += port.sent_packets;
        counts.sent_bytes += port.sent_bytes;
        timed |= sink->times_packets();
        sink->add_latency_to(counts.latency);
    }
    for (const auto& worker : runtime_.workers()) {
        counts.receive_cycles += worker->receive_cycles();
        for (const exec::ChainCounters* chain : worker->counters()) {
            counts.dropped += chain->dropped();
            counts.punted += chain->punted.get();
            counts.bytes_to_device += chain->bytes_to_device.get();
            counts.bytes_to_host += chain->bytes_to_host.get();
            counts.batches += chain->batches.get();
            for (size_t i = 0; i < counts.batches_in.size(); ++i) counts.batches_in[i] += chain->batches_in[i].get();
            for (size_t i = 0; i < counts.stage_cycles.size(); ++i) counts.stage_cycles[i] += chain->stages[i].get();
            for (size_t i = 0; i < counts.batches_back.size(); ++i)
                counts.batches_back[i] += chain->batches_back[i].get();
            counts.retried_on_cpu += chain->retried_on_cpu.get();
            counts.kept_on_cpu += chain->kept_on_cpu.get();
            if (!timed) chain->latency.add_to(counts.latency);
            for (const auto& node : chain->nodes) {
                const auto same = std::find_if(counts.nodes.begin(), counts.nodes.end(),
                                               [&](const Counts::Node& own) { return own.name == node->name; });
                Counts::Node& own = same != counts.nodes.end()
                                        ? *same
                                        : counts.nodes.emplace_back(Counts::Node{node->name, 0, 0});
                own.packets += node->packets.get();
                own.cycles += node->cycles.get();
            }
        }
    }
    for (const auto& device : devices_) {
        const MoreBytes more = more_bytes(*device);
        counts.bytes_to_device += static_cast<uint64_t>(more.to_device);
        counts.bytes_to_host += static_cast<uint64_t>(more.to_host);
    }
    return counts;
}

uint64_t Run::in_flight() const {
    uint64_t packets = 0;
    for (const auto& worker : runtime_.workers())
        for (const exec::ChainCounters* chain : worker->counters()) packets += chain->in_flight();
    return packets;
}

void Run::set_rate(double packets_per_second) {
    for (io::SourcePort* source : sources_) source->set_rate(packets_per_second / static_cast<double>(sources_.size()));
}

Ending Run::finish() {
    runtime_.stop();
    Ending ending;
    if (!runtime_.wait(std::chrono::seconds(60))) throw std::runtime_error("the run does not end: packets are stuck");
    runtime_.finish();
    const exec::Report report = exec::make_report(runtime_);
    ending.conserved = report.conserved();
    ending.engine = report.engine;
    for (const exec::ChainReport& chain : report.chains) {
        for (const auto& [reason, packets] : chain.drops) ending.drops[reason] += packets;
        ending.events += chain.events;
        ending.events_lost += chain.events_lost;
        ending.retold_on_cpu += chain.retold_on_cpu;
    }
    ending.trouble = runtime_.trouble();
    for (const auto& port : runtime_.ports())
        if (const std::string trouble = port->trouble(); !trouble.empty())
            ending.trouble += (ending.trouble.empty() ? "" : "; ") + trouble;
    // Of one source only is it known which frame a number stands for.
    if (sources_.size() == 1)
        for (const io::SinkPort* sink : sinks_)
            for (io::SunkFrame& frame : sink->sample())
                if (std::vector<uint8_t> before = sources_[0]->frame_of(frame.number); !before.empty())
                    ending.samples.push_back({frame.number, std::move(before), std::move(frame.bytes)});
    return ending;
}

Measured measure(const chain::Configuration& configuration, const std::string& ports, const RunOptions& options,
                 double warm_up, double seconds) {
    Run run(configuration, ports, options);
    run.start();
    run.sleep(warm_up);
    const Counts before = run.counts();
    run.sleep(seconds);
    const Counts after = run.counts();
    return {after - before, run.finish()};
}

std::string bench_ports(const chain::Configuration& configuration, const std::string& source_options,
                        const std::string& sink_options, const RunOptions& options) {
    std::string text;
    const auto ports = static_cast<uint16_t>(configuration.port_names.size());
    for (uint16_t port = 0; port < ports; ++port) {
        const bool input = configuration.classification.uses_port(port);
        const bool output = std::any_of(
            configuration.chains.begin(), configuration.chains.end(),
            [&](const auto& program) { return program->output == port || program->punt_port == port; });
        if (input && output)
            throw ConfigError(Diagnostic{{configuration.file, 0, 0},
                                         "port '" + configuration.port_names[port] + "' both receives and sends",
                                         "benchmarks put a source or a sink in a port's place: name two ports"});
        text += configuration.port_names[port] + ": ";
        if (input)
            text += fmt::format("{{source: {}, queues: {}, buffers: {}, max-frame: 1600}}\n", source_options,
                                options.workers, uint64_t{options.buffers} * options.workers);
        else text += fmt::format("{{sink: {}, queues: {}}}\n", sink_options, options.workers);
    }
    return text;
}

}  // namespace millrace::lab
