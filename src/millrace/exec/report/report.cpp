#include "millrace/exec/report/report.hpp"

#include <algorithm>

#include "millrace/exec/worker/worker.hpp"

namespace millrace::exec {
namespace {

using Kind = chain::Target::Kind;

std::string leads_to(const chain::Configuration& configuration, const ChainCounters& chain, size_t node,
                     const Target& target) {
    const auto name = [&](const std::vector<std::string>& names) {
        return target.value < names.size() ? names[target.value] : "?";
    };
    switch (target.kind) {
        case Kind::node: return target.value == node + 1 ? "next" : chain.nodes[target.value]->name;
        case Kind::output: return node + 1 == chain.nodes.size() ? "next" : "output";
        case Kind::port: return "port " + name(configuration.port_names);
        case Kind::chain:
            return "chain " +
                   (target.value < configuration.chains.size() ? configuration.chains[target.value]->name : "?");
        case Kind::drop: return "drop";
        case Kind::punt: return "punt";
    }
    return {};
}

/// The entry called `name`, made if there is none.
template <class Entry>
Entry& entry_of(std::vector<Entry>& entries, const std::string& name) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& entry) { return entry.name == name; });
    if (found != entries.end()) return *found;
    entries.emplace_back();
    entries.back().name = name;
    return entries.back();
}

void add_node(ChainReport& report, const chain::Configuration& configuration, const ChainCounters& counters,
              size_t index) {
    const NodeCounters& node = *counters.nodes[index];
    NodeReport& into = entry_of(report.nodes, node.name);
    into.kind = node.kind;
    // An average over what was added so far and what is added now.
    const uint64_t packets = node.packets.get();
    if (into.packets + packets > 0)
        into.cycles_per_packet = (into.cycles_per_packet * static_cast<double>(into.packets) +
                                  static_cast<double>(node.cycles.get())) /
                                 static_cast<double>(into.packets + packets);
    into.packets += packets;
    into.bytes += node.bytes.get();
    for (size_t i = 0; i < node.outcomes.size(); ++i) {
        const uint64_t decided = node.by_outcome[i].get();
        if (i + 1 == node.outcomes.size()) {
            // Of what nobody declared there is nothing to tell as long as it does not happen.
            if (decided == 0) continue;
            report.undeclared[node.name] += decided;
        }
        OutcomeReport& outcome = entry_of(into.outcomes, node.outcomes[i]);
        outcome.packets += decided;
        outcome.leads_to = leads_to(configuration, counters, index, node.targets[i]);
        if (decided == 0) continue;
        if (node.targets[i].kind == Kind::drop) report.drops[node.name + "." + node.outcomes[i]] += decided;
        if (node.targets[i].kind == Kind::punt) report.punts[node.name + "." + node.outcomes[i]] += decided;
    }
}

void add_counters(ChainReport& report, StageCycles& stages, const ChainCounters& counters) {
    report.sent_packets += counters.sent_packets.get();
    report.sent_bytes += counters.sent_bytes.get();
    report.dropped += counters.dropped();
    report.punted += counters.punted.get();
    report.passed_on += counters.passed_on.get();
    report.joined += counters.joined.get();
    report.in_flight += counters.in_flight();
    report.batches += counters.batches.get();
    report.events += counters.events.get();
    report.events_lost += counters.events_lost.get();
    report.retold_on_cpu += counters.retold_on_cpu.get();
    report.retried_on_cpu += counters.retried_on_cpu.get();
    report.kept_on_cpu += counters.kept_on_cpu.get();
    report.bytes_to_device += counters.bytes_to_device.get();
    report.bytes_to_host += counters.bytes_to_host.get();
    for (const TransferIn way : kTransfersIn)
        if (const uint64_t n = counters.batches_in[static_cast<size_t>(way)].get(); n > 0)
            report.batches_in[name_of(way)] += n;
    for (const TransferOut way : kTransfersOut)
        if (const uint64_t n = counters.batches_back[static_cast<size_t>(way)].get(); n > 0)
            report.batches_back[name_of(way)] += n;
    for (size_t i = 0; i < stages.size(); ++i) stages[i] += counters.stages[i].get();
    if (const uint64_t n = counters.punted_copies.get(); n > 0) report.punts["exit.copied"] += n;
    for (size_t i = 0; i < kMalformedCount; ++i)
        if (const uint64_t n = counters.malformed[i].get(); n > 0)
            report.drops[std::string("parser.") + kMalformedNames[i]] += n;
    for (size_t i = 0; i < kExitDropCount; ++i)
        if (const uint64_t n = counters.exit_drops[i].get(); n > 0)
            report.drops[std::string("exit.") + kExitDropNames[i]] += n;
    for (size_t i = 0; i < kFragmentDropCount; ++i)
        if (const uint64_t n = counters.fragment_drops[i].get(); n > 0)
            report.drops[std::string("fragments.") + kFragmentDropNames[i]] += n;
    report.reassembled += counters.reassembled.get();
    // What came in is counted before it goes out, and read behind that: no more has gone out than came in.
    report.submitted += counters.submitted.get();
    report.copied += counters.copied.get();
    report.split += counters.split.get();
    report.injected += counters.injected.get();
    report.received_packets += counters.received_packets.get();
    report.received_bytes += counters.received_bytes.get();
}

/// One chain, all workers, and all shapes that it had in earlier generations; the present one comes last,
/// so that its `leads_to` stands.
ChainReport chain_report(const Runtime& runtime, const chain::Configuration& configuration, const std::string& name) {
    ChainReport report;
    report.name = name;
    const chain::Program* program = configuration.find_chain(name);
    std::vector<const ChainCounters*> all;
    for (const auto& worker : runtime.workers())
        for (const ChainCounters* counters : worker->counters())
            if (counters->chain == name) all.push_back(counters);
    std::stable_partition(all.begin(), all.end(), [&](const ChainCounters* counters) {
        return program == nullptr || !counters->fits(*program);
    });
    std::array<uint64_t, Histogram::kBuckets> latency{};
    StageCycles stages{};
    for (const ChainCounters* counters : all) {
        // Functions that a classification leads to count for their chains.
        for (size_t i = 0; i < counters->nodes.size() && counters->parts.empty(); ++i)
            add_node(report, configuration, *counters, i);
        add_counters(report, stages, *counters);
        counters->latency.add_to(latency);
    }
    report.stages = means_of(stages, report.batches,
                             report.received_packets - std::min(report.kept_on_cpu, report.received_packets));
    report.latency = {Histogram::percentile(latency, 50), Histogram::percentile(latency, 95),
                      Histogram::percentile(latency, 99), Histogram::percentile(latency, 99.9),
                      Histogram::percentile(latency, 100)};
    if (program != nullptr)
        for (const chain::Node& node : program->nodes)
            entry_of(report.nodes, node.name).statistics = node.nf->statistics();
    return report;
}

/// The chains of the present configuration, then those of earlier ones.
std::vector<std::string> chain_names(const Runtime& runtime, const chain::Configuration& configuration) {
    std::vector<std::string> names;
    for (const auto& program : configuration.chains) names.push_back(program->name);
    for (const auto& worker : runtime.workers())
        for (const ChainCounters* counters : worker->counters())
            if (std::find(names.begin(), names.end(), counters->chain) == names.end()) names.push_back(counters->chain);
    return names;
}

}  // namespace

bool ChainReport::conserved() const {
    uint64_t reasons = 0;
    for (const auto& [reason, packets] : drops) reasons += packets;
    return received_packets + injected + copied + split ==
               sent_packets + dropped + punted + passed_on + joined + in_flight &&
           reasons == dropped && static_cast<int64_t>(in_flight) >= 0;
}

bool Report::conserved() const {
    uint64_t by_ports = 0, by_chains = unclassified_packets, passed_on = 0, submitted = 0;
    for (const PortReport& port : ports) by_ports += port.counters.received_packets;
    for (const ChainReport& chain : chains) {
        by_chains += chain.received_packets;
        passed_on += chain.passed_on;
        submitted += chain.submitted;
    }
    return by_ports + passed_on + submitted == by_chains &&
           std::all_of(chains.begin(), chains.end(), [](const ChainReport& chain) { return chain.conserved(); });
}

void ChainReport::settle() {
    dropped = 0;
    for (const auto& [reason, packets] : drops) dropped += packets;
    in_flight = received_packets + injected + copied + split - sent_packets - dropped - punted - passed_on - joined;
}

Report make_report(const Runtime& runtime) {
    Report report;
    const auto configuration = runtime.configuration();
    report.generation = configuration->generation;
    report.workers = static_cast<unsigned>(runtime.workers().size());
    uint64_t receive_cycles = 0, received = 0;
    for (const auto& worker : runtime.workers()) {
        report.unclassified_packets += worker->unclassified_packets();
        report.stray_injections += worker->stray_injections();
        receive_cycles += worker->receive_cycles();
        const std::string text = worker->engine_text();
        if (report.engine.find(text) == std::string::npos) report.engine += (report.engine.empty() ? "" : " + ") + text;
    }
    for (const std::string& name : chain_names(runtime, *configuration))
        report.chains.push_back(chain_report(runtime, *configuration, name));
    for (const auto& port : runtime.ports())
        report.ports.push_back(
            {port->name(), port->info().kind, port->info().detail, port->counters(), port->trouble()});
    if (const auto& tenants = runtime.options().tenants) report.tenants = tenants->report();
    for (const PortReport& port : report.ports) received += port.counters.received_packets;
    if (received > 0)
        report.receive_cycles_per_packet = static_cast<double>(receive_cycles) / static_cast<double>(received);
    return report;
}

}  // namespace millrace::exec
