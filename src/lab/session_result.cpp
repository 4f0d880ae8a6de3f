// What was measured, for people and as JSON.
#include <fmt/format.h>
#include <rte_cycles.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lab/session.hpp"

namespace millrace::lab {
namespace {

nlohmann::json latency_json(const Counts& counts) {
    return {{"p50", counts.latency_us(50)},
            {"p95", counts.latency_us(95)},
            {"p99", counts.latency_us(99)},
            {"p99.9", counts.latency_us(99.9)}};
}

}  // namespace

std::string Result::mistake() const {
    if (!ending.trouble.empty()) return ending.trouble;
    if (ending.engine.find("taken over from a failed device") != ending.engine.npos)
        return "the device has failed, and the figures are the CPU's: " + ending.engine;
    if (!ending.conserved) return "packets were lost without a reason: the counters do not add up";
    if (check.different > 0)
        return fmt::format("{} of {} packets of the sample are wrong: {}", check.different,
                           check.different + check.equal, check.first_difference);
    return {};
}

double Result::cycles_per_packet() const {
    const double rate = counts.packet_rate();
    const bool calls = point.device != "cpu" && point.run.offload.calls_by_thread;
    const auto threads = static_cast<double>(point.run.workers +
                                             (point.run.threading == Threading::master_worker ? 1 : 0) +
                                             (calls ? parse_device_names(point.device).devices.size() : 0));
    return rate > 0 ? threads * static_cast<double>(rte_get_tsc_hz()) / rate : 0;
}

nlohmann::json Result::json() const {
    const double packets = static_cast<double>(counts.received_packets),
                 sent = static_cast<double>(counts.sent_packets);
    const exec::OffloadOptions& offload = point.run.offload;
    nlohmann::json nodes = nlohmann::json::object();
    for (const Counts::Node& node : counts.nodes)
        if (node.packets > 0 && node.cycles > 0)
            nodes[node.name] = static_cast<double>(node.cycles) / static_cast<double>(node.packets);
    nlohmann::json json = {{"chain", point.chain},
                           {"device", point.device},
                           {"engine", ending.engine},
                           {"workers", point.run.workers},
                           {"threading", kThreadingNames[static_cast<int>(point.run.threading)]},
                           {"traffic", point.traffic.text()},
                           {"layout", point.run.sources.contiguous ? "contiguous" : "buffers"},
                           {"restore", kRestoreNames[static_cast<size_t>(point.run.sources.restore)]},
                           {"seconds", counts.seconds},
                           {"packets-per-second", counts.packet_rate()},
                           {"gbps", counts.bit_rate() * 1e-9},
                           {"sent-packets-per-second", sent / counts.seconds},
                           {"sent-gbps", static_cast<double>(counts.sent_bytes) * 8e-9 / counts.seconds},
                           {"missed-packets", counts.missed},
                           {"frame-bytes-in", packets > 0 ? static_cast<double>(counts.received_bytes) / packets : 0},
                           {"frame-bytes-out", sent > 0 ? static_cast<double>(counts.sent_bytes) / sent : 0},
                           {"dropped", counts.dropped},
                           {"punted", counts.punted},
                           {"drops", ending.drops},
                           {"events", ending.events},
                           {"events-lost", ending.events_lost},
                           {"retold-on-cpu", ending.retold_on_cpu},
                           {"cycles-per-packet", cycles_per_packet()},
                           {"cpu-cycles-by-nf", nodes},
                           {"latency-us", latency_json(counts)},
                           {"check",
                            {{"equal", check.equal},
                             {"different", check.different},
                             {"undecided", check.undecided},
                             {"first-difference", check.first_difference}}},
                           {"conserved", ending.conserved},
                           {"trouble", ending.trouble}};
    if (nlohmann::json watts = power.json(); !watts.empty()) json["power"] = std::move(watts);
    if (point.traffic.rate > 0) json["offered-packets-per-second"] = point.traffic.rate;
    if (point.device == "cpu") {
        json["cpu-halves"] = point.run.cpu.use_cpu_halves;
        return json;
    }
    json.update({{"mode", point.run.compared.mode(offload)},
                 {"transfer-in", name_of(offload.transfer_in)},
                 {"transfer-out", point.run.compared.transfer_out(offload)},
                 {"whole-frames", point.run.whole_frames},
                 {"call-thread", offload.calls_by_thread},
                 {"graphs", point.run.compared.graphs},
                 {"batches-in-flight", offload.depth},
                 {"batch-packets", counts.batches > 0 ? packets / static_cast<double>(counts.batches) : 0},
                 {"bytes-to-device-per-packet", counts.per_packet(counts.bytes_to_device)},
                 {"bytes-to-host-per-packet", counts.per_packet(counts.bytes_to_host)},
                 {"retried-on-cpu", counts.retried_on_cpu},
                 {"kept-on-cpu", counts.kept_on_cpu}});
    json["receive-cycles-per-packet"] = counts.per_packet(counts.receive_cycles);
    const exec::StageMeans stages = exec::means_of(
        counts.stage_cycles, counts.batches,
        counts.received_packets - std::min(counts.kept_on_cpu, counts.received_packets));
    if (counts.batches > 0)
        json.update({{"batch-us", stages.us}, {"batch-cycles-per-packet", stages.cycles_per_packet}});
    for (const exec::TransferIn way : exec::kTransfersIn)
        if (const uint64_t n = counts.batches_in[static_cast<size_t>(way)]; n > 0) json["batches-in"][name_of(way)] = n;
    for (const exec::TransferOut way : exec::kTransfersOut)
        if (const uint64_t n = counts.batches_back[static_cast<size_t>(way)]; n > 0)
            json["batches-back"][name_of(way)] = n;
    if (bus_limit > 0)
        json["bus"] = {{"limit-packets-per-second", bus_limit},
                       {"share", share_of_bus()},
                       {"crossing-limit-packets-per-second", crossing_limit},
                       {"crossing-share", crossing_limit > 0 ? counts.packet_rate() / crossing_limit : 0}};
    if (power.gpu_joules > 0) json["gpu-packets-per-joule"] = packets / power.gpu_joules;
    return json;
}

}  // namespace millrace::lab
