// The doctor looks at memory, CPU and rights.
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "millrace/base/eal.hpp"
#include "millrace/doctor/parts.hpp"

namespace millrace::doctor {

std::string first_line(const std::string& path) {
    std::string line;
    std::ifstream in(path);
    std::getline(in, line);
    return line;
}

std::string field_of(const std::string& path, const std::string& key) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        if (!line.starts_with(key)) continue;
        size_t at = line.find_first_not_of(" \t", key.size());
        if (at == std::string::npos || line[at] != ':') continue;
        at = line.find_first_not_of(" \t", at + 1);
        return at == std::string::npos ? "" : line.substr(at);
    }
    return {};
}

std::string link_name(const std::string& path) {
    std::error_code error;
    return std::filesystem::read_symlink(path, error).filename().string();
}

namespace {

std::string mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

void examine_huge_pages(Findings& findings) {
    const size_t free_bytes = free_huge_page_bytes();
    if (free_bytes > 0) ok(findings, "memory", "huge pages", mib(free_bytes) + " free");
    else
        absent(
            findings, "memory", "huge pages", "none free",
            "packet buffers lie in ordinary memory: more TLB misses, and NICs driven from user space cannot reach them",
            "echo 1024 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, or hugepages=1024 on the kernel's "
            "command line");
    const std::string transparent = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
    note(findings, "memory", "transparent huge pages", transparent.empty() ? "not in this kernel" : transparent);
}

}  // namespace

void examine_memory(Findings& findings) {
    note(findings, "memory", "total", field_of("/proc/meminfo", "MemTotal"));
    examine_huge_pages(findings);
    size_t nodes = 0;
    while (std::filesystem::exists("/sys/devices/system/node/node" + std::to_string(nodes))) ++nodes;
    note(findings, "memory", "NUMA nodes", std::to_string(std::max<size_t>(nodes, 1)));
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    constexpr uint64_t kEnough = uint64_t{1} << 30;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kEnough)
        ok(findings, "memory", "locked memory", limit.rlim_cur == RLIM_INFINITY ? "unlimited" : mib(limit.rlim_cur));
    else
        absent(findings, "memory", "locked memory", "at most " + mib(limit.rlim_cur),
               "af_xdp ports, VFIO devices and pinned GPU buffers may be refused",
               "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service");
}

void examine_cpu(Findings& findings) {
    note(findings, "cpu", "model", field_of("/proc/cpuinfo", "model name"));
    note(findings, "cpu", "cores", std::to_string(std::thread::hardware_concurrency()) + " usable");
    const std::string isolated = first_line("/sys/devices/system/cpu/isolated");
    note(findings, "cpu", "isolated cores",
         isolated.empty() ? "none: other processes may interrupt workers (isolcpus=, nohz_full=)" : isolated);
    if (const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        !governor.empty())
        note(findings, "cpu", "frequency governor", governor);

    std::istringstream words(field_of("/proc/cpuinfo", "flags"));
    std::vector<std::string> flags;
    for (std::string word; words >> word;) flags.push_back(word);
    const auto has = [&](const std::string& flag) {
        return std::find(flags.begin(), flags.end(), flag) != flags.end();
    };
    const auto feature = [&](const std::string& name, bool there, const std::string& cost) {
        if (there) ok(findings, "cpu", name, "yes");
        else
            absent(findings, "cpu", name, "no", cost, "a newer CPU; in a virtual machine, pass the host's CPU through");
    };
    feature("AVX2", has("avx2"), "pattern matching, lookups and crypto on the CPU run at a fraction of their speed");
    feature("AVX-512", has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq"),
            "route lookup, classification and pattern matching on the CPU are about half as fast");
    feature("AES", has("aes"), "AES on the CPU is slower by an order of magnitude");
    feature("VAES", has("vaes") && has("vpclmulqdq"), "AES on the CPU is about three times slower");
    feature("SHA", has("sha_ni"), "SHA-1 and SHA-256 of single packets on the CPU are slower");
}

void examine_rights(Findings& findings) {
    const std::string text = field_of("/proc/self/status", "CapEff");
    const uint64_t capabilities = text.empty() ? 0 : std::stoull(text, nullptr, 16);
    const auto right = [&](const std::string& name, unsigned bit, const std::string& cost) {
        if ((capabilities >> bit & 1) != 0) ok(findings, "rights", name, "yes");
        else absent(findings, "rights", name, "no", cost, "run as root, or setcap " + name + "+ep on the program");
    };
    // Numbers of linux/capability.h.
    right("cap_net_raw", 13, "no af_packet ports, which need it for their packet sockets, and no af_xdp");
    right("cap_net_admin", 12, "no tap and af_xdp ports, no promiscuous mode");
    right("cap_bpf", 39, "no af_xdp ports, which need it for their XDP program");
    right("cap_ipc_lock", 14, "huge pages and locked memory only within the user's limits");
    utsname system{};
    unsigned major = 0;
    if (uname(&system) == 0 && std::sscanf(system.release, "%u.", &major) == 1 && major >= 5)
        ok(findings, "rights", "kernel", system.release);
    else
        absent(findings, "rights", "kernel", system.release, "taps keep their link when that of their port is gone",
               "Linux 5.0 or newer");
    if (access("/dev/net/tun", R_OK | W_OK) == 0) ok(findings, "rights", "/dev/net/tun", "usable");
    else
        absent(findings, "rights", "/dev/net/tun", "not usable", "no tap ports",
               "modprobe tun, and rights on the device");
    if (access("/dev/vfio/vfio", R_OK | W_OK) == 0) ok(findings, "rights", "/dev/vfio/vfio", "usable");
    else
        absent(findings, "rights", "/dev/vfio/vfio", "not usable", "no NICs through VFIO (mlx5 does not need it)",
               "modprobe vfio-pci, an IOMMU, and rights on the device");
}

}  // namespace millrace::doctor
