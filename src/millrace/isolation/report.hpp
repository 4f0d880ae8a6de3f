// What the verifier and the rewriter found, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "millrace/isolation/rewrite.hpp"

namespace millrace::isolation {

const char* name_of(Isolation isolation);
/// Nothing when there is no such kind.
std::optional<Isolation> isolation_named(const std::string& name);

/// "sound", and of each refusal "file", "line", "column", "message" and "hint".
nlohmann::json refusals_json(const Verdict& verdict);
/// Of each function its figures.
nlohmann::json functions_json(const std::vector<FunctionReport>& functions);

}  // namespace millrace::isolation
