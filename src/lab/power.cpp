#include "lab/power.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace millrace::lab {
namespace {

namespace fs = std::filesystem;

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

std::optional<uint64_t> number_in(const fs::path& file) {
    std::ifstream in(file);
    uint64_t number = 0;
    return in >> number ? std::optional(number) : std::nullopt;
}

/// "package-0", "psys", "dram".
std::string name_of_zone(const fs::path& zone) {
    std::ifstream in(zone / "name");
    std::string name;
    in >> name;
    return name;
}

nlohmann::json json_of(const Watts& watts) {
    nlohmann::json json = nlohmann::json::object();
    if (watts.running) json["watts"] = *watts.running;
    if (watts.idle) json["idle-watts"] = *watts.idle;
    if (!watts.missing.empty()) json["missing"] = watts.missing;
    return json;
}

std::string text_of_watts(const char* name, const Watts& watts) {
    if (!watts.running) return {};
    return fmt::format("{} {:.0f} W{}", name, *watts.running,
                       watts.idle ? fmt::format(", idle {:.0f} W", *watts.idle) : "");
}

}  // namespace

std::optional<double> gpu_joules(const std::string& bus_id) {
    static const Nvml nvml;
    Nvml::Device device = nullptr;
    unsigned long long millijoules = 0;
    if (nvml.by_bus_id == nullptr || nvml.energy == nullptr || nvml.by_bus_id(bus_id.c_str(), &device) != 0 ||
        nvml.energy(device, &millijoules) != 0)
        return std::nullopt;
    return static_cast<double>(millijoules) * 1e-3;
}

nlohmann::json Power::json() const {
    nlohmann::json json = nlohmann::json::object();
    if (nlohmann::json own = json_of(gpu); !own.empty()) json["gpu"] = std::move(own);
    if (nlohmann::json own = json_of(cpu); !own.empty()) json["cpu-packages"] = std::move(own);
    return json;
}

std::string Power::text() const {
    const std::string of_gpu = text_of_watts("GPU", gpu), of_cpu = text_of_watts("CPU", cpu);
    return of_gpu + (of_gpu.empty() || of_cpu.empty() ? "" : "; ") + of_cpu;
}

PowerMeter::PowerMeter(std::vector<std::string> gpus, fs::path powercap, GpuJoules gpu_joules)
    : gpus_(std::move(gpus)), gpu_joules_(std::move(gpu_joules)) {
    std::error_code error;
    fs::directory_iterator zones(powercap, error);
    if (error) {
        no_packages_ = powercap.string() + " is not there";
        return;
    }
    // Zones within a package (cores, DRAM) are part of it; psys is more than the packages.
    for (const fs::directory_entry& zone : zones)
        if (name_of_zone(zone.path()).starts_with("package-"))
            packages_.push_back(
                {zone.path() / "energy_uj", number_in(zone.path() / "max_energy_range_uj").value_or(UINT64_MAX)});
    std::ranges::sort(packages_, {}, &Package::counter);
    if (packages_.empty()) no_packages_ = powercap.string() + " has no CPU package";
    for (const Package& package : packages_)
        if (!number_in(package.counter)) no_packages_ = package.counter.string() + " can't be read";
    if (!no_packages_.empty()) packages_.clear();
}

PowerMeter::Reading PowerMeter::read() const {
    Reading reading{std::chrono::steady_clock::now(), std::nullopt, {}};
    double joules = 0;
    bool all = !gpus_.empty();
    for (const std::string& gpu : gpus_) {
        const std::optional<double> own = gpu_joules_(gpu);
        joules += own.value_or(0);
        all &= own.has_value();
    }
    if (all) reading.gpu = joules;
    for (const Package& package : packages_) {
        const std::optional<uint64_t> own = number_in(package.counter);
        if (!own) return reading.packages.clear(), reading;
        reading.packages.push_back(*own);
    }
    return reading;
}

bool PowerMeter::there() const {
    const Reading reading = read();
    return reading.gpu.has_value() || !reading.packages.empty();
}

Power PowerMeter::between(const Reading& from, const Reading& to, const Power* idle) const {
    Power power;
    const double seconds = std::chrono::duration<double>(to.at - from.at).count();
    if (from.gpu && to.gpu) {
        power.gpu_joules = *to.gpu - *from.gpu;
        power.gpu.running = power.gpu_joules / seconds;
    } else if (!gpus_.empty()) {
        power.gpu.missing = "NVML tells no energy of it";
    }
    const size_t count = packages_.size();
    if (count > 0 && from.packages.size() == count && to.packages.size() == count) {
        double joules = 0;
        for (size_t i = 0; i < count; ++i) {
            const uint64_t before = from.packages[i], after = to.packages[i];
            joules += 1e-6 *
                      static_cast<double>(after >= before ? after - before : packages_[i].range - before + after);
        }
        power.cpu.running = joules / seconds;
    } else {
        power.cpu.missing = no_packages_.empty() ? "their counters can't be read any more" : no_packages_;
    }
    if (idle != nullptr) {
        power.gpu.idle = idle->gpu.running;
        power.cpu.idle = idle->cpu.running;
    }
    return power;
}

}  // namespace millrace::lab
