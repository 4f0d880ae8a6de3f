// DPDK's environment, which the CPU halves (rte_fib, rte_acl) and the ports need.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace millrace {

/// How to start DPDK's environment abstraction layer.
struct EalOptions {
    enum class HugePages {
        automatic,  ///< when at least `memory_mib` of them are free and the process may use them
        off,        ///< ordinary memory, which works everywhere and without rights
        on,
    };
    HugePages huge_pages = HugePages::off;
    unsigned memory_mib = 2048;            ///< without huge pages, this much address space is set aside at start
                                           ///< (two generations of a full routing table take 1.4 GiB of it)
    std::vector<std::string> arguments{};  ///< further EAL arguments, as DPDK's manual has them
};

/// Starts the environment if it is not running; the first call decides how. Safe from any thread.
/// The calling thread becomes an EAL thread and keeps its CPU affinity. No device is touched: ports
/// are attached later, each by its own name. Takes about 120 ms, 100 of which DPDK spends on
/// measuring the time stamp counter where the CPU does not tell its rate. Throws std::runtime_error
/// with DPDK's reason, as does every later call: it starts once in a process. Nothing of DPDK may then be called.
void start_eal(const EalOptions& options = {});

/// Whether the environment runs, and whether on huge pages.
bool eal_running();
bool eal_has_huge_pages();

/// Free huge pages of all sizes, in bytes, as the kernel tells.
size_t free_huge_page_bytes();

/// A thread that DPDK knows (so that mempool caches and other per-lcore state work in it), pinned to
/// one CPU if asked. Joins when destroyed: the function must end by itself.
class WorkerThread {
public:
    /// Starts `run`. `cpu` < 0 leaves the choice to the kernel. `name` is cut to 15 characters.
    /// Throws std::runtime_error when the CPU is not there or DPDK has no room for another thread.
    WorkerThread(const std::string& name, int cpu, std::function<void()> run);
    ~WorkerThread() { join(); }
    WorkerThread(WorkerThread&&) = default;
    WorkerThread& operator=(WorkerThread&&) = delete;
    void join();

private:
    std::thread thread_;
};

}  // namespace millrace
