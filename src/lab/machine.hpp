// What a benchmark ran on.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace millrace::lab {

/// Command, date, commit, and the machine: what every JSON file of a benchmark begins with.
nlohmann::json provenance();

/// The commit that this program was built from, as `git describe` calls it; empty when built outside of git.
std::string commit();

}  // namespace millrace::lab
