// What a run costs in energy: of GPUs by NVML, of CPU packages by RAPL.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace millrace::lab {

/// Where Linux shows RAPL's counters.
inline constexpr const char* kPowercap = "/sys/class/powercap";

/// Energy that the GPU at `bus_id` has used, in joules, by NVML, which counts for the whole board; nothing without
/// NVML. Differences between two moments count.
std::optional<double> gpu_joules(const std::string& bus_id);

/// Average watts of one kind of consumer, all of it together.
struct Watts {
    std::optional<double> running, idle;
    std::string missing = {};  ///< why there are none; empty where there are, or where there is no such consumer
};
/// Of the GPUs of a device, and of all CPU packages of the machine.
struct Power {
    Watts gpu, cpu;
    double gpu_joules = 0;  ///< while it ran; 0: unknown
    nlohmann::json json() const;
    /// "GPU 310 W, idle 112 W; CPU 180 W, idle 95 W", as far as it is known; empty where nothing is.
    std::string text() const;
};

/// Reads the counters.
class PowerMeter {
public:
    using GpuJoules = std::function<std::optional<double>(const std::string& bus_id)>;

    /// Of the GPUs at these addresses, an empty one being a GPU that nobody can ask for.
    explicit PowerMeter(std::vector<std::string> gpus, std::filesystem::path powercap = kPowercap,
                        GpuJoules gpu_joules = lab::gpu_joules);

    /// The counters at a moment.
    struct Reading {
        std::chrono::steady_clock::time_point at;
        std::optional<double> gpu;       ///< joules
        std::vector<uint64_t> packages;  ///< microjoules of each; empty: they can't be read
    };
    Reading read() const;
    /// Whether there is any counter to read.
    bool there() const;
    /// Watts between two readings, and the GPUs' joules. `idle`: of a time before, or nothing.
    Power between(const Reading& from, const Reading& to, const Power* idle = nullptr) const;

private:
    struct Package {
        std::filesystem::path counter;
        uint64_t range;  ///< in microjoules: the counter begins again behind it
    };
    std::vector<std::string> gpus_;
    GpuJoules gpu_joules_;
    std::vector<Package> packages_;
    std::string no_packages_;  ///< why there are none
};

}  // namespace millrace::lab
