// Reads YAML. What is too large, too deep or refers to itself is refused early.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "millrace/base/text/yaml_node.hpp"

namespace millrace {

/// What is longer, deeper or holds more values than this is no configuration, but a slip or an attack. Large tables
/// have files of their own.
inline constexpr size_t kMaxYamlBytes = size_t{16} << 20;
inline constexpr size_t kMaxYamlDepth = 64;
inline constexpr size_t kMaxYamlValues = 1'000'000;

/// The value that `text` is, null where it is empty. Throws ConfigError, with line and column in `file`, unless it is
/// one YAML document in UTF-8 within these limits. Values behind aliases count each time that they are meant.
std::shared_ptr<const YamlNode> read_yaml(const std::string& text, const std::string& file);

}  // namespace millrace
