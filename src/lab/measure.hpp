// A configuration at work between traffic sources and sinks, and what it did in a span of time.
#pragma once

#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/histogram.hpp"
#include "millrace/exec/report/counters.hpp"
#include "lab/compared/comparison.hpp"
#include "lab/compared/master_worker.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/sink_port.hpp"
#include "millrace/io/source/source_port.hpp"

namespace millrace::lab {

using LatencyCounts = std::array<uint64_t, Histogram::kBuckets>;

/// What was counted up to a moment, or between two. Of all workers and chains together.
struct Counts {
    double seconds = 0;  ///< a moment, or the span
    uint64_t received_packets = 0, received_bytes = 0, sent_packets = 0, sent_bytes = 0;
    uint64_t dropped = 0, punted = 0, missed = 0;  ///< missed: lost by sources for want of descriptors
    uint64_t bytes_to_device = 0, bytes_to_host = 0, batches = 0, retried_on_cpu = 0, kept_on_cpu = 0;
    std::array<uint64_t, std::size(exec::kTransfersIn)> batches_in{};  ///< by the way that they took
    std::array<uint64_t, std::size(exec::kTransfersOut)> batches_back{};
    exec::StageCycles stage_cycles{};  ///< of all batches together, TSC
    uint64_t receive_cycles = 0;       ///< of all workers
    LatencyCounts latency{};  ///< from when a packet was due to the sink, if sinks time packets; else within the engine
    struct Node {
        std::string name;
        uint64_t packets = 0, cycles = 0;  ///< of the CPU
    };
    std::vector<Node> nodes;

    friend Counts operator-(Counts later, const Counts& earlier);
    double packet_rate() const { return seconds > 0 ? static_cast<double>(received_packets) / seconds : 0; }
    /// Frame bytes that came in, in bits a second.
    double bit_rate() const { return seconds > 0 ? static_cast<double>(received_bytes) * 8 / seconds : 0; }
    double latency_us(double percent) const {
        return static_cast<double>(Histogram::percentile(latency, percent)) * 1e-3;
    }
    double per_packet(uint64_t total) const {
        return received_packets > 0 ? static_cast<double>(total) / static_cast<double>(received_packets) : 0;
    }
};

struct RunOptions {
    unsigned workers = 1;
    std::vector<unsigned> cores;
    Threading threading = Threading::full_path;
    uint16_t burst = 256;
    exec::CpuOptions cpu;
    exec::OffloadOptions offload;
    Comparison compared;                                   ///< `devices` work so
    bool whole_frames = false;                             ///< move every byte both ways, whatever the field plans say
    std::vector<std::shared_ptr<device::Device>> devices;  ///< none: the cpu, or those of the configuration
    uint32_t buffers = 65536;                              ///< of each worker
    io::SourceDelivery sources;                            ///< how they hand out frames
    std::string timeline_file;                             ///< for a trace of every batch; empty: none
};

/// A packet that came out, and the frame that it was.
struct Sample {
    uint64_t number = 0;
    std::vector<uint8_t> before, after;
};

/// How a run ended.
struct Ending {
    bool conserved = false;
    std::string trouble;                    ///< of workers and ports; empty when there was none
    std::map<std::string, uint64_t> drops;  ///< in the whole run, as of exec::ChainReport, of all chains together
    uint64_t events = 0, events_lost = 0;   ///< in the whole run: alerts of the NIDS
    uint64_t retold_on_cpu = 0;             ///< packets whose events the CPU found again
    std::vector<Sample> samples;
    std::string engine;
};

/// A configuration whose inputs are sources of `ports` (YAML, named as in the configuration) and whose outputs are
/// sinks.
class Run {
public:
    Run(const chain::Configuration& configuration, const std::string& ports, const RunOptions& options);
    ~Run();
    /// Returns when every worker has done its first packets.
    void start();
    /// Lets it work for so long.
    void sleep(double seconds) const;
    /// Seconds since it was started.
    double elapsed() const;
    /// What was counted so far. Any time; while it works, counters may be some packets apart.
    Counts counts() const;
    /// Packets within chains, by the counters.
    uint64_t in_flight() const;
    void set_rate(double packets_per_second);
    /// Stops it, waits for what is in flight, and looks at what came out.
    Ending finish();

private:
    exec::Runtime runtime_;
    std::vector<io::SourcePort*> sources_;
    std::vector<io::SinkPort*> sinks_;
    std::vector<std::shared_ptr<device::Device>> devices_;
    double begin_ = 0;
};

/// `warm_up` seconds, then `seconds` that count.
struct Measured {
    Counts counts;
    Ending ending;
};
Measured measure(const chain::Configuration& configuration, const std::string& ports, const RunOptions& options,
                 double warm_up, double seconds);

/// The port map's YAML for a configuration: `source` for every port that chains take packets from, sinks for the
/// others. Throws ConfigError for one that does both.
std::string bench_ports(const chain::Configuration& configuration, const std::string& source_options,
                        const std::string& sink_options, const RunOptions& options);

}  // namespace millrace::lab
