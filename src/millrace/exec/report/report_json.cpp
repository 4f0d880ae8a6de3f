// Reports as JSON.
#include "millrace/exec/report/report_json.hpp"

namespace millrace::exec {

using nlohmann::json;

namespace {

json node_json(const NodeReport& node) {
    json nf = {{"name", node.name},
               {"kind", node.kind},
               {"packets", node.packets},
               {"bytes", node.bytes},
               {"cycles-per-packet", node.cycles_per_packet},
               {"outcomes", json::object()},
               {"statistics", json::object()}};
    for (const OutcomeReport& outcome : node.outcomes)
        nf["outcomes"][outcome.name] = {{"packets", outcome.packets}, {"leads-to", outcome.leads_to}};
    for (const nf::Statistic& statistic : node.statistics) nf["statistics"][statistic.name] = statistic.value;
    return nf;
}

/// Adds what was promised, if anything was.
json with_promise(json entry, const PromiseReport& promise) {
    if (!promise.made()) return entry;
    entry["promise"] = {{"rate", static_cast<uint64_t>(promise.rate)},
                        {"latency-ns", promise.latency_ns},
                        {"now", name_of(promise.now)},
                        {"offered", static_cast<uint64_t>(promise.offered)},
                        {"longest-ns", promise.longest_ns},
                        {"batch", promise.batch},
                        {"sms", promise.sms},
                        {"intervals", promise.intervals},
                        {"rate-broken", promise.rate_broken},
                        {"latency-broken", promise.latency_broken},
                        {"beyond", promise.beyond}};
    return entry;
}

}  // namespace

json chain_json(const ChainReport& chain) {
    json entry = {{"name", chain.name},
                  {"received-packets", chain.received_packets},
                  {"received-bytes", chain.received_bytes},
                  {"sent-packets", chain.sent_packets},
                  {"sent-bytes", chain.sent_bytes},
                  {"injected", chain.injected},
                  {"submitted", chain.submitted},
                  {"copied", chain.copied},
                  {"split", chain.split},
                  {"dropped", chain.dropped},
                  {"punted", chain.punted},
                  {"passed-on", chain.passed_on},
                  {"joined", chain.joined},
                  {"reassembled", chain.reassembled},
                  {"in-flight", chain.in_flight},
                  {"batches", chain.batches},
                  {"events", chain.events},
                  {"events-lost", chain.events_lost},
                  {"retold-on-cpu", chain.retold_on_cpu},
                  {"retried-on-cpu", chain.retried_on_cpu},
                  {"kept-on-cpu", chain.kept_on_cpu},
                  {"bytes-to-device", chain.bytes_to_device},
                  {"bytes-to-host", chain.bytes_to_host},
                  {"batches-in", chain.batches_in},
                  {"batches-back", chain.batches_back},
                  {"batch-us", chain.stages.us},
                  {"batch-cycles-per-packet", chain.stages.cycles_per_packet},
                  {"drops", chain.drops},
                  {"punts", chain.punts},
                  {"latency-ns",
                   {{"p50", chain.latency.p50},
                    {"p95", chain.latency.p95},
                    {"p99", chain.latency.p99},
                    {"p99.9", chain.latency.p999},
                    {"max", chain.latency.most}}},
                  {"nfs", json::array()}};
    for (const NodeReport& node : chain.nodes) entry["nfs"].push_back(node_json(node));
    return with_promise(std::move(entry), chain.promise);
}

json port_json(const PortReport& port) {
    return {{"name", port.name},
            {"kind", port.kind},
            {"detail", port.detail},
            {"received-packets", port.counters.received_packets},
            {"received-bytes", port.counters.received_bytes},
            {"sent-packets", port.counters.sent_packets},
            {"sent-bytes", port.counters.sent_bytes},
            {"drops", port.counters.drops},
            {"details", port.counters.details},
            {"trouble", port.trouble}};
}

json tenant_json(const TenantReport& tenant) {
    json stages = {{"beside", tenant.stages_beside}};
    for (const auto& [stage, times] : tenant.stages)
        stages[stage + "-ns"] = {{"p50", times.p50_ns}, {"p99", times.p99_ns}};
    json entry = {{"name", tenant.name},
                  {"chain", tenant.chain},
                  {"state", tenant.state},
                  {"user", tenant.user},
                  {"process", tenant.process},
                  {"attached", tenant.attached},
                  {"packets", tenant.packets},
                  {"answered", tenant.answered},
                  {"absent", tenant.absent},
                  {"in-flight", tenant.in_flight},
                  {"batches", tenant.batches},
                  {"answer-ns", {{"p50", tenant.answer_p50_ns}, {"p99", tenant.answer_p99_ns}}},
                  {"misdeeds", tenant.misdeeds},
                  {"runs-on", tenant.runs_on},
                  {"gpu-batches", tenant.gpu_batches},
                  {"chain-batches", tenant.chain_batches},
                  {"stages", tenant.stages.empty() ? json::object() : stages},
                  {"instructions", {{"function", tenant.instructions}, {"isolation", tenant.fence_instructions}}}};
    return with_promise(std::move(entry), tenant.promise);
}

std::string report_json(const Report& report, double seconds) {
    json root = {{"engine", report.engine},
                 {"generation", report.generation},
                 {"workers", report.workers},
                 {"seconds", seconds},
                 {"unclassified-packets", report.unclassified_packets},
                 {"stray-injections", report.stray_injections},
                 {"receive-cycles-per-packet", report.receive_cycles_per_packet},
                 {"conserved", report.conserved()},
                 {"chains", json::array()},
                 {"ports", json::array()},
                 {"tenants", json::array()}};
    for (const ChainReport& chain : report.chains) root["chains"].push_back(chain_json(chain));
    for (const PortReport& port : report.ports) root["ports"].push_back(port_json(port));
    for (const TenantReport& tenant : report.tenants) root["tenants"].push_back(tenant_json(tenant));
    return root.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace millrace::exec
