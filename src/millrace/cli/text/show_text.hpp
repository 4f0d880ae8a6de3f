// What a run answers to `millrace show`, as tables for people.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace millrace::cli {

/// An answer may lack anything: it came from elsewhere.
std::string shown_text(const nlohmann::json& answer, const std::string& topic);

}  // namespace millrace::cli
