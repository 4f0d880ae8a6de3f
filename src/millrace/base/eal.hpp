// DPDK's environment, which the CPU halves (rte_fib, rte_acl) and the ports need.
#pragma once

#include <string>
#include <vector>

namespace millrace {

/// How to start DPDK's environment abstraction layer.
struct EalOptions {
    bool huge_pages = false;            ///< else ordinary memory, which works everywhere
    unsigned memory_mib = 512;          ///< without huge pages, this much is set aside at start
    std::vector<std::string> arguments; ///< further EAL arguments, as DPDK's manual has them
};

/// Starts the environment if it is not running; the first call decides how. Safe from any thread.
/// The calling thread becomes an EAL thread. Throws std::runtime_error with DPDK's reason.
void start_eal(const EalOptions& options = {});

}  // namespace millrace
