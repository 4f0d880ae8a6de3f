// What a benchmark ran on, and what it cost in energy.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace millrace::lab {

/// Command, date, commit, and the machine: what every JSON file of a benchmark begins with.
nlohmann::json provenance();

/// The commit that this program was built from, as `git describe` calls it; empty when built outside of git.
std::string commit();

/// Energy that the GPU at `bus_id` has used, in joules, by NVML, which counts for the whole board; nothing without
/// NVML. Differences between two moments count.
std::optional<double> gpu_joules(const std::string& bus_id);

}  // namespace millrace::lab
