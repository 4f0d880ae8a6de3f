// CPU stages of tenants' functions, for people.
#pragma once

#include <map>
#include <string>

#include "millrace/exec/tenants.hpp"

namespace millrace::cli {

/// A line on how long batches take in each; empty where the function has none.
std::string stages_text(const std::string& tenant, const std::map<std::string, exec::TenantReport::Times>& stages);

}  // namespace millrace::cli
