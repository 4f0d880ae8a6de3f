#include "lab/machine.hpp"

#include <dlfcn.h>
#include <rte_cycles.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <millrace_commit.hpp>  // written at build time

namespace millrace::lab {
namespace {

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::tm parts{};
    std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &parts));
    return text;
}

std::string processor() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

double load_average() {
    double load = 0;
    std::ifstream("/proc/loadavg") >> load;
    return load;
}

/// NVML's functions; it is loaded once and stays.
struct Nvml {
    using Device = void*;
    int (*by_bus_id)(const char*, Device*) = nullptr;
    int (*energy)(Device, unsigned long long*) = nullptr;

    Nvml() {
        void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        if (library == nullptr) return;
        const auto start = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
        if (start == nullptr || start() != 0) return;
        by_bus_id = reinterpret_cast<int (*)(const char*, Device*)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
        energy = reinterpret_cast<int (*)(Device, unsigned long long*)>(
            dlsym(library, "nvmlDeviceGetTotalEnergyConsumption"));
    }
};

}  // namespace

std::string commit() { return MILLRACE_COMMIT; }

nlohmann::json provenance() {
    std::ifstream own("/proc/self/cmdline");
    std::string command, word;
    std::getline(own, command, '\0');
    command = std::filesystem::path(command).filename();
    while (std::getline(own, word, '\0')) command += " " + word;
    return {{"command", command},
            {"date", today()},
            {"commit", commit()},
            {"machine",
             {{"processor", processor()},
              {"cores", std::thread::hardware_concurrency()},
              {"load-average", load_average()},
              {"tsc-ghz", static_cast<double>(rte_get_tsc_hz()) * 1e-9}}}};
}

std::optional<double> gpu_joules(const std::string& bus_id) {
    static const Nvml nvml;
    Nvml::Device device = nullptr;
    unsigned long long millijoules = 0;
    if (nvml.by_bus_id == nullptr || nvml.energy == nullptr || nvml.by_bus_id(bus_id.c_str(), &device) != 0 ||
        nvml.energy(device, &millijoules) != 0)
        return std::nullopt;
    return static_cast<double>(millijoules) * 1e-3;
}

}  // namespace millrace::lab
