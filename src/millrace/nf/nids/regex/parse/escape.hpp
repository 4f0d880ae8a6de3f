// The small parts of a pattern: escapes, classes in brackets, numbers and names. Each function starts
// at `text[at]` and leaves `at` behind what it took. All throw Refusal.
#pragma once

#include <string>
#include <string_view>

#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex {

/// The byte that an escape stands for; `at` is behind the backslash. In a class, \b is a backspace.
uint8_t escaped_byte(std::string_view text, size_t& at, bool in_class);
/// A class in brackets; `at` is behind the opening one.
ByteSet byte_class(std::string_view text, size_t& at, bool caseless);
/// Digits, capped far above anything useful.
uint64_t decimal(std::string_view text, size_t& at);
/// The name of a group, up to and with `end`.
std::string group_name(std::string_view text, size_t& at, char end);

}  // namespace millrace::nf::nids::regex
