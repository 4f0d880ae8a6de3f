// Names of files that are kept from one run to the next.
#pragma once

#include <string>

namespace millrace {

/// The file in cache_folder() of what is kept of a model of device, such as `bus-nvidia-h200.json`; empty without a
/// home.
std::string kept_file(const std::string& kind, const std::string& model);

}  // namespace millrace
