// What a runtime has done so far, as numbers: for tables, JSON and metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/exec/runtime/runtime.hpp"

namespace millrace::exec {

struct OutcomeReport {
    std::string name;
    std::string leads_to;  ///< "next", "drop", "punt", "port wan", "chain web", …
    uint64_t packets = 0;
};

struct NodeReport {
    std::string name, kind;
    uint64_t packets = 0, bytes = 0;
    double cycles_per_packet = 0;         ///< of the CPU; 0 where a device did the work
    std::vector<OutcomeReport> outcomes;  ///< all that the NF declares
    std::vector<nf::Statistic> statistics;
};

struct LatencyReport {  ///< nanoseconds from receive to send
    uint64_t p50 = 0, p95 = 0, p99 = 0, p999 = 0, most = 0;
};

struct ChainReport {
    std::string name;
    uint64_t received_packets = 0, received_bytes = 0, sent_packets = 0, sent_bytes = 0;
    uint64_t injected = 0, submitted = 0;  ///< put in at the chain's end, at its start; the latter are received, too
    uint64_t copied = 0, dropped = 0, punted = 0, passed_on = 0, in_flight = 0;
    uint64_t reassembled = 0, joined = 0, split = 0;  ///< see ChainCounters
    uint64_t batches = 0, events = 0, events_lost = 0, retold_on_cpu = 0, retried_on_cpu = 0, kept_on_cpu = 0;
    uint64_t bytes_to_device = 0, bytes_to_host = 0;
    std::map<std::string, uint64_t> batches_in, batches_back;  ///< by the way that they took: "rows", "region"
    StageMeans stages;                                         ///< of batches on a device
    std::map<std::string, uint64_t> drops;                     ///< by "nf.outcome", "parser.reason", "exit.reason",
                                                               ///< "fragments.reason"
    std::map<std::string, uint64_t> punts;
    std::map<std::string, uint64_t> undeclared;  ///< packets dropped for an outcome that their NF did not declare, by
                                                 ///< NF
    LatencyReport latency;
    std::vector<NodeReport> nodes;
    PromiseReport promise;  ///< as PromiseWatch::add_to has it
    /// received + injected + copied + split = sent + dropped + punted + passed on + joined + in flight, and the reasons
    /// add up.
    bool conserved() const;
    /// Of a chain at work, whose counters are some packets apart: counts as dropped what has a reason, and as in flight
    /// all that has not left otherwise.
    void settle();
};

struct PortReport {
    std::string name, kind, detail;
    io::PortCounters counters;
    std::string trouble;
};

struct Report {
    std::string engine;
    uint64_t generation = 0;
    unsigned workers = 0;
    uint64_t unclassified_packets = 0;
    uint64_t stray_injections = 0;         ///< put in by a controller for a chain that had gone
    double receive_cycles_per_packet = 0;  ///< of the CPU, to receive a packet and, with a device, put it in a chain's
                                           ///< queue
    std::vector<ChainReport> chains;
    std::vector<PortReport> ports;
    std::vector<TenantReport> tenants;

    /// Every chain is conserved, and what the ports received and others put in is what the chains got. Exact once the
    /// workers have ended.
    bool conserved() const;
};

/// Adds up all workers. Any thread, any time; counters of running workers may be some packets apart.
Report make_report(const Runtime& runtime);

/// The report as JSON, with the names of the fields above in lower case joined by '-'.
std::string report_json(const Report& report, double seconds);

}  // namespace millrace::exec
