#include "millrace/base/eal.hpp"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <stdexcept>

namespace millrace {
namespace {

std::atomic<bool> started{false};

/// An address that no PCI device has. An allow list with only this keeps EAL from taking devices at
/// start, while the bus is scanned and a port may still attach its own device by name.
constexpr const char* kNoDevice = "ffff:ff:1f.7";

/// The first CPU on which this process may run: EAL pins its main thread, and CPU 0 may be forbidden.
int first_allowed_cpu(const cpu_set_t& allowed) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &allowed)) return cpu;
    return 0;
}

bool use_huge_pages(const EalOptions& options) {
    if (options.huge_pages == EalOptions::HugePages::on) return true;
    if (options.huge_pages == EalOptions::HugePages::off) return false;
    return free_huge_page_bytes() >= size_t{options.memory_mib} << 20;
}

std::vector<std::string> eal_words(const EalOptions& options, int main_cpu) {
    std::vector<std::string> words = {"millrace",
                                      "--no-telemetry",
                                      "--no-shconf",
                                      "--log-level=lib.*:error",
                                      "--log-level=pmd.*:error",
                                      "--lcores=0@" + std::to_string(main_cpu)};
    // DPDK keeps to 256-bit vectors unless told otherwise; its libraries still ask the CPU what it has.
    words.push_back("--force-max-simd-bitwidth=512");
    if (use_huge_pages(options)) {
        words.push_back("--in-memory");
    } else {
        words.push_back("--no-huge");
        words.push_back("-m");
        words.push_back(std::to_string(options.memory_mib));
        // Without huge pages there are no physical addresses: virtual ones serve as IO addresses.
        words.push_back("--iova-mode=va");
    }
    bool names_device = false;
    for (const std::string& argument : options.arguments) {
        words.push_back(argument);
        names_device |= argument == "-a" || argument.starts_with("--allow") || argument == "-b" ||
                        argument.starts_with("--block") || argument == "--no-pci";
    }
    if (!names_device) {
        words.push_back("-a");
        words.push_back(kNoDevice);
    }
    return words;
}

/// What DPDK has no words for: without processors to count it prints how it is called.
std::string missing_folder() {
    if (std::filesystem::exists("/sys/devices/system/cpu")) return {};
    return "DPDK does not start: it counts the processors in /sys/devices/system/cpu, and there is no such folder; "
           "mount /sys";
}

/// Where DPDK makes a folder while it starts, in which nothing is kept. An ordinary user's would be /tmp/dpdk, which
/// belongs to the first one who came, or in $XDG_RUNTIME_DIR, which su leaves as it was: DPDK would complain.
class RuntimeFolder {
public:
    RuntimeFolder() {
        if (geteuid() == 0 || getenv(kFolder) != nullptr) return;
        std::error_code error;
        std::string name = std::filesystem::temp_directory_path(error) / "millrace-dpdk-XXXXXX";
        if (error || mkdtemp(name.data()) == nullptr) return;
        path_ = name;
        setenv(kFolder, path_.c_str(), 1);
    }
    ~RuntimeFolder() {
        if (path_.empty()) return;
        unsetenv(kFolder);
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    RuntimeFolder(const RuntimeFolder&) = delete;
    RuntimeFolder& operator=(const RuntimeFolder&) = delete;

private:
    static constexpr const char* kFolder = "RUNTIME_DIRECTORY";  // systemd.exec(5)
    std::string path_;
};

/// Why DPDK did not start, and what would mend that.
std::string why_refused() {
    const std::string why = std::string("DPDK does not start: ") + rte_strerror(rte_errno) + "; ";
    rlimit addresses{};
    if (rte_errno == ENOMEM && getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
        return why + "this process may have " + std::to_string(addresses.rlim_cur >> 20) +
               " MiB of addresses, and DPDK sets aside many that it never uses: raise 'ulimit -v', and limit memory "
               "by a cgroup";
    return why + "DPDK's own lines, above, say more, and 'millrace doctor' checks this machine";
}

}  // namespace

void start_eal(const EalOptions& options) {
    static std::mutex mutex;
    static std::string refused;
    const std::lock_guard lock(mutex);
    if (started) return;
    // DPDK keeps half of what a start that failed has set up, and takes a second one's arguments for wrong.
    if (refused.empty()) refused = missing_folder();
    if (!refused.empty()) throw std::runtime_error(refused);

    cpu_set_t affinity;
    CPU_ZERO(&affinity);
    pthread_getaffinity_np(pthread_self(), sizeof affinity, &affinity);
    std::vector<std::string> words = eal_words(options, first_allowed_cpu(affinity));
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const RuntimeFolder folder;
    const bool runs = rte_eal_init(static_cast<int>(words.size()), argv.data()) >= 0;
    if (!runs) refused = why_refused();
    // Threads inherit the affinity, so the pin to one CPU would put all that follow on it.
    pthread_setaffinity_np(pthread_self(), sizeof affinity, &affinity);
    if (!runs) throw std::runtime_error(refused);
    started = true;
}

bool eal_running() { return started; }
bool eal_has_huge_pages() { return started && rte_eal_has_hugepages() != 0; }

size_t free_huge_page_bytes() {
    size_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", error)) {
        const std::string name = entry.path().filename();  // hugepages-2048kB
        const size_t dash = name.find('-');
        size_t pages = 0;
        if (dash != std::string::npos && std::ifstream(entry.path() / "free_hugepages") >> pages)
            bytes += pages * std::strtoull(name.c_str() + dash + 1, nullptr, 10) * 1024;
    }
    return bytes;
}

WorkerThread::WorkerThread(const std::string& name, int cpu, std::function<void()> run) {
    std::promise<std::string> ready;
    std::future<std::string> problem = ready.get_future();
    thread_ = std::thread([&ready, name, cpu, run = std::move(run)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        std::string trouble;
        if (cpu >= 0) {
            cpu_set_t set;
            CPU_ZERO(&set);
            if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
            if (const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set); error != 0)
                trouble = "cannot run on CPU " + std::to_string(cpu) + ": " + std::strerror(error);
        }
        if (trouble.empty() && started && rte_thread_register() < 0)
            trouble = std::string("DPDK takes no further thread: ") + rte_strerror(rte_errno);
        const bool go = trouble.empty();
        ready.set_value(trouble);
        if (!go) return;
        run();
        if (started) rte_thread_unregister();
    });
    if (const std::string trouble = problem.get(); !trouble.empty()) {
        thread_.join();
        throw std::runtime_error("thread '" + name + "': " + trouble);
    }
}

void WorkerThread::join() {
    if (thread_.joinable()) thread_.join();
}

}  // namespace millrace
