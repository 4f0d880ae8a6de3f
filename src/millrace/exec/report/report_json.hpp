// Reports as JSON: with the names of their fields in lower case joined by '-'.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "millrace/exec/report/report.hpp"

namespace millrace::exec {

nlohmann::json chain_json(const ChainReport& chain);
nlohmann::json port_json(const PortReport& port);
nlohmann::json tenant_json(const TenantReport& tenant);

}  // namespace millrace::exec
