// Named sets of bytes: \d \w \s \h \v, [:alpha:], and the case of letters, all of ASCII (the C locale).
#pragma once

#include <string_view>

#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex {

ByteSet one_byte(uint8_t byte);
ByteSet byte_range(uint8_t from, uint8_t to);
/// The set with both cases of each letter that it has in one.
ByteSet both_cases(const ByteSet& set);
/// Of \d \w \s \h \v \N and, in capitals, what is not in them; nothing for other letters.
std::optional<ByteSet> escape_class(char letter);
/// Of a POSIX name such as "alpha".
std::optional<ByteSet> posix_class(std::string_view name);

}  // namespace millrace::nf::nids::regex
