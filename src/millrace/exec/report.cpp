#include "millrace/exec/report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "millrace/exec/worker.hpp"

namespace millrace::exec {
namespace {

using Kind = chain::Target::Kind;

std::string leads_to(const chain::Configuration& configuration, const chain::Program& program, size_t node, const chain::Target& target) {
    switch (target.kind) {
        case Kind::node:
            return target.value == node + 1 ? "next" : program.nodes[target.value].name;
        case Kind::output:
            return node + 1 == program.nodes.size() ? "next" : "output";
        case Kind::port:
            return "port " + configuration.port_names[target.value];
        case Kind::chain:
            return "chain " + configuration.chains[target.value]->name;
        case Kind::drop:
            return "drop";
        case Kind::punt:
            return "punt";
    }
    return {};
}

void add_node(ChainReport& report, const chain::Configuration& configuration, const chain::Program& program, size_t index,
              const std::vector<const ChainCounters*>& counters) {
    const chain::Node& node = program.nodes[index];
    NodeReport into;
    into.name = node.name;
    into.kind = node.type->name;
    uint64_t cycles = 0;
    std::vector<uint64_t> packets(node.type->outcomes.size());
    for (const ChainCounters* one : counters) {
        into.packets += one->nodes[index]->packets.get();
        into.bytes += one->nodes[index]->bytes.get();
        cycles += one->nodes[index]->cycles.get();
        for (size_t outcome = 0; outcome < packets.size(); ++outcome) packets[outcome] += one->nodes[index]->by_outcome[outcome].get();
    }
    if (into.packets > 0) into.cycles_per_packet = static_cast<double>(cycles) / static_cast<double>(into.packets);
    for (size_t outcome = 0; outcome < packets.size(); ++outcome) {
        const chain::Target& target = node.targets[outcome];
        const std::string& name = node.type->outcomes[outcome].name;
        into.outcomes.push_back({name, leads_to(configuration, program, index, target), packets[outcome]});
        if (packets[outcome] == 0) continue;
        if (target.kind == Kind::drop) report.drops[node.name + "." + name] += packets[outcome];
        if (target.kind == Kind::punt) report.punts[node.name + "." + name] += packets[outcome];
    }
    into.statistics = node.nf->statistics();
    report.nodes.push_back(std::move(into));
}

ChainReport chain_report(const Runtime& runtime, const chain::Configuration& configuration, const chain::Program& program) {
    ChainReport report;
    report.name = program.name;
    std::vector<const ChainCounters*> counters;
    for (const auto& worker : runtime.workers())
        for (const ChainCounters* one : worker->counters())
            if (one->fits(program)) counters.push_back(one);
    std::array<uint64_t, Histogram::kBuckets> latency{};
    for (const ChainCounters* one : counters) {
        report.received_packets += one->received_packets.get();
        report.received_bytes += one->received_bytes.get();
        report.sent_packets += one->sent_packets.get();
        report.sent_bytes += one->sent_bytes.get();
        report.dropped += one->dropped();
        report.punted += one->punted.get();
        report.passed_on += one->passed_on.get();
        report.in_flight += one->in_flight();
        report.batches += one->batches.get();
        report.events += one->events.get();
        report.events_lost += one->events_lost.get();
        report.retried_on_cpu += one->retried_on_cpu.get();
        report.bytes_to_device += one->bytes_to_device.get();
        report.bytes_to_host += one->bytes_to_host.get();
        one->latency.add_to(latency);
        for (size_t i = 0; i < kMalformedCount; ++i)
            if (const uint64_t n = one->malformed[i].get(); n > 0) report.drops[std::string("parser.") + kMalformedNames[i]] += n;
        for (size_t i = 0; i < kExitDropCount; ++i)
            if (const uint64_t n = one->exit_drops[i].get(); n > 0) report.drops[std::string("exit.") + kExitDropNames[i]] += n;
    }
    report.latency = {Histogram::percentile(latency, 50), Histogram::percentile(latency, 95), Histogram::percentile(latency, 99),
                      Histogram::percentile(latency, 99.9), Histogram::percentile(latency, 100)};
    for (size_t i = 0; i < program.nodes.size(); ++i) add_node(report, configuration, program, i, counters);
    return report;
}

}  // namespace

bool ChainReport::conserved() const {
    uint64_t reasons = 0;
    for (const auto& [reason, packets] : drops) reasons += packets;
    return received_packets == sent_packets + dropped + punted + passed_on + in_flight && reasons == dropped &&
           static_cast<int64_t>(in_flight) >= 0;
}

bool Report::conserved() const {
    uint64_t by_ports = 0, by_chains = unclassified_packets, passed_on = 0;
    for (const PortReport& port : ports) by_ports += port.counters.received_packets;
    for (const ChainReport& chain : chains) {
        by_chains += chain.received_packets;
        passed_on += chain.passed_on;
    }
    return by_ports + passed_on == by_chains &&
           std::all_of(chains.begin(), chains.end(), [](const ChainReport& chain) { return chain.conserved(); });
}

Report make_report(const Runtime& runtime) {
    Report report;
    const auto configuration = runtime.configuration();
    report.generation = configuration->generation;
    report.workers = static_cast<unsigned>(runtime.workers().size());
    for (const auto& worker : runtime.workers()) {
        report.unclassified_packets += worker->unclassified_packets();
        report.engine = worker->engine_text();
    }
    for (const auto& program : configuration->chains) report.chains.push_back(chain_report(runtime, *configuration, *program));
    for (const auto& port : runtime.ports())
        report.ports.push_back({port->name(), port->info().kind, port->info().detail, port->counters(), port->trouble()});
    return report;
}

std::string report_json(const Report& report, double seconds) {
    using nlohmann::json;
    json root = {{"engine", report.engine},
                 {"generation", report.generation},
                 {"workers", report.workers},
                 {"seconds", seconds},
                 {"unclassified-packets", report.unclassified_packets},
                 {"conserved", report.conserved()},
                 {"chains", json::array()},
                 {"ports", json::array()}};
    for (const ChainReport& chain : report.chains) {
        json entry = {{"name", chain.name},
                      {"received-packets", chain.received_packets},
                      {"received-bytes", chain.received_bytes},
                      {"sent-packets", chain.sent_packets},
                      {"sent-bytes", chain.sent_bytes},
                      {"dropped", chain.dropped},
                      {"punted", chain.punted},
                      {"passed-on", chain.passed_on},
                      {"in-flight", chain.in_flight},
                      {"batches", chain.batches},
                      {"events", chain.events},
                      {"events-lost", chain.events_lost},
                      {"retried-on-cpu", chain.retried_on_cpu},
                      {"bytes-to-device", chain.bytes_to_device},
                      {"bytes-to-host", chain.bytes_to_host},
                      {"drops", chain.drops},
                      {"punts", chain.punts},
                      {"latency-ns",
                       {{"p50", chain.latency.p50}, {"p95", chain.latency.p95}, {"p99", chain.latency.p99},
                        {"p99.9", chain.latency.p999}, {"max", chain.latency.most}}},
                      {"nfs", json::array()}};
        for (const NodeReport& node : chain.nodes) {
            json nf = {{"name", node.name}, {"kind", node.kind}, {"packets", node.packets}, {"bytes", node.bytes},
                       {"cycles-per-packet", node.cycles_per_packet}, {"outcomes", json::object()}, {"statistics", json::object()}};
            for (const OutcomeReport& outcome : node.outcomes)
                nf["outcomes"][outcome.name] = {{"packets", outcome.packets}, {"leads-to", outcome.leads_to}};
            for (const nf::Statistic& statistic : node.statistics) nf["statistics"][statistic.name] = statistic.value;
            entry["nfs"].push_back(std::move(nf));
        }
        root["chains"].push_back(std::move(entry));
    }
    for (const PortReport& port : report.ports)
        root["ports"].push_back({{"name", port.name},
                                 {"kind", port.kind},
                                 {"detail", port.detail},
                                 {"received-packets", port.counters.received_packets},
                                 {"received-bytes", port.counters.received_bytes},
                                 {"sent-packets", port.counters.sent_packets},
                                 {"sent-bytes", port.counters.sent_bytes},
                                 {"drops", port.counters.drops},
                                 {"details", port.counters.details},
                                 {"trouble", port.trouble}});
    return root.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace millrace::exec
