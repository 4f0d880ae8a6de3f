// How often something may come: * + ? {n} {n,} {n,m}.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::nf::nids::regex {

struct Repetition {
    uint32_t least, most;  ///< `most` may be kUnlimited
};

/// The repetition at `text[at]`, which is left behind it; nothing where none stands there. Throws Refusal.
std::optional<Repetition> take_repetition(std::string_view text, size_t& at);
/// The same of counts in braces only. Braces around anything else are bytes like any other, and left.
std::optional<Repetition> take_counts(std::string_view text, size_t& at);

}  // namespace millrace::nf::nids::regex
