// Text made from a pattern's tree, so that searches have something to find.
#pragma once

#include <map>
#include <random>
#include <string>

#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex::test {

using Random = std::mt19937;

/// A number in [0, below).
uint32_t pick(Random& random, uint32_t below);
std::string random_bytes(Random& random, size_t count);
/// A string that probably matches: lookarounds and assertions aren't heeded.
std::string string_from(const Node& node, Random& random);
/// A few bytes changed, dropped or doubled.
std::string mutated(std::string text, Random& random);

}  // namespace millrace::nf::nids::regex::test
