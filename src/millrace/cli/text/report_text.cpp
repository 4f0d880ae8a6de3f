#include "millrace/cli/text/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "millrace/cli/text/promise_text.hpp"
#include "millrace/cli/text/stages_text.hpp"
#include "millrace/cli/text/table.hpp"

namespace millrace::cli {
namespace {

std::string reasons(const std::map<std::string, uint64_t>& counts) {
    std::string text;
    for (const auto& [reason, packets] : counts) text += (text.empty() ? "" : ", ") + reason + " " + grouped(packets);
    return text;
}

std::string reasons(const std::map<std::string, double>& means) {
    std::string text;
    for (const auto& [reason, mean] : means) text += fmt::format("{}{} {:.1f}", text.empty() ? "" : ", ", reason, mean);
    return text;
}

/// Nobody reads longer tables than this; the JSON has all.
constexpr size_t kMaxRows = 40;

/// Where in a list those stand that have most packets, as many as people read. The order is the list's.
template <class List, class F>
std::vector<size_t> busiest(const List& list, F&& packets) {
    std::vector<size_t> rows(list.size());
    std::iota(rows.begin(), rows.end(), size_t{0});
    if (rows.size() <= kMaxRows) return rows;
    std::ranges::stable_sort(rows, [&](size_t a, size_t b) { return packets(list[a]) > packets(list[b]); });
    rows.resize(kMaxRows);
    std::ranges::sort(rows);
    return rows;
}

std::string left_out(size_t all, const char* what) {
    if (all <= kMaxRows) return {};
    return fmt::format("and {} more {}, none with more packets; --json has all\n", grouped(all - kMaxRows), what);
}

std::string ports_table(const exec::Report& report, double seconds) {
    Table table({"port", "kind", "received", "bytes", "rate", "sent", "bytes", "rate", "drops"});
    const auto rate = [&](uint64_t bytes) {
        return seconds > 0 && bytes > 0 ? bit_rate(static_cast<double>(bytes) * 8 / seconds) : "";
    };
    const auto packets = [](const exec::PortReport& port) {
        return port.counters.received_packets + port.counters.sent_packets;
    };
    for (const size_t row : busiest(report.ports, packets)) {
        const exec::PortReport& port = report.ports[row];
        const io::PortCounters& c = port.counters;
        table.add({port.name, port.kind, grouped(c.received_packets), grouped(c.received_bytes), rate(c.received_bytes),
                   grouped(c.sent_packets), grouped(c.sent_bytes), rate(c.sent_bytes), reasons(c.drops)});
    }
    return table.text() + left_out(report.ports.size(), "ports");
}

std::string tenants_table(const exec::Report& report) {
    Table table({"tenant", "chain", "state", "packets", "answered", "absent", "batches", "on the GPU", "batch", "p50",
                 "p99", "misdeeds"});
    for (const exec::TenantReport& tenant : report.tenants)
        table.add({tenant.name, tenant.chain, tenant.state, grouped(tenant.packets), grouped(tenant.answered),
                   reasons(tenant.absent), grouped(tenant.batches), grouped(tenant.gpu_batches),
                   tenant.batches > 0 ? fmt::format("{:.0f}", static_cast<double>(tenant.answered) /
                                                                  static_cast<double>(tenant.batches))
                                      : "",
                   time_text(tenant.answer_p50_ns), time_text(tenant.answer_p99_ns), reasons(tenant.misdeeds)});
    std::string more;
    for (const exec::TenantReport& tenant : report.tenants)
        if (tenant.instructions > 0)
            more += fmt::format("tenant {} ran on the {}: {} instructions, and {} more for that\n", tenant.name,
                                tenant.runs_on, tenant.instructions, tenant.fence_instructions);
    for (const exec::TenantReport& tenant : report.tenants) more += stages_text(tenant.name, tenant.stages);
    for (const exec::TenantReport& tenant : report.tenants)
        if (tenant.promise.made())
            more += "tenant " + tenant.name + " was promised " +
                    promise_text(tenant.promise, name_of(tenant.promise.now)) + "\n";
    return table.text() + more;
}

std::string nfs_table(const exec::ChainReport& chain) {
    Table table({"nf", "packets", "bytes", "cycles/pkt", "outcomes"});
    for (const size_t row : busiest(chain.nodes, [](const exec::NodeReport& node) { return node.packets; })) {
        const exec::NodeReport& node = chain.nodes[row];
        std::string outcomes;
        for (const exec::OutcomeReport& outcome : node.outcomes) {
            if (outcome.packets == 0) continue;
            outcomes += (outcomes.empty() ? "" : ", ") + outcome.name + " " + grouped(outcome.packets);
            if (outcome.leads_to != "next") outcomes += " → " + outcome.leads_to;
        }
        const std::string kind = node.name == node.kind ? node.name : node.name + " (" + node.kind + ")";
        table.add({kind, grouped(node.packets), node.bytes > 0 ? grouped(node.bytes) : "",
                   node.cycles_per_packet > 0 ? fmt::format("{:.0f}", node.cycles_per_packet) : "", outcomes});
    }
    return table.text() + left_out(chain.nodes.size(), "network functions");
}

std::string chain_text(const exec::ChainReport& chain, double seconds) {
    std::string text = fmt::format("chain {}: {} in, {} sent, {} dropped, {} punted", chain.name,
                                   grouped(chain.received_packets), grouped(chain.sent_packets), grouped(chain.dropped),
                                   grouped(chain.punted));
    if (chain.injected + chain.submitted > 0)
        text += ", " + grouped(chain.injected + chain.submitted) + " put in by a controller";
    if (chain.copied > 0) text += ", " + grouped(chain.copied) + " copies for further ports";
    if (chain.reassembled > 0)
        text += ", " + grouped(chain.reassembled) + " put together from " + grouped(chain.reassembled + chain.joined) +
                " fragments";
    if (chain.split > 0) text += ", " + grouped(chain.split) + " more by cutting packets into fragments";
    if (chain.passed_on > 0) text += ", " + grouped(chain.passed_on) + " to other chains";
    if (chain.in_flight > 0) text += ", " + grouped(chain.in_flight) + " in flight";
    text += "\n";
    if (seconds > 0)
        text += fmt::format("  rate      {}, {}\n", packet_rate(static_cast<double>(chain.received_packets) / seconds),
                            bit_rate(static_cast<double>(chain.received_bytes) * 8 / seconds));
    if (chain.latency.most > 0)
        text += fmt::format("  latency   p50 {}, p95 {}, p99 {}, p99.9 {}, max {}\n", time_text(chain.latency.p50),
                            time_text(chain.latency.p95), time_text(chain.latency.p99), time_text(chain.latency.p999),
                            time_text(chain.latency.most));
    if (chain.promise.made()) text += "  promised  " + promise_text(chain.promise, name_of(chain.promise.now)) + "\n";
    if (!chain.drops.empty()) text += "  drops     " + reasons(chain.drops) + "\n";
    if (!chain.punts.empty()) text += "  punts     " + reasons(chain.punts) + "\n";
    if (chain.events > 0 || chain.events_lost > 0)
        text += "  events    " + grouped(chain.events) +
                (chain.events_lost > 0 ? ", lost " + grouped(chain.events_lost) : "") + "\n";
    if (chain.retold_on_cpu > 0)
        text += "  events    " + grouped(chain.retold_on_cpu) +
                " packets had more than there was room for; the CPU told them\n";
    if (chain.bytes_to_device > 0 && chain.received_packets > 0)
        text += fmt::format(
            "  bus       {:.1f} B a packet to the device, {:.1f} B back, {:.0f} packets a batch\n",
            static_cast<double>(chain.bytes_to_device) / static_cast<double>(chain.received_packets),
            static_cast<double>(chain.bytes_to_host) / static_cast<double>(chain.received_packets),
            chain.batches > 0 ? static_cast<double>(chain.received_packets) / static_cast<double>(chain.batches) : 0.0);
    if (!chain.batches_in.empty())
        text += "  ways      in: " + reasons(chain.batches_in) + "; back: " + reasons(chain.batches_back) +
                " batches\n";
    if (!chain.stages.us.empty()) text += fmt::format("  batches   {} us on average\n", reasons(chain.stages.us));
    if (!chain.stages.cycles_per_packet.empty())
        text += fmt::format("  cpu       {} cycles a packet\n", reasons(chain.stages.cycles_per_packet));
    if (chain.retried_on_cpu > 0)
        text += "  on cpu    " + grouped(chain.retried_on_cpu) + " packets were decided on the CPU\n";
    if (chain.kept_on_cpu > 0)
        text += "  on cpu    " + grouped(chain.kept_on_cpu) + " packets came when there were few\n";
    return text + "\n" + (chain.nodes.empty() ? std::string() : nfs_table(chain));
}

}  // namespace

std::string report_text(const exec::Report& report, double seconds) {
    std::string text = fmt::format("\n{} worker{} on {}, {:.2f} s\n\n", report.workers, report.workers == 1 ? "" : "s",
                                   report.engine, seconds);
    text += ports_table(report, seconds) + "\n";
    if (!report.tenants.empty()) text += tenants_table(report) + "\n";
    if (report.receive_cycles_per_packet > 0)
        text += fmt::format("receiving took {:.1f} cycles a packet\n\n", report.receive_cycles_per_packet);
    for (const exec::PortReport& port : report.ports)
        if (!port.trouble.empty()) text += "port " + port.name + ": " + port.trouble + "\n";
    if (report.unclassified_packets > 0) text += grouped(report.unclassified_packets) + " packets were for no chain\n";
    if (report.stray_injections > 0)
        text += grouped(report.stray_injections) + " packets of controllers were for a chain that had gone\n";
    for (const size_t row : busiest(report.chains, [](const exec::ChainReport& one) { return one.received_packets; }))
        text += chain_text(report.chains[row], seconds) + "\n";
    return text + left_out(report.chains.size(), "chains");
}

std::string failures_text(const exec::Report& report) {
    std::string text;
    for (const exec::ChainReport& chain : report.chains) {
        for (const auto& [nf, packets] : chain.undeclared)
            text += "millrace: '" + nf + "' of chain '" + chain.name + "' gave " + grouped(packets) +
                    " packets an outcome that it does not declare; they were dropped\n";
        if (chain.events_lost > 0)
            text += "millrace: chain '" + chain.name + "': " + grouped(chain.events_lost) + " events were lost\n";
    }
    if (!report.conserved()) text += "millrace: the counters do not add up: packets were lost without a reason\n";
    return text;
}

}  // namespace millrace::cli
