#include "millrace/base/eal.hpp"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include <mutex>
#include <stdexcept>

namespace millrace {

void start_eal(const EalOptions& options) {
    static std::mutex mutex;
    static bool started = false;
    const std::lock_guard lock(mutex);
    if (started) return;

    std::vector<std::string> words = {"millrace", "--in-memory", "--no-telemetry", "--no-shconf", "--log-level=lib.*:error",
                                      "--log-level=pmd.*:error", "--lcores=0@0"};
    if (!options.huge_pages) {
        words.push_back("--no-huge");
        words.push_back("-m");
        words.push_back(std::to_string(options.memory_mib));
        // Without huge pages there are no physical addresses: virtual ones serve as IO addresses.
        words.push_back("--iova-mode=va");
    }
    bool names_device = false;
    for (const std::string& argument : options.arguments) {
        words.push_back(argument);
        names_device |= argument == "-a" || argument.starts_with("--allow");
    }
    if (!names_device) words.push_back("--no-pci");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (rte_eal_init(static_cast<int>(words.size()), argv.data()) < 0) {
        throw std::runtime_error(std::string("DPDK does not start: ") + rte_strerror(rte_errno) +
                                 "; 'millrace doctor' shows what this machine lacks");
    }
    started = true;
}

}  // namespace millrace
