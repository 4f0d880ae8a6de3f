// Runs the chain and the bare loop in turns, and compares what they send and what it costs.
#pragma once

#include <string>
#include <vector>

#include "lab/workload.hpp"

namespace millrace::lab {

/// What one side costs. Cycles are those of the time stamp counter, of the thread's own CPU time.
struct Cost {
    double best_cycles = 0;  ///< a packet received, of the cheapest slice
    double median_cycles = 0;
    std::vector<std::pair<std::string, double>> stages;  ///< cycles a packet that came there, of its cheapest slice
};

struct AgainstBareLoop {
    uint32_t frame_bytes = 0;
    Cost chain, bare;
    uint64_t slices = 0;
    double ratio = 0;         ///< throughput of the chain over the bare loop's: cheapest slice against cheapest
    double median_ratio = 0;  ///< median over neighbouring slices
    uint64_t compared_in = 0, compared_out = 0;  ///< frames that went in and came out, compared byte by byte
    std::string difference;                      ///< empty when all were equal
};

struct EmptyPath {
    uint16_t burst = 0;
    Cost cost;
};

/// Frames of one length through both, for about `seconds`.
AgainstBareLoop compare(const Workload& workload, uint32_t frame_bytes, double seconds);
/// Source to sink without an NF.
EmptyPath measure_empty_path(const Workload& workload, uint16_t burst, double seconds);

double tsc_hz();

}  // namespace millrace::lab
