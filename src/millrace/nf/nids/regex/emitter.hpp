// From the tree of a pattern to its program.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "millrace/nf/nids/regex/parse/parser.hpp"

namespace millrace::nf::nids::regex {

/// The program of `parsed`, header included. `set_index` gives a set its place in RegexTables::sets.
/// Throws Refusal.
std::vector<uint32_t> emit_program(const Parsed& parsed, const std::function<uint32_t(const ByteSet&)>& set_index);

}  // namespace millrace::nf::nids::regex
