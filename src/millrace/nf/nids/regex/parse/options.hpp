// What the flags behind a pattern, and (?i) and the like within it, switch.
#pragma once

#include <string_view>

#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex {

struct Options {
    bool caseless = false, lines = false, dot_all = false, extended = false, end_only = false, lazy = false;
};

/// The flags of a whole pattern. `anchored`: flag A is among them. Throws Refusal at `offset`.
Options options_of(std::string_view flags, size_t offset, bool& anchored);
/// Where `text[at]` begins letters such as "im-s" with ) or : behind them: where those end. Nothing otherwise.
std::optional<size_t> end_of_options(std::string_view text, size_t at);
/// Takes the letters up to there; leaves `at` behind them. Throws Refusal.
void take_options(std::string_view text, size_t& at, size_t end, Options& options);

}  // namespace millrace::nf::nids::regex
