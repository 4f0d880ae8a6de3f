// From the text of a pattern to its tree.
#pragma once

#include <string_view>

#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex {

struct Parsed {
    Node root;
    uint32_t groups = 0;    ///< capturing groups
    bool anchored = false;  ///< flag A
};

/// Parses a pattern without its slashes, in the syntax of README.md. `flags` are letters of "imsxAEG".
/// Throws Refusal.
Parsed parse_pattern(std::string_view pattern, std::string_view flags);

}  // namespace millrace::nf::nids::regex
